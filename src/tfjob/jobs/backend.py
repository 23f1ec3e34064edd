"""The protocol of a place that runs jobs, this machine or a Kubernetes cluster, for commands and other callers.

    record = await backend.find("mnist")
    async for lines in backend.logs(record, LogQuery(tail=10)): ...

A backend belongs to one namespace. Commands use its synchronous form, `jobs.sync_backend`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tfjob.api.objects import Deployment
from tfjob.api.types import API_VERSION, ORIGIN, TFJob, TFJobStatus
from tfjob.controller.actions import RecordedEvent
from tfjob.controller.kind import SUSPEND_REASON
from tfjob.errors import InvalidRequest, UserError
from tfjob.plan.facts.conditions import is_finished

if TYPE_CHECKING:
    from tfjob.jobs.port_forward import Forwarded, ForwardRequest


@dataclass(frozen=True)
class Record:
    """A TFJob, or a Deployment of this machine, with what its backend knows of it.

    It may be all that is left of the job (`current` is false then).

    `state` and `reason` are as people should see them. `folder` is where its record lies on this machine, if anywhere,
    and `options` is what a command line needs beside the job's name to mean this job. A `note` says what the job itself
    does not know: that nobody looks after it.
    """

    object: TFJob | Deployment
    id: str
    state: str
    reason: str
    created: datetime
    current: bool = True
    attached: bool = False
    folder: str = ""
    options: str = ""
    note: str = ""

    @property
    def name(self) -> str:
        return self.object.metadata.name

    @property
    def namespace(self) -> str:
        return self.object.metadata.namespace

    @property
    def job(self) -> TFJob:
        """The TFJob. Raises InvalidRequest for a Deployment."""
        if isinstance(self.object, TFJob):
            return self.object
        raise InvalidRequest(f"{self.id} is a Deployment, and not a TFJob")

    @property
    def written_for(self) -> str:
        """The apiVersion of its manifest."""
        default = API_VERSION if isinstance(self.object, TFJob) else self.object.api_version
        return self.object.metadata.annotations.get(ORIGIN, default)

    @property
    def status(self) -> TFJobStatus:
        return summary(self.object)

    @property
    def is_suspended(self) -> bool:
        """Whether its spec says that it must not run."""
        return is_suspended(self.object)

    @property
    def is_server(self) -> bool:
        """Whether it runs until it is stopped."""
        return isinstance(self.object, Deployment)

    @property
    def has_tensorboard(self) -> bool:
        return isinstance(self.object, TFJob) and self.object.spec.tensor_board is not None

    @property
    def uid(self) -> str:
        """What tells it from another job of its name."""
        return self.object.metadata.uid

    @property
    def is_finished(self) -> bool:
        """Whether the job has succeeded or failed."""
        return is_finished(self.status)


def summary(owner: TFJob | Deployment) -> TFJobStatus:
    """Return how a job or a Deployment stands, in the fields of a TFJob's status; a Deployment has some of them."""
    if isinstance(owner, TFJob):
        return owner.status
    status = owner.status
    return TFJobStatus(
        state=status.state,
        reason="" if status.state == "Running" else status.reason,
        message=status.message,
        ready=f"{status.ready_replicas}/{owner.wanted_replicas}",
        restarts=status.restarts,
        attempt=1,
        start_time=owner.metadata.creation_timestamp,
    )


def is_suspended(owner: TFJob | Deployment) -> bool:
    if isinstance(owner, TFJob):
        return owner.spec.run_policy.suspend
    return SUSPEND_REASON in owner.metadata.annotations


@dataclass(frozen=True)
class Replica:
    """A task that a job asks for, with the state of its pod if it ever had one.

    `shown` is what people should read where the phase alone would mislead them; `node` is the machine that its pod was
    given, where there are several; `start` is how it was started where that can differ: `warm`, or `cold: ` and why,
    and `could_be_warm` is false for a program that has nothing to do with TensorFlow; `pid` is its main process where
    that runs on this machine.
    """

    name: str
    phase: str = "-"
    shown: str = ""
    attempts: int = 0
    restarts: int = 0
    exit_code: int | None = None
    address: str = ""
    node: str = ""
    resources: dict[str, Any] = field(default_factory=dict)
    start: str = ""
    could_be_warm: bool = True
    pid: int | None = None


class Usage(NamedTuple):
    """What a replica uses now: cores and bytes; None where nobody can tell."""

    cpu: float | None
    memory: int | None


class Line(NamedTuple):
    """One line of output; a `notice` is not the program's but says that something is missing here."""

    time: datetime
    replica: str
    text: str
    more: bool = False
    notice: bool = False


@dataclass(frozen=True)
class LogQuery:
    """Which lines: of all replicas, of one (`worker-0`), or of one of its containers (`worker-0/sidecar`)."""

    replica: str | None = None
    tail: int | None = None
    since: datetime | None = None
    previous: bool = False
    follow: bool = False


@dataclass(frozen=True)
class Board:
    """A TensorBoard within reach of a browser, a job that it shows, and whether it found no event files of that."""

    job: str
    url: str
    log_dir: str
    is_empty: bool


class NotFound(UserError):
    """No job, replica or container has that name."""


class Backend(Protocol):
    """What commands need of a place that runs jobs.

    `namespace` is the one that names are looked for in, `options` what a command line needs to mean this backend;
    `shared` says that other people have jobs here too.
    """

    namespace: str
    options: str
    shared: bool

    async def jobs(self, *, everything: bool = False, all_namespaces: bool = False) -> list[Record]:
        """The jobs, the newest last; with `everything` also the records of jobs that are gone."""

    async def find(self, name: str) -> Record:
        """The job that a name, a unique beginning of it, an id or `@latest` means. Raises NotFound."""

    async def refresh(self, record: Record) -> Record | None:
        """The same job as it is now; None when it is gone."""

    async def ensure_driven(self, records: Sequence[Record]) -> list[Record]:
        """Make sure that jobs which should make progress do, and return them as they are now.

        On this machine it starts a driver for a job that needs one and has none; a job that was cut off becomes
        Suspended. No method that only reads does this. A job that is gone is returned as it was.
        """

    async def pause(self, record: Record, seconds: float) -> None:
        """Waits until the job may have changed, at most so long."""

    async def replicas(self, record: Record) -> list[Replica]:
        """Every replica that the job asks for."""

    async def events(self, record: Record) -> list[RecordedEvent]:
        """What happened to the job, in order."""

    async def storage(self, record: Record) -> str:
        """Where the job's own storage is, a folder or a claim; empty while nothing was kept."""

    async def log_labels(self, record: Record, replica: str | None = None) -> list[str]:
        """How the lines of the containers that `replica` means are called: those that have, or had, a log."""

    def logs(self, record: Record, query: LogQuery) -> AsyncGenerator[list[Line], None]:
        """Lines by time, in batches; closing the generator ends the reading.

        While it follows a job, an empty batch comes from time to time.
        """

    async def documents(self, record: Record) -> dict[str, Any]:
        """The job and its pods as they are stored, for a bug report: plain objects by file name."""

    async def change(self, record: Record, change: Callable[[Any], Any]) -> Record:
        """Edits the object of a record; the edit is made again if somebody else was faster."""

    async def wait_until_stopped(self, record: Record) -> None:
        """Waits until nothing of a suspended job runs any longer."""

    async def suspend(self, record: Record, reason: str) -> Record:
        """End the replicas of a job and keep its record."""

    async def resume(self, record: Record) -> Record:
        """Lets a suspended job go on."""

    async def delete(self, record: Record) -> None:
        """Ends the job if it lives and removes what it left; returns when it is gone."""

    async def running(self, record: Record) -> dict[str, list[str]]:
        """The replicas that run now, each with its containers, the main one first."""

    async def execute(self, record: Record, replica: str, container: str, command: Sequence[str], *, tty: bool) -> int:
        """Runs a command in a container with this process's input and output; returns its exit code."""

    async def tensorboard(
        self, records: Sequence[Record], port: int | None, ready: Callable[[Sequence[Board]], None]
    ) -> None:
        """Makes the TensorBoards of jobs that ask for one reachable at ports of this machine, until interrupted.

        No port means the usual one or, if that is taken, any. `ready` is called once with a board for each job, when
        all of them answer; where one TensorBoard shows them all, they have the same URL.
        """

    async def port_forward(
        self, request: ForwardRequest, ready: Callable[[Sequence[Forwarded]], None], warn: Callable[[str], None]
    ) -> None:
        """Makes ports of pods reachable at ports of this machine, until interrupted.

        `ready` is called once, when all of them are open; `warn` whenever a connection fails or the pod is another one.
        """

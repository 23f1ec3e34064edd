"""The protocol of a target that runs jobs, this machine or a Kubernetes cluster, for commands and other callers.

    record = await backend.find("mnist")
    async for lines in backend.logs(record, LogQuery(tail=10)): ...

A backend belongs to one namespace. Commands use its synchronous form, `jobs.sync_backend`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tfjob.api.objects import Deployment
from tfjob.api.types import API_VERSION, ORIGIN, TFJob, TFJobStatus
from tfjob.controller.actions import RecordedEvent
from tfjob.controller.kind import SUSPEND_REASON
from tfjob.errors import InvalidRequest
from tfjob.errors import NotFound as NotFound
from tfjob.plan.facts.conditions import is_finished

if TYPE_CHECKING:
    from tfjob.jobs.port_forward import Forwarded, ForwardRequest


@dataclass(frozen=True)
class Record:
    """A TFJob, or a Deployment on this machine, and what its backend knows about it.

    If `current` is false, the job is gone or replaced, and only its record is left. `state` and `reason` are for
    display. `folder` is its record on this machine, if there is one. `options` are those that a command line needs, in
    addition to the name, to address the job. A `note` is about its controller: that none has looked at the job.
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
        raise InvalidRequest(f"{self.id} is a Deployment, not a TFJob")

    @property
    def written_for(self) -> str:
        default = API_VERSION if isinstance(self.object, TFJob) else self.object.api_version
        return self.object.metadata.annotations.get(ORIGIN, default)

    @property
    def status(self) -> TFJobStatus:
        return summary(self.object)

    @property
    def is_suspended(self) -> bool:
        return is_suspended(self.object)

    @property
    def is_server(self) -> bool:
        """Whether it is a Deployment, which runs until it is stopped."""
        return isinstance(self.object, Deployment)

    @property
    def has_tensorboard(self) -> bool:
        return isinstance(self.object, TFJob) and self.object.spec.tensor_board is not None

    @property
    def uid(self) -> str:
        return self.object.metadata.uid

    @property
    def is_finished(self) -> bool:
        return is_finished(self.status)


def summary(owner: TFJob | Deployment) -> TFJobStatus:
    """Return the status of a job; for a Deployment, the fields of a TFJob's status that it has."""
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
    """A replica of a job, with the state of its pod if it ever had one.

    `shown` replaces a `phase` that alone would be misleading. `node` is the node of its pod on a cluster. `start` is
    `warm`, or `cold: ` and the reason, and `could_be_warm` is false for a program that does not use TensorFlow. `pid`
    is its main process on this machine, and `log_lost` the number of bytes of its output that could not be written.
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
    log_lost: int = 0


class Usage(NamedTuple):
    """CPU cores and bytes in use; None if unknown."""

    cpu: float | None
    memory: int | None


class Line(NamedTuple):
    """One line of output, or with `more` a part of one. A `notice` of tfjob reports missing lines."""

    time: datetime
    replica: str
    text: str
    more: bool = False
    notice: bool = False


@dataclass(frozen=True)
class LogQuery:
    """Which lines to read: of all replicas, of one (`worker-0`), or of one container (`worker-0/sidecar`)."""

    replica: str | None = None
    tail: int | None = None
    since: datetime | None = None
    previous: bool = False
    follow: bool = False


@dataclass(frozen=True)
class Board:
    """The TensorBoard of a job; `is_empty` if it found no event files."""

    job: str
    url: str
    log_dir: str
    is_empty: bool


class Backend(Protocol):
    """The operations on jobs of one target.

    Names are looked up in `namespace`. `options` are those that a command line needs to use this backend. A `shared`
    backend also has jobs of other people.
    """

    namespace: str
    options: str
    shared: bool

    async def jobs(self, *, everything: bool = False, all_namespaces: bool = False) -> list[Record]:
        """Return the jobs, the newest last; with `everything` also earlier runs and records of deleted jobs."""

    async def find(self, name: str) -> Record:
        """Find a job by name, unique prefix, id or `@latest`. Raises NotFound."""

    async def refresh(self, record: Record) -> Record | None:
        """Return the present state of a job; None if it is gone."""

    async def ensure_driven(self, records: Sequence[Record]) -> list[Record]:
        """Make sure that active jobs have a driver, and return their present state.

        On this machine, start a driver for each job that needs one and has none; an interrupted job becomes Suspended.
        Methods that only read do not do this. A job that is gone is returned unchanged.
        """

    async def pause(self, records: Sequence[Record], seconds: float) -> None:
        """Wait until one of the jobs may have changed, at most `seconds`."""

    async def replicas(self, record: Record) -> list[Replica]:
        """Return all replicas of the job."""

    async def events(self, record: Record) -> list[RecordedEvent]:
        """Return the events of the job, the oldest first."""

    async def storage(self, record: Record) -> str:
        """Return the folder or claim with the job's storage; empty if it holds nothing yet."""

    async def log_labels(self, record: Record, replica: str | None = None) -> list[str]:
        """Return the labels of all containers, or of one replica's, that have or had a log."""

    def logs(self, record: Record, query: LogQuery) -> AsyncGenerator[list[Line], None]:
        """Yield lines in order of time, in batches; while following, also empty batches from time to time."""

    def merged_logs(self, records: Mapping[str, Record], query: LogQuery) -> AsyncGenerator[list[Line], None]:
        """Yield the lines of several jobs, as `logs` does; the key of its job precedes the replica of each line."""

    async def documents(self, record: Record) -> dict[str, Any]:
        """Return the stored job and its pods as plain objects by file name, for a bug report."""

    async def change(self, record: Record, change: Callable[[Any], Any]) -> Record:
        """Edit the object of a record; repeat the edit after a conflict."""

    async def wait_until_stopped(self, record: Record) -> None:
        """Wait until all replicas of a suspended job have ended."""

    async def suspend(self, record: Record, reason: str) -> Record:
        """End the replicas of a job and keep its record."""

    async def resume(self, record: Record) -> Record:
        """Continue a suspended job."""

    async def request_deletion(self, record: Record) -> None:
        """Begin to end the job, without waiting; `delete` completes it."""

    async def delete(self, record: Record) -> None:
        """End the job and delete its record; return when it is gone."""

    async def running(self, record: Record) -> dict[str, list[str]]:
        """Return the running replicas and their containers, the main container first."""

    async def execute(self, record: Record, replica: str, container: str, command: Sequence[str], *, tty: bool) -> int:
        """Run a command in a container, connected to our stdin, stdout and stderr; return its exit code."""

    async def tensorboard(
        self, records: Sequence[Record], port: int | None, ready: Callable[[Sequence[Board]], None], log_dir: str = ""
    ) -> None:
        """Serve the TensorBoards of jobs on local ports, until interrupted.

        Without a port, use the usual one or, if it is taken, any free one. `ready` is called once, with a board per
        job, when all of them respond; boards of one TensorBoard have the same URL. On this machine, a TensorBoard shows
        `log_dir` if it is given, and any job has one. Raises NotFound for a job that has none.
        """

    async def port_forward(
        self, request: ForwardRequest, ready: Callable[[Sequence[Forwarded]], None], warn: Callable[[str], None]
    ) -> None:
        """Forward local ports to pods, until interrupted.

        `ready` is called once, when all ports are open; `warn` when a connection fails or goes to another pod.
        """

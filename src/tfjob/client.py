"""The Python client: submit, follow and change jobs on this machine or on a cluster.

    client = tfjob.Client()
    job = client.submit("mnist.yaml")
    for line in job.logs(follow=True):
        print(line.replica, line.text)
    job.wait()

The work runs in a thread with its own event loop, so it also works in a notebook. `tfjob.aio` is for asynchronous code.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack

from tfjob import aio
from tfjob.aio import LogOptions, Options, Status
from tfjob.api.problems import Problem
from tfjob.api.types import Verdict
from tfjob.controller.actions import RecordedEvent
from tfjob.jobs.backend import Line, Replica
from tfjob.jobs.portal import Portal

T = TypeVar("T")


class Client:
    """The jobs of one namespace of this machine (`local`) or of a cluster (`k8s`, `k8s:CONTEXT`).

    It opens its connections immediately, and closes them with `close`, at the end of `with`, or when it is collected.
    """

    def __init__(self, on: str = "local", namespace: str = "") -> None:
        client = aio.Client(on, namespace)
        self._portal = Portal()
        self._portal.__enter__()
        self.close = weakref.finalize(self, self._portal.__exit__)
        """Close the connections. A closed client cannot be used."""
        try:
            self._client = self._portal.enter(client)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self,
        file: str | Path,
        *,
        on_line: Callable[[Line], object] | None = None,
        timeout: float | None = None,
        **options: Unpack[Options],
    ) -> Job:
        """Submit a job and wait for its end. Ctrl-C or a timeout stops the job. Raises JobFailed, TimeoutError."""
        return Job(self, self._call(self._client.run(file, on_line=on_line, timeout=timeout, **options)))

    def submit(self, file: str | Path, **options: Unpack[Options]) -> Job:
        """Start the job of a manifest or script in the background. Raises InvalidManifest, InvalidRequest."""
        return Job(self, self._call(self._client.submit(file, **options)))

    def submit_all(self, file: str | Path, **options: Unpack[Options]) -> list[Job]:
        """Start every job of a manifest in the background."""
        return [Job(self, job) for job in self._call(self._client.submit_all(file, **options))]

    def check(self, file: str | Path, **options: Unpack[Options]) -> list[Problem]:
        """Return the problems and warnings of a manifest; nothing is created."""
        return self._call(self._client.check(file, **options))

    def jobs(self) -> list[Job]:
        """Return the jobs of the namespace, the newest last."""
        return [Job(self, job) for job in self._call(self._client.jobs())]

    def job(self, name: str) -> Job:
        """Return the job with this name, unique prefix, id (`mnist.2`) or `@latest`. Raises NotFound."""
        return Job(self, self._call(self._client.job(name)))

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        if not self.close.alive:
            work.close()
            raise RuntimeError("the client is closed")
        return self._portal.call(work)


class Job:
    """One job; properties and methods read its state at the time of the call."""

    def __init__(self, client: Client, job: aio.Job) -> None:
        self.name = job.name
        self.namespace = job.namespace
        self.id = job.id
        """The unique name of this run, such as `mnist.2`, which later runs of the job do not reuse."""
        self._client = client
        self._job = job
        self._call = client._call

    def __repr__(self) -> str:
        return repr(self._job)

    @property
    def status(self) -> Status:
        return self._call(self._job.status())

    @property
    def failure(self) -> Verdict | None:
        """Why the job failed; None if it did not."""
        return self._call(self._job.failure())

    @property
    def replicas(self) -> list[Replica]:
        return self._call(self._job.replicas())

    def events(self) -> list[RecordedEvent]:
        return self._call(self._job.events())

    def logs(self, replica: str | None = None, **wanted: Unpack[LogOptions]) -> Iterator[Line]:
        """Yield the lines of all replicas, of one (`worker-0`) or of one container (`worker-0/sidecar`), by time.

        `tail` is the number of lines, `since` a time or a duration; with `follow`, keep yielding until the job ends.
        """
        return self._client._portal.iterate(self._job.logs(replica, **wanted))

    def wait(self, timeout: float | None = None) -> Status:
        """Wait until the job has succeeded or is suspended. Raises JobFailed, TimeoutError."""
        return self._call(self._job.wait(timeout))

    def stop(self) -> None:
        """Stop the job and wait for its replicas to end; `resume` continues it."""
        self._call(self._job.stop())

    def suspend(self) -> None:
        """End all replicas and keep the record; `resume` continues the job."""
        self._call(self._job.suspend())

    def resume(self) -> None:
        self._call(self._job.resume())

    def scale(self, **replicas: int) -> None:
        """Change numbers of replicas: `job.scale(worker=4)`. Raises InvalidScale."""
        self._call(self._job.scale(**replicas))

    def delete(self) -> None:
        """End the job if it runs, and remove its record and logs."""
        self._call(self._job.delete())

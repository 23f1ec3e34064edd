"""What somebody does to a job while it runs, in the cases about that."""

from __future__ import annotations

from collections.abc import Callable

from support.conformance.live_job import PATIENCE, LiveJob, running
from support.running import wait_until


def suspend_and_resume(job: LiveJob) -> None:
    """All replicas end, and run again when the job is resumed."""
    job("wait", "--for", "running")
    job.until(ready="2/2")
    wait_until(lambda: "here" in job.lines("chief-0"), PATIENCE)
    job("suspend")
    job("wait", "--for", "suspended")
    found = job.status()
    assert (found["ready"], running(found)) == ("0/2", set())
    job("resume")


def begin_when_resumed(job: LiveJob) -> None:
    """A job that is suspended from the start has no replicas until it is resumed."""
    job("wait", "--for", "suspended")
    assert [one["attempts"] for one in job.status()["replicas"]] == [0]
    job("resume")


def grow(job: LiveJob) -> None:
    """One worker more, once all have met."""
    job("wait", "--for", "running")
    job.until(ready="2/2")
    wait_until(lambda: "met 1" in job.lines("chief-0"), PATIENCE)
    job("scale", "worker=2")


def scale_beside_servers(job: LiveJob) -> None:
    """Add a worker, and remove it again: the other replicas keep running."""
    job("wait", "--for", "running")
    job.until(state="Running", ready="3/3")
    job("scale", "worker=2")
    job.until(state="Running", ready="4/4")
    job("scale", "worker=1")
    job.until(state="Running", ready="3/3")
    let_end(job, "/shared/enough")


def end_when_restarts_are_told(count: int) -> Callable[[LiveJob], None]:
    """End the job only after its status counts all restarts in place, of which it learns from the pods."""

    def script(job: LiveJob) -> None:
        job.until_it(lambda found: found.get("restarts") == count and "chief-0" in running(found))
        let_end(job, f"/shared/{job.name}-told")

    return script


def let_end(job: LiveJob, file: str, replica: str = "chief-0") -> None:
    """Makes the file that the chief, or another replica, waits for."""
    # Whether it succeeds is open: the replica ends with the file, and whatever runs in it ends with the replica.
    job.tool("exec", job.name, replica, "--", "python", "standin.py", "make", file)


def let_evaluator_end(job: LiveJob) -> None:
    """Lets the evaluator end when the job waits only for it."""
    found = job.until(reason="WaitingForEvaluator")
    assert found["state"] == "Running"
    job.until_it(lambda found: running(found) == {"evaluator-0"})
    let_end(job, "/shared/evaluated", "evaluator-0")


def see_the_server_go(job: LiveJob) -> None:
    """No replica runs after the end of the job."""
    job("wait", "--for", "succeeded")
    job.until_it(lambda found: not running(found))


def see_the_server_stay(job: LiveJob) -> None:
    """The parameter server keeps running after the end of the job, until the job is deleted."""
    job("wait", "--for", "succeeded")
    job.until_it(lambda found: running(found) == {"ps-0"})  # it may still be starting when the chief has ended
    job("delete", "--yes")


def see_it_go(job: LiveJob) -> None:
    """The job removes itself after its end."""
    waited = job.tool("wait", "brief", "--for", "succeeded")
    assert waited.returncode in (0, 3), waited  # 3: on a busy machine, the job may be deleted before `wait` reads it
    job.until_it(lambda found: not found.get("current"))

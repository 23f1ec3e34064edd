"""`tfjob stop`, `suspend`, `resume` and `scale`: change the spec of a job, and the controller acts on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tfjob.cli.completion import JOB
from tfjob.cli.context import On, find_job, job_options, open_backend
from tfjob.cli.output import print_job
from tfjob.cli.selection import Results, is_active, jobs_argument, names_several, select_jobs
from tfjob.errors import InvalidRequest

if TYPE_CHECKING:
    from tfjob.jobs.backend import Record


PATTERNS = (
    "JOB is a name, a unique prefix, or a quoted pattern of names ('mnist-*'), which selects active jobs. An error of "
    "one job does not affect the others, and the exit code is the highest of all jobs."
)


def _suspending(name: str, reason: str, text: str) -> click.Command:
    """Return a command that suspends jobs for a reason."""

    @click.command(name, help=text)
    @jobs_argument(f"{name.capitalize()} all active jobs of the namespace.")
    @click.option("--no-wait", is_flag=True, help="Do not wait until the replicas have ended.")
    @job_options
    def command(jobs: tuple[str, ...], every: bool, no_wait: bool, on: On, namespace: str, output: str) -> int:
        with open_backend(on, namespace, write=True) as there:
            found = select_jobs(there, jobs, every=every, suits=is_active, what="active job")
            results = Results(found, output, is_list=names_several(jobs))
            stopping = []
            for record in found:
                with results.of(record):
                    stopping.append(there.suspend(_unfinished(record), reason))
            for record in stopping:
                with results.of(record):
                    if not no_wait:
                        there.wait_until_stopped(record)
                        record = there.refresh(record) or record
                    results.add(record, _result(record, reason, is_done=not no_wait))
            return results.report(f"no job is active in namespace '{there.namespace}'")

    return command


stop = _suspending(
    "stop",
    "Stopped",
    "Stop jobs gracefully: replicas get SIGTERM and their grace period. `tfjob resume` continues a job. On this "
    "machine, a new job of the same name replaces a stopped job; `tfjob suspend` reserves the name. "
    "If all replicas of a job on this machine exit 0 after SIGTERM, the job has succeeded and cannot be resumed. After "
    "`tfjob suspend`, a job can always be resumed.\n\n" + PATTERNS,
)
suspend = _suspending(
    "suspend",
    "Suspended",
    "Suspend jobs gracefully: replicas get SIGTERM and their grace period. `tfjob resume` continues a job. Until "
    "you resume or delete it, no other job of the same name can run.\n\n" + PATTERNS,
)


@click.command()
@click.argument("job", type=JOB)
@job_options
def resume(job: str, on: On, namespace: str, output: str) -> None:
    """Continue a stopped, suspended or interrupted job in the background.

    A new attempt starts. Programs that save checkpoints continue from the last one.
    """
    with open_backend(on, namespace, write=True) as there:
        record = _unfinished(find_job(there, job))
        if not record.is_suspended:
            raise InvalidRequest(f"{record.id} cannot be resumed: it is {record.state}, not Suspended")
        print_job(there.resume(record), output, f"{record.name} continues in the background")


@click.command()
@click.argument("job", type=JOB)
@click.argument("counts", nargs=-1, required=True, metavar="TYPE=COUNT...")
@job_options
def scale(job: str, counts: tuple[str, ...], on: On, namespace: str, output: str) -> None:
    """Change the number of replicas, for example: tfjob scale mnist worker=4.

    For a Deployment, use replicas=N.

    A job without parameter servers starts a new attempt with a new TF_CONFIG. With parameter servers, only the
    additional replicas start, or the surplus ones end.
    """
    from tfjob.jobs.scale import names_of, scaled

    with open_backend(on, namespace, write=True) as there:
        record = _unfinished(find_job(there, job))
        wanted = parse_counts(counts, names_of(record.object))
        scaled(record.object, wanted)  # reject invalid counts before anything is sent
        record = there.change(record, lambda stored: scaled(stored, wanted))
        print_job(record, output, f"{record.name} scaled to {' '.join(counts)}")


def _result(record: Record, reason: str, *, is_done: bool) -> str:
    if record.is_finished:
        from tfjob.cli.terminal.result import ending

        return ending(record)  # its replicas had no work left
    done = f"is {reason.lower()}" if is_done else f"is being {reason.lower()}"
    return f"{record.name} {done}. To continue it: tfjob resume {record.name}{record.options}"


def parse_counts(words: tuple[str, ...], names: Sequence[str]) -> dict[str, int]:
    """Return the counts of arguments such as `worker=4` by name."""
    counts = {}
    for word in words:
        name, _, count = word.partition("=")
        if not count:
            known = " or ".join(f"{name}={word if word.isdecimal() else 'N'}" for name in names)
            missing = "replica type" if word.isdecimal() else "number of replicas"
            raise InvalidRequest(f"'{word}' has no {missing}", f"Use {known}.")
        if not (count.isascii() and count.isdecimal()):
            raise InvalidRequest(f"invalid number of replicas '{count}' in '{word}'", "Use a whole number, 0 or more.")
        counts[name] = int(count)
    return counts


def _unfinished(record: Record) -> Record:
    if not record.current:
        raise InvalidRequest(f"{record.id} was deleted or replaced by a later run: only its record and logs are left")
    if record.is_finished:
        raise InvalidRequest(
            f"{record.id} has already ended: its state is {record.state}",
            f"To see its result: tfjob status {record.name}{record.options}",
        )
    return record

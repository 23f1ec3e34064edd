"""`tfjob stop`, `suspend`, `resume` and `scale`: changes of a job's spec, which its controller carries out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tfjob.cli import exit_codes
from tfjob.cli.completion import JOB
from tfjob.cli.context import On, find_job, is_quiet, job_options, open_backend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfjob.jobs.backend import Record


@click.command()
@click.argument("job", type=JOB)
@click.option("--no-wait", is_flag=True, help="Do not wait until its replicas have ended.")
@job_options
def stop(job: str, no_wait: bool, on: On, namespace: str, output: str) -> None:
    """Stop a job in order: every replica gets SIGTERM and its grace; `tfjob resume` continues it."""
    _suspend(job, on, namespace, "Stopped", output, wait=not no_wait)


@click.command()
@click.argument("job", type=JOB)
@click.option("--no-wait", is_flag=True, help="Do not wait until its replicas have ended.")
@job_options
def suspend(job: str, no_wait: bool, on: On, namespace: str, output: str) -> None:
    """Suspend a job: its replicas end, its record stays; `tfjob resume` continues it."""
    _suspend(job, on, namespace, "Suspended", output, wait=not no_wait)


@click.command()
@click.argument("job", type=JOB)
@job_options
def resume(job: str, on: On, namespace: str, output: str) -> None:
    """Continue a job that was stopped, suspended or cut off, in the background.

    A new attempt starts; programs that keep checkpoints go on from the last one.
    """
    with open_backend(on, namespace, write=True) as there:
        record = _unfinished(find_job(there, job))
        if not record.is_suspended:
            raise exit_codes.Stop(exit_codes.BAD_INPUT, f"{record.id} is not suspended: it is {record.state}")
        _show(there.resume(record), output, f"{record.name} continues in the background")


@click.command()
@click.argument("job", type=JOB)
@click.argument("counts", nargs=-1, required=True, metavar="TYPE=COUNT...")
@job_options
def scale(job: str, counts: tuple[str, ...], on: On, namespace: str, output: str) -> None:
    """Change the number of replicas, for example: tfjob scale mnist worker=4.

    The replicas of a Deployment are scaled with replicas=N.

    A job of collectives starts a new attempt with a new TF_CONFIG; with parameter servers only the difference starts
    or ends.
    """
    from tfjob.jobs.scale import names_of, scaled

    with open_backend(on, namespace, write=True) as there:
        record = _unfinished(find_job(there, job))
        wanted = parse_counts(counts, names_of(record.object))
        scaled(record.object, wanted)  # before anything is sent
        record = there.change(record, lambda stored: scaled(stored, wanted))
        _show(record, output, f"{record.name} scaled to {' '.join(counts)}")


def parse_counts(words: tuple[str, ...], names: Sequence[str]) -> dict[str, int]:
    """Return the numbers in words like `worker=4`."""
    counts = {}
    for word in words:
        name, _, count = word.partition("=")
        if not count:
            known = ", ".join(f"{name}=N" for name in names)
            raise exit_codes.Stop(exit_codes.BAD_INPUT, f"{word}: it says no number of replicas", f"Write {known}.")
        if not (count.isascii() and count.isdecimal()):
            hint = "Write a whole number, 0 or more."
            raise exit_codes.Stop(exit_codes.BAD_INPUT, f"{word}: {count} is no number of replicas", hint)
        counts[name] = int(count)
    return counts


def _suspend(job: str, on: On, namespace: str, reason: str, output: str, *, wait: bool) -> None:
    with open_backend(on, namespace, write=True) as there:
        record = there.suspend(_unfinished(find_job(there, job)), reason)
        if wait:
            there.wait_until_stopped(record)
            record = there.refresh(record) or record
        name, done = record.name, "is suspended" if wait else "is being suspended"
        _show(record, output, f"{name} {done}; continue it with: tfjob resume {name}{record.options}")


def _unfinished(record: Record) -> Record:
    if not record.current:
        raise exit_codes.Stop(exit_codes.BAD_INPUT, f"{record.id} is a record: its job is gone")
    if record.is_finished:
        raise exit_codes.Stop(exit_codes.BAD_INPUT, f"{record.id} has ended: it is {record.state}")
    return record


def _show(record: Record, output: str, text: str) -> None:
    from tfjob.cli.output import print_object
    from tfjob.jobs.output import job_shape

    if output != "text":
        print_object("Job", job_shape(record), output)
    elif not is_quiet():
        click.echo(text)

"""`tfjob stop`, `suspend`, `resume` and `scale`: changes of a job's spec, which its controller carries out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from tfjob.cli import exit_codes
from tfjob.cli.completion import JOB
from tfjob.cli.context import On, find_job, is_quiet, namespace_option, on_option, open_backend, output_option

if TYPE_CHECKING:
    from tfjob.api.types import TFJob
    from tfjob.jobs.backend import Record


@click.command()
@click.argument("job", type=JOB)
@click.option("--no-wait", is_flag=True, help="Do not wait until its replicas have ended.")
@on_option
@namespace_option
@output_option
def stop(job: str, no_wait: bool, on: On, namespace: str, output: str) -> None:
    """Stop a job in order: every replica gets SIGTERM and its grace; `tfjob resume` continues it."""
    _suspend(job, on, namespace, "Stopped", output, wait=not no_wait)


@click.command()
@click.argument("job", type=JOB)
@click.option("--no-wait", is_flag=True, help="Do not wait until its replicas have ended.")
@on_option
@namespace_option
@output_option
def suspend(job: str, no_wait: bool, on: On, namespace: str, output: str) -> None:
    """Suspend a job: its replicas end, its record stays; `tfjob resume` continues it."""
    _suspend(job, on, namespace, "Suspended", output, wait=not no_wait)


@click.command()
@click.argument("job", type=JOB)
@on_option
@namespace_option
@output_option
def resume(job: str, on: On, namespace: str, output: str) -> None:
    """Continue a job that was stopped, suspended or cut off, in the background.

    A new attempt starts; programs that keep checkpoints go on from the last one.
    """
    with open_backend(on, namespace, write=True) as there:
        record = _unfinished(find_job(there, job))
        if not record.job.spec.run_policy.suspend:
            raise exit_codes.Stop(exit_codes.BAD_INPUT, f"{record.id} is not suspended: it is {record.state}")
        _show(there.resume(record), output, f"{record.name} continues in the background")


@click.command()
@click.argument("job", type=JOB)
@click.argument("counts", nargs=-1, required=True, metavar="TYPE=COUNT...")
@on_option
@namespace_option
@output_option
def scale(job: str, counts: tuple[str, ...], on: On, namespace: str, output: str) -> None:
    """Change the number of replicas, for example: tfjob scale mnist worker=4.

    A job of collectives starts a new attempt with a new TF_CONFIG; with parameter servers only the difference starts
    or ends.
    """
    from tfjob.api.validation import validate

    with open_backend(on, namespace, write=True) as there:
        record = _unfinished(find_job(there, job))
        wanted = scaled(record.job, counts)
        faults = [problem for problem in validate(wanted) if not problem.warning]
        if faults:
            raise exit_codes.Stop(exit_codes.BAD_INPUT, "\n".join(str(problem) for problem in faults))
        record = there.change(record, lambda stored: scaled(stored, counts))
        _show(record, output, f"{record.name} scaled to {' '.join(counts)}")


def scaled(job: TFJob, counts: tuple[str, ...]) -> TFJob:
    """The job with new numbers of replicas; the words are like `worker=4`."""
    from tfjob.api.suggest import did_you_mean

    specs = dict(job.spec.tf_replica_specs)
    names = {name.lower(): name for name in specs}
    for word in counts:
        name, _, count = word.partition("=")
        known = ", ".join(f"{known}=N" for known in names)
        if not count:
            raise exit_codes.Stop(exit_codes.BAD_INPUT, f"{word}: it says no number of replicas", f"Write {known}.")
        if name.lower() not in names:
            hint = " ".join(filter(None, (did_you_mean(name, names).capitalize(), f"The job has {', '.join(names)}.")))
            raise exit_codes.Stop(exit_codes.BAD_INPUT, f"{word}: the job has no replica type {name}", hint)
        if not (count.isascii() and count.isdecimal()):
            hint = "Write a whole number, 0 or more."
            raise exit_codes.Stop(exit_codes.BAD_INPUT, f"{word}: {count} is no number of replicas", hint)
        key = names[name.lower()]
        specs[key] = replace(specs[key], replicas=int(count))
    return replace(job, spec=replace(job.spec, tf_replica_specs=specs))


def _suspend(job: str, on: On, namespace: str, reason: str, output: str, *, wait: bool) -> None:
    from tfjob.plan.policy.suspension import suspended

    with open_backend(on, namespace, write=True) as there:
        record = there.change(_unfinished(find_job(there, job)), lambda stored: suspended(stored, reason))
        if wait:
            there.wait_until_stopped(record)
            record = there.refresh(record) or record
        name, done = record.name, "is suspended" if wait else "is being suspended"
        _show(record, output, f"{name} {done}; continue it with: tfjob resume {name}{record.options}")


def _unfinished(record: Record) -> Record:
    from tfjob.plan.facts.conditions import is_finished

    if not record.current:
        raise exit_codes.Stop(exit_codes.BAD_INPUT, f"{record.id} is a record: its job is gone")
    if is_finished(record.job.status):
        raise exit_codes.Stop(exit_codes.BAD_INPUT, f"{record.id} has ended: it is {record.job.status.state}")
    return record


def _show(record: Record, output: str, text: str) -> None:
    from tfjob.cli.output import print_object
    from tfjob.jobs.output import job_shape

    if output != "text":
        print_object("Job", job_shape(record), output)
    elif not is_quiet():
        click.echo(text)

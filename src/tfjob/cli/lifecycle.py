"""`tfjob stop`, `suspend`, `resume` and `scale`: changes of a job's spec, which its driver carries out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from tfjob.cli import outcome
from tfjob.cli.context import find_run, namespace_option, output_option, state

if TYPE_CHECKING:
    from tfjob.api.types import TFJob
    from tfjob.local.home import Home
    from tfjob.local.store import Run, Store

POLL_SECONDS = 0.1


@click.command()
@click.argument("job")
@click.option("--no-wait", is_flag=True, help="Do not wait until its replicas have ended.")
@namespace_option
@output_option
def stop(job: str, no_wait: bool, namespace: str, output: str) -> None:
    """Stop a job in order: every replica gets SIGTERM and its grace; `tfjob resume` continues it."""
    _suspend(job, namespace, "Stopped", output, wait=not no_wait)


@click.command()
@click.argument("job")
@click.option("--no-wait", is_flag=True, help="Do not wait until its replicas have ended.")
@namespace_option
@output_option
def suspend(job: str, no_wait: bool, namespace: str, output: str) -> None:
    """Suspend a job: its replicas end, its record stays; `tfjob resume` continues it."""
    _suspend(job, namespace, "Suspended", output, wait=not no_wait)


@click.command()
@click.argument("job")
@namespace_option
@output_option
def resume(job: str, namespace: str, output: str) -> None:
    """Continue a job that was stopped, suspended or cut off, in the background.

    A new attempt starts; programs that keep checkpoints go on from the last one.
    """
    from tfjob.local.driving import is_driven, resumed, start_background
    from tfjob.local.home import boot_id

    with state(write=True) as (home, store):
        run = _unfinished(find_run(home, store, job, namespace))
        if not run.job.spec.run_policy.suspend:
            raise outcome.Stop(
                outcome.BAD_INPUT, f"{run.id} is not suspended: it is {run.job.status.state or 'Pending'}"
            )
        while is_driven(run):  # what it was doing before must have come to rest
            time.sleep(POLL_SECONDS)
        store.set_attached(run.job.metadata.uid, attached=False, boot=boot_id())
        store.update_job(run.job.metadata.uid, resumed)
        start_background(home, run)
        _show(store, run, output, f"{run.job.metadata.name} continues in the background")


@click.command()
@click.argument("job")
@click.argument("counts", nargs=-1, required=True, metavar="TYPE=COUNT...")
@namespace_option
@output_option
def scale(job: str, counts: tuple[str, ...], namespace: str, output: str) -> None:
    """Change the number of replicas, for example: tfjob scale mnist worker=4.

    A job of collectives starts a new attempt with a new TF_CONFIG; with parameter servers only the difference starts
    or ends.
    """
    from tfjob.api.validation import validate

    with state(write=True) as (home, store):
        run = _unfinished(find_run(home, store, job, namespace))
        wanted = scaled(run.job, counts)
        faults = [problem for problem in validate(wanted) if not problem.warning]
        if faults:
            raise outcome.Stop(outcome.BAD_INPUT, "\n".join(str(problem) for problem in faults))
        store.update_job(run.job.metadata.uid, lambda stored: scaled(stored, counts))
        find_run(home, store, run.id, namespace)
        _show(store, run, output, f"{run.job.metadata.name} scaled to {' '.join(counts)}")


def scaled(job: TFJob, counts: tuple[str, ...]) -> TFJob:
    """The job with new numbers of replicas; the words are like `worker=4`."""
    specs = dict(job.spec.tf_replica_specs)
    names = {name.lower(): name for name in specs}
    for word in counts:
        name, _, count = word.partition("=")
        if name.lower() not in names or not count.isdecimal():
            known = ", ".join(f"{known}=N" for known in names)
            raise outcome.Stop(outcome.BAD_INPUT, f"{word}: write one of {known}")
        key = names[name.lower()]
        specs[key] = replace(specs[key], replicas=int(count))
    return replace(job, spec=replace(job.spec, tf_replica_specs=specs))


def _suspend(job: str, namespace: str, reason: str, output: str, *, wait: bool) -> None:
    from tfjob.local.driving import suspended

    with state(write=True) as (home, store):
        run = _unfinished(find_run(home, store, job, namespace))
        store.update_job(run.job.metadata.uid, lambda stored: suspended(stored, reason))
        if wait:
            _until_rest(home, store, run)
        name, done = run.job.metadata.name, "is suspended" if wait else "is being suspended"
        _show(store, run, output, f"{name} {done}; continue it with: tfjob resume {name}")


def _until_rest(home: Home, store: Store, run: Run) -> None:
    from tfjob.local.driving import ensure_driven, is_settled

    uid = run.job.metadata.uid
    while not is_settled(store, uid):
        present = store.run(uid)
        if present is not None:
            ensure_driven(home, store, present)
        time.sleep(POLL_SECONDS)


def _unfinished(run: Run) -> Run:
    from tfjob.plan.plan import is_finished

    if not run.current:
        raise outcome.Stop(outcome.BAD_INPUT, f"{run.id} is a record: its job is gone")
    if is_finished(run.job.status):
        raise outcome.Stop(outcome.BAD_INPUT, f"{run.id} has ended: it is {run.job.status.state}")
    return run


def _show(store: Store, run: Run, output: str, text: str) -> None:
    from tfjob.cli.shapes import print_json, run_shape

    if output == "json":
        print_json("Job", run_shape(store.run(run.job.metadata.uid) or run))
    else:
        click.echo(text)

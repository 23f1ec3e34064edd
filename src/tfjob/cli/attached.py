"""An attached run: this process drives the jobs, shows what they say, and ends with their exit code."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence

import click

from tfjob.cli import outcome
from tfjob.cli.context import state
from tfjob.cli.display import Display, show_troubles
from tfjob.cli.report import ending
from tfjob.cli.shapes import job_shape, print_list
from tfjob.cli.starting import start_all
from tfjob.local.console import record
from tfjob.local.driver import Driver
from tfjob.local.home import Home
from tfjob.local.store import open_store
from tfjob.local.submission import Started, Submission
from tfjob.plan.plan import is_finished


def attach(wanted: Sequence[Submission], output: str) -> int:
    """Runs every job in this process, shows its logs, and ends with the worst of their exit codes."""
    with state(write=True) as (home, store):
        started = start_all(home, store, wanted, attached=True)
        asyncio.run(drive_all(home, started, quiet=output == "json"))
        left = (store.run(one.run.job.metadata.uid) for one in started)
        ended = [record(run) for run in left if run is not None]
    if output == "json":
        print_list("Job", [job_shape(one) for one in ended])
    else:
        for one in ended:
            click.echo(ending(one))
        for begun in started:
            if begun.run.id not in {one.id for one in ended}:
                click.echo(f"{begun.run.name} was deleted")
    if not all(is_finished(one.job.status) for one in ended):
        return outcome.INTERRUPTED
    succeeded = all(one.job.status.state == "Succeeded" for one in ended) and len(ended) == len(started)
    return outcome.SUCCEEDED if succeeded else outcome.FAILED


async def drive_all(home: Home, started: Sequence[Started], *, quiet: bool) -> None:
    """Drives runs until all are at rest; Ctrl-C stops them, a second one kills."""
    drivers = []
    displays = []
    for one in started:
        # A connection each: what one driver has seen of the store must not hide it from another.
        store = open_store(home.database)
        display = Display(store, one.run, several=len(started) > 1)
        drivers.append(
            Driver(home, store, one.run, attached=True, lock=one.lock, on_news=None if quiet else display.news)
        )
        displays.append(display)
    for display in displays:
        display.width = max(other.width for other in displays)
    show_troubles(displays[0])
    interrupts = 0

    def interrupt() -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts == 1:
            click.echo("stopping; press Ctrl-C again to kill", err=True)
        for driver in drivers:
            driver.stop() if interrupts == 1 else driver.kill()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, interrupt)
    for display in () if quiet else displays:
        display.begin()
    try:
        ticks = [(lambda: None) if quiet else display.tick for display in displays]
        await asyncio.gather(*(driver.drive(tick) for driver, tick in zip(drivers, ticks, strict=True)))
    finally:
        for display in () if quiet else displays:
            display.finish()
        for driver in drivers:
            driver.store.close()

"""An attached run: show the logs of jobs until they end, and return their exit code.

`tfjob run` drives jobs of this machine in this process, and Ctrl-C stops them. From jobs of a cluster, and from jobs
that another process drives, Ctrl-C only detaches.
"""

from __future__ import annotations

import asyncio
import math
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tfjob.cli import exit_codes
from tfjob.cli.context import is_quiet
from tfjob.cli.notices import show_troubles
from tfjob.cli.terminal.lines import displays
from tfjob.cli.terminal.result import report_detached, report_result
from tfjob.cli.terminal.screen import Screen
from tfjob.errors import UserError

if TYPE_CHECKING:
    from tfjob.launch.drive import DrivenJobs
    from tfjob.launch.follow import FollowedJobs
    from tfjob.launch.watch import WatchedJobs

    Attached = DrivenJobs | FollowedJobs | WatchedJobs

STOPS = "Ctrl-C stops the job (tfjob resume continues it); a second Ctrl-C kills it"
KILLS = "killing the replicas"
DETACHES = "Ctrl-C detaches; the job keeps running"
LOG_FILE = "controller.log"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def attach(attached: Attached, output: str, *, plain: bool, status: Callable[[], str] = str) -> int:
    """Show the jobs until they end, and return the worst of their exit codes; the live view also shows `status`."""
    quiet = output != "text" or is_quiet()
    shown = displays(attached.jobs, quiet=quiet)
    hint = DETACHES if attached.detaches else STOPS
    screen = Screen(shown, plain=plain or quiet)
    screen.hint = lambda: " · ".join(filter(None, (status(), hint)))

    def warn(text: str) -> None:
        screen.post(shown[0].say(text, warning=True))

    show_troubles(warn, None if attached.detaches else Path(shown[0].folder) / LOG_FILE)
    started = [job.record for job in attached.jobs]
    left = started
    try:
        detached = asyncio.run(_show(attached, screen))
        left = attached.results()
    except KeyboardInterrupt:
        detached = True  # before the signal handlers were set, or after
    except UserError:
        if attached.detaches:
            report_detached(started)  # we cannot follow it, but it is running
        raise
    if detached:
        report_detached(left)
        return exit_codes.INTERRUPTED
    return report_result(attached.backend, [record.name for record in started], left, output, width=screen.width)


async def _show(attached: Attached, screen: Screen) -> bool:
    """Show the jobs until all are over; return whether the user detached from them before."""
    interrupts = 0
    is_over = False

    def interrupt() -> None:
        nonlocal interrupts
        interrupts += 1
        if is_over or (attached.detaches and interrupts > 1):
            screen.leave()
        elif interrupts > 1:
            attached.kill()
            screen.hint = lambda: KILLS
        else:
            seconds = attached.stop()
            until = time.monotonic() + seconds
            if not attached.detaches:
                screen.tell(_stopping(until))
                screen.hint = lambda: _stopping(until)

    def lose_reader() -> None:
        """End `tfjob attach`, and stop servers, as in `tfjob run web.yaml | head`; jobs of `run` run to their end.

        The latter does not count as an interrupt: a Ctrl-C that ended the reader also reaches this process and must not
        kill.
        """
        if attached.is_view:
            interrupt()
        elif not is_over and all(job.record.is_server for job in attached.jobs):
            attached.stop()
            screen.tell("the output pipe was closed; stopping")

    screen.on_reader_gone = lose_reader
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, interrupt)
    async with screen:
        try:
            await attached.run(screen.wake, measure=screen.width is not None)
        finally:
            is_over = True
            screen.hurries = interrupts > 0
    return attached.detaches and screen.hurries


def _stopping(until: float) -> str:
    return f"stopping, {max(0, math.ceil(until - time.monotonic()))} s left, Ctrl-C again kills"

"""Commands about several jobs: the jobs that a command line selects, and one exit code for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from tfjob.cli import exit_codes
from tfjob.cli.completion import JOB, Known
from tfjob.cli.context import Command
from tfjob.cli.output import print_job, print_jobs
from tfjob.errors import NotFound

if TYPE_CHECKING:
    from tfjob.jobs.backend import Record
    from tfjob.jobs.sync_backend import SyncBackend


def jobs_argument(all_help: str, metavar: str = "JOB...", kind: Known = JOB) -> Callable[[Command], Command]:
    """Add the argument `jobs`, with names and patterns, and the option `--all` as `every`."""

    def add(command: Command) -> Command:
        option = click.option("--all", "every", is_flag=True, help=all_help)
        return click.argument("jobs", nargs=-1, type=kind, metavar=metavar)(option(command))

    return add


def select_jobs(
    there: SyncBackend[Any],
    names: Sequence[str],
    *,
    every: bool,
    suits: Callable[[Record], bool] = lambda record: True,
    what: str = "job",
) -> list[Record]:
    """Return the jobs of names, of patterns, or all jobs, each once, with a driver for those that need one.

    Patterns and `every` select only jobs that suit. Raises NotFound for the first name or pattern without a job.
    """
    from tfjob.jobs.find import is_pattern, matching

    if every and names:
        raise click.UsageError(f"--all selects all jobs: leave out {names[0]!r}.")
    if not every and not names:
        raise click.UsageError("Missing argument 'JOB...'. Name jobs, or use --all.")
    patterns = {name for name in names if is_pattern(name)}
    listed = [record for record in there.jobs() if suits(record)] if every or patterns else []
    found = listed if every else []
    for name in names:
        if name not in patterns:
            found.append(there.find(name))
        elif chosen := matching(listed, name):
            found += chosen
        else:
            hint = f"To list jobs: tfjob ps{there.options}"
            raise NotFound(f"no {what} matches '{name}' in namespace '{there.namespace}'", hint)
    return there.ensure_driven(list({record.uid: record for record in found}.values()))


def names_several(names: Sequence[str]) -> bool:
    """Return whether the output is a list: if the command line could select several jobs, also if it selects one."""
    from tfjob.jobs.find import is_pattern

    return len(names) != 1 or is_pattern(names[0])


def is_active(record: Record) -> bool:
    """Return whether a job is neither finished nor suspended."""
    return not record.is_finished and record.state != "Suspended"


class Results:
    """What a command did with each job: as text at once, as JSON or YAML at the end.

    The error of a single job is raised. Those of several are printed, and `report` returns the highest exit code.
    """

    def __init__(self, records: Sequence[Record], output: str, *, is_list: bool) -> None:
        self.records: list[Record] = []
        self._is_list = is_list
        self._is_several = len(records) > 1
        self._output = output
        self._code = exit_codes.SUCCEEDED

    def add(self, record: Record, text: str, code: int = exit_codes.SUCCEEDED) -> None:
        self.records.append(record)
        self._code = max(self._code, code)
        if self._output == "text":
            print_job(record, "text", text)

    @contextmanager
    def of(self, record: Record) -> Iterator[None]:
        """Continue with the next job after an error of this one."""
        try:
            yield
        except Exception as error:
            stop = exit_codes.explained(error)
            if stop is None or not self._is_several:
                raise
            if record.name not in stop.message:
                stop = exit_codes.Stop(stop.code, f"{record.id}: {stop.message}", stop.hint, stop.warnings)
            exit_codes.complain(stop)
            self._code = max(self._code, stop.code)

    def report(self, nothing: str) -> int:
        """Print what is not printed yet, as text `nothing` if there were no jobs, and return the exit code."""
        if self._output == "text":
            print_jobs([], "text", [] if self.records or self._code else [nothing])
        elif self._is_list:
            print_jobs(self.records, self._output)
        else:
            print_job(self.records[0], self._output, "")
        return self._code

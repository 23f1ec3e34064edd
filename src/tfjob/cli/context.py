"""Options that commands share: `--on`, `-n`, `-o`, `-q`, `-v` and durations; and how commands open a backend."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tfjob.cli.examples import epilog
from tfjob.errors import InvalidRequest
from tfjob.launch import target
from tfjob.launch.target import On as On

if TYPE_CHECKING:
    from tfjob.jobs.backend import Record
    from tfjob.jobs.sync_backend import SyncBackend
    from tfjob.kube.jobs.backend import SyncKubeBackend


Command = TypeVar("Command", bound=Callable[..., Any])
QUIET = "tfjob.quiet"
NO_OUTPUT = ("init", "stop", "suspend", "resume", "scale", "delete", "prune", "volume delete")
TALKATIVE = {
    **dict.fromkeys(NO_OUTPUT, "Print nothing but errors."),
    "run": "Print only the result; with --detach only the job name.",
    "attach": "Print only the result.",
    "submit": "Print only the job names.",
    "check": "Print only problems.",
    "serve start": "Print only the result; with --detach only the name of the server.",
    "ps": "Print only the job names.",
    "wait": "Print nothing; use the exit code.",
    "export": "Print only the folder of the new version.",
}
"""The commands that have `-q`, and its help."""


class WholeNumber(click.IntRange):
    """A range of whole numbers, in words that help and errors share."""

    name = "number"

    def _describe_range(self) -> str:
        return f"{self.min} or more" if self.max is None else f"{self.min} to {self.max}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"use a whole number ({self._describe_range()}), not {value!r}", param, ctx)


UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
LONGEST = timedelta(days=36500).total_seconds()


def place(value: str) -> On:
    """Parse the value of an `--on` option."""
    try:
        return target.parse_target(value)
    except InvalidRequest as error:
        origin = " (from TFJOB_ON)" if os.environ.get("TFJOB_ON") == value else ""
        raise click.BadParameter(f"{error.message}{origin}") from None


on_option = click.option(
    "--on",
    default="local",
    envvar="TFJOB_ON",
    show_default=True,
    metavar="WHERE",
    type=place,
    help="Target: local (this machine), k8s or k8s:CONTEXT (a cluster).",
)


def namespace_option(text: str, default: str = "") -> Callable[[Command], Command]:
    return click.option(
        "-n",
        "--namespace",
        default=default,
        show_default=bool(default),
        metavar="NAME",
        type=valid_namespace,
        help=text,
    )


def place_options(command: Command) -> Command:
    text = "Namespace. Default: `default`; on a cluster, the namespace of the kubeconfig context."
    return on_option(namespace_option(text)(command))


def job_options(command: Command) -> Command:
    return place_options(output_option(command))


def valid_namespace(value: str) -> str:
    """Return a namespace. Reject an invalid one, because it becomes the name of a folder."""
    if value and not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", value):
        raise click.BadParameter(f"invalid namespace {value!r}: use lowercase letters, digits and '-'")
    return value


def output_choice(*kinds: str) -> Callable[[Command], Command]:
    """Add `-o` with the given choices; the first one is the default."""
    return click.option(
        "-o", "--output", type=click.Choice(kinds), default=kinds[0], show_default=True, help="Output format."
    )


output_option = output_choice("text", "json", "yaml")


def open_backend(on: On, namespace: str, *, write: bool) -> AbstractContextManager[SyncBackend[Any]]:
    """Open the jobs of one namespace; `write` says whether the command changes anything."""
    if on.cluster:
        print_outages()
    return target.open_backend(on, namespace, write=write)


def find_job(there: SyncBackend[Any], name: str) -> Record:
    """Find a job by name. If its driver was killed, start a new one."""
    (record,) = there.ensure_driven([there.find(name)])
    return record


def open_cluster_backend(on: On, namespace: str) -> AbstractContextManager[SyncKubeBackend]:
    print_outages()
    return target.open_cluster(on, namespace)


@contextmanager
def until_interrupted() -> Iterator[None]:
    """End the block without an error on Ctrl-C, SIGTERM or SIGHUP."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell sets SIGINT to be ignored in background jobs
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    with suppress(KeyboardInterrupt):
        yield


def print_outages() -> None:
    from tfjob.cli.notices import show_troubles

    show_troubles(lambda text: click.echo(text, err=True))


def is_quiet() -> bool:
    return bool(click.get_current_context().meta.get(QUIET))


def equipped(command: click.Command, path: str) -> click.Command:
    """Add the options and examples that every command has; `path` is the command line without `tfjob`."""
    if isinstance(command, click.Group):
        for name, one in command.commands.items():
            equipped(one, f"{path} {name}")
        return command
    if any(parameter.name == "no_color" for parameter in command.params):
        return command  # already equipped
    command.epilog = epilog(path)
    if path in TALKATIVE:
        command.params.append(
            _flag(("-q", "--quiet"), lambda ctx, _, value: ctx.meta.update({QUIET: value}), TALKATIVE[path])
        )
    command.params.append(_flag(("-v", "--verbose"), _be_verbose, "Print the debug log on stderr."))
    command.params.append(_flag(("--no-color",), _be_plain, "Print without colors (same as NO_COLOR=1)."))
    return command


def _flag(names: tuple[str, ...], callback: Any, text: str) -> click.Option:
    # Eager, so that errors in other options already follow this flag.
    return click.Option(names, is_flag=True, is_eager=True, expose_value=False, callback=callback, help=text)


def _be_verbose(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from tfjob.cli.notices import show_everything

        show_everything()


def _be_plain(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        os.environ["NO_COLOR"] = "1"  # other libraries read it too
        ctx.color = False


def time_span(value: str) -> timedelta:
    """Parse a duration: a number with a unit, or seconds without one."""
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)([smhdw]?)", value, re.ASCII)
    if match is None:
        example = "use a number and a unit (s, m, h, d or w), such as 90s or 30d"
        raise click.BadParameter(f"invalid duration {value!r}: {example}")
    return timedelta(seconds=min(float(match[1]) * UNITS[match[2]], LONGEST))

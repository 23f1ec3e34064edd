"""What commands share: where jobs run, the namespace, the output format, the state folder, `-q`, `-v`, time spans."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
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
TALKATIVE = {
    "init": "Print nothing but errors.",
    "run": "Print only how it ended; with --detach only its name.",
    "submit": "Print only the names of the jobs.",
    "check": "Print only what is wrong.",
    "ps": "Print only names.",
    "wait": "Print nothing: the exit code tells.",
    "stop": "Print nothing but errors.",
    "suspend": "Print nothing but errors.",
    "resume": "Print nothing but errors.",
    "scale": "Print nothing but errors.",
    "delete": "Print nothing but errors.",
    "prune": "Print nothing but errors.",
    "volume delete": "Print nothing but errors.",
}
"""The commands that say more than a script wants to hear, and what `-q` leaves of it."""
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
LONGEST = timedelta(days=36500).total_seconds()


def on_option(command: Command) -> Command:
    return click.option(
        "--on",
        default="local",
        envvar="TFJOB_ON",
        show_default=True,
        metavar="WHERE",
        callback=place,
        help="local: this machine; k8s or k8s:CONTEXT: a Kubernetes cluster.",
    )(command)


def place(ctx: click.Context, param: click.Parameter, value: str | None) -> On | None:
    """The callback of an option that says where; None stays None."""
    if value is None:
        return None
    try:
        return target.parse_target(value)
    except InvalidRequest as error:
        raise click.BadParameter(error.message, ctx, param) from None


def namespace_option(text: str, default: str = "") -> Callable[[Command], Command]:
    """Adds `-n`; `text` is its help."""
    return click.option(
        "-n",
        "--namespace",
        default=default,
        show_default=bool(default),
        metavar="NAME",
        callback=valid_namespace,
        help=text,
    )


def place_options(command: Command) -> Command:
    """Adds the options that say where a job is."""
    return on_option(namespace_option("Namespace; without it `default`, or the context's on a cluster.")(command))


def job_options(command: Command) -> Command:
    """Adds the options of most commands about jobs: where they are, and the output format."""
    return place_options(output_option(command))


def valid_namespace(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Refuse what cannot be a namespace; it becomes the name of a folder."""
    if value and not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", value):
        raise click.BadParameter(f"invalid namespace {value!r}: use lowercase letters, digits and '-'", ctx, param)
    return value


def output_option(command: Command) -> Command:
    return output_choice("text", "json", "yaml")(command)


def output_choice(*kinds: str) -> Callable[[Command], Command]:
    """Adds `-o` with other choices than most commands have, the default first."""
    return click.option(
        "-o", "--output", type=click.Choice(kinds), default=kinds[0], show_default=True, help="Output format."
    )


def open_backend(on: On, namespace: str, *, write: bool) -> AbstractContextManager[SyncBackend[Any]]:
    """The jobs of one namespace, here or there; `write` says whether the command will change something."""
    if on.cluster:
        print_outages()
    return target.open_backend(on, namespace, write=write)


def find_job(there: SyncBackend[Any], name: str) -> Record:
    """The job that a name means, driven if it should be: a command continues what a killed driver left."""
    (record,) = there.ensure_driven([there.find(name)])
    return record


def open_cluster_backend(on: On, namespace: str) -> AbstractContextManager[SyncKubeBackend]:
    """Open the jobs of one namespace of a cluster, and print outages."""
    print_outages()
    return target.open_cluster(on, namespace)


def print_outages() -> None:
    from tfjob.cli.notices import Outages, show_troubles

    show_troubles(Outages(lambda text: click.echo(text, err=True)))


def is_quiet() -> bool:
    return bool(click.get_current_context().meta.get(QUIET))


def equipped(command: click.Command, path: str) -> click.Command:
    """The command with what every one takes; `path` is how it is called, without `tfjob`."""
    if isinstance(command, click.Group):
        for name, one in command.commands.items():
            equipped(one, f"{path} {name}")
        return command
    if any(parameter.name == "no_color" for parameter in command.params):
        return command  # it was asked for before
    command.epilog = epilog(path)
    if path in TALKATIVE:
        command.params.append(_flag(("-q", "--quiet"), _be_quiet, TALKATIVE[path]))
    command.params.append(_flag(("-v", "--verbose"), _be_verbose, "Also print what was found and asked, on stderr."))
    command.params.append(_flag(("--no-color",), _be_plain, "No colours; the same as NO_COLOR=1."))
    return command


def _flag(names: tuple[str, ...], callback: Any, text: str) -> click.Option:
    # Eager, so that an error in another option is shown in this way already.
    return click.Option(names, is_flag=True, is_eager=True, expose_value=False, callback=callback, help=text)


def _be_quiet(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[QUIET] = True


def _be_verbose(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from tfjob.cli.notices import show_everything

        show_everything()


def _be_plain(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value:
        return
    os.environ["NO_COLOR"] = "1"  # other libraries look there too
    place: click.Context | None = ctx
    while place is not None:
        place.color = False
        place = place.parent


def time_span(ctx: click.Context, param: click.Parameter, value: str | None) -> timedelta | None:
    """The callback of an option that takes a number and a unit, or seconds without one."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)([smhdw]?)", value, re.ASCII)
    if match is None:
        example = "write a number and one of s, m, h, d, w, such as 90s or 30d"
        raise click.BadParameter(f"{value!r} is no time span: {example}", ctx, param)
    return timedelta(seconds=min(float(match[1]) * UNITS[match[2]], LONGEST))

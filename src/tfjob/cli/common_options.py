"""What every command takes: `-v`, `--no-color`, and `-q` where there is something to leave out; and its examples."""

from __future__ import annotations

import os
from typing import Any

import click

from tfjob.cli.examples import epilog

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


def is_quiet() -> bool:
    """Whether the command that runs was called with `-q`."""
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

"""Options have one meaning in all commands, and the examples of a command are valid."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click
import pytest

from tfjob.cli.context import TALKATIVE
from tfjob.cli.examples import EXAMPLES
from tfjob.cli.main import COMMANDS, cli

MEANINGS = {
    "-A": {"--all-namespaces"},
    "-a": {"--all"},
    "-c": {"--container"},
    "-d": {"--detach"},
    "-f": {"--follow", "--force"},  # a log is followed, a file written over: no command has both
    "-h": {"--help"},
    "-m": {"-m"},  # as in `python -m`
    "-n": {"--namespace"},
    "-o": {"--output"},
    "-p": {"-p", "--previous"},  # KEY=VALUE where a manifest is read; kubectl's letter in `logs`
    "-q": {"--quiet"},
    "-v": {"--verbose"},
    "-w": {"--watch"},
    "-y": {"--yes"},
}


ROOT = click.Context(cli, info_name="tfjob", **cli.context_settings)
"""A context like the real one: click keeps what it derives from the first context."""


SHORT = {"serve start": "serve"}
"""Command lines for which a shorter one does the same."""


def commands() -> Iterator[tuple[str, click.Command]]:
    """Return every command by its command line."""
    for name in COMMANDS:
        command = cli.get_command(ROOT, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", one) for inner, one in command.commands.items())
        else:
            yield name, command


ALL = dict(commands())


def options(command: click.Command) -> Iterator[click.Option]:
    context = click.Context(command, parent=ROOT)
    yield from (one for one in command.get_params(context) if isinstance(one, click.Option))


def test_a_short_option_means_the_same_everywhere() -> None:
    found: dict[str, set[str]] = {}
    for path, command in ALL.items():
        for option in options(command):
            for short in (word for word in option.opts if len(word) == 2):
                found.setdefault(short, set()).add(max(option.opts, key=len))
                assert len([one for one in options(command) if short in one.opts]) == 1, f"{path} {short}"
    assert found == MEANINGS


@pytest.mark.parametrize("path", ALL)
def test_a_command_has_what_all_have(path: str) -> None:
    """Commands about jobs have `--on` and `-n`, and commands that print have `-o json`."""
    words = {word for option in options(ALL[path]) for word in option.opts}
    assert {"-v", "--verbose", "--no-color", "-h", "--help"} <= words
    assert ("-q" in words) == (path in TALKATIVE)
    if any(parameter.name in ("job", "jobs") for parameter in ALL[path].params):
        assert {"--on", "-n"} <= words
    for option in options(ALL[path]):
        if "-o" in option.opts:
            assert isinstance(option.type, click.Choice)
            assert {"json", "yaml"} <= set(option.type.choices)


@pytest.mark.parametrize("path", ALL)
def test_the_examples_of_a_command_are_calls_of_it(path: str) -> None:
    assert EXAMPLES[path]
    for line, words in EXAMPLES[path]:
        assert words
        begin = SHORT.get(path, path).split()
        called = shlex.split(line.removeprefix('eval "$(').removesuffix(')"').partition(" >")[0])
        assert called[: 1 + len(begin)] == ["tfjob", *begin]
        ALL[path].make_context(path, called[1 + len(begin) :], parent=ROOT)


def test_examples_belong_to_commands() -> None:
    assert set(EXAMPLES) == set(ALL)

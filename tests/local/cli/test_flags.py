"""Short options have one meaning; every command has examples, `-v` and `--no-color`."""

from __future__ import annotations

import re

import pytest

from support.command_line import MANIFESTS, CommandLine
from support.pseudo_terminal import PseudoTerminal


@pytest.mark.parametrize(("words", "env"), [((), {"NO_COLOR": "1"}), (("--no-color",), {}), ((), {"NO_COLOR": ""})])
@pytest.mark.parametrize("command", ["status fails", "status nothing"])
def test_colours_are_for_terminals_that_want_them(
    finished: CommandLine, command: str, words: tuple[str, ...], env: dict[str, str]
) -> None:
    plain = bool(words or env.get("NO_COLOR"))
    call = [*finished.tool.command, *command.split(), *words]
    with PseudoTerminal(call, {**finished.environment(), "TERM": "xterm", **env}, MANIFESTS) as terminal:
        terminal.finish()
    assert ("\x1b[" in terminal.shown) != plain, terminal.shown


def test_quiet_commands_print_what_a_script_needs(cli: CommandLine) -> None:
    assert cli("submit", "hello.yaml", "-q") == "hello\n"
    assert cli("wait", "hello", "-q") == ""
    assert cli("ps", "-q") == "hello\n"
    cli.golden("run-quiet", cli("run", "hello.yaml", "-q"))
    assert cli("delete", "hello", "-q") == ""
    assert cli("check", "hello.yaml", "-q") == ""


def test_a_verbose_command_says_on_stderr_what_it_found(empty: CommandLine) -> None:
    done = empty.run("run", "--dry-run", "hello.yaml", "-v")
    assert str(MANIFESTS) in done.stderr
    assert str(MANIFESTS) not in empty.run("run", "--dry-run", "hello.yaml").stderr
    (line,) = [line for line in done.stderr.splitlines() if str(MANIFESTS) in line]
    line = re.sub(r"level \w+, limits \w+", "level LEVEL, limits LIMITS", line.partition(" ")[2])
    empty.golden("run-verbose", f"{line}\n", exact=True)

"""`tfjob ps -w`: a line for every change where it is piped, one list kept up to date in a terminal."""

from __future__ import annotations

import json
import signal

from command_line import MANIFESTS, CommandLine
from pseudo_terminal import PseudoTerminal
from running import Running


def test_a_piped_watch_adds_a_line_for_every_change(cli: CommandLine) -> None:
    cli("run", "hello.yaml", "-q")
    watch = Running(cli.tool, cli.home, "-w", command="ps")
    watch.wait_for("hello")
    cli("run", str(MANIFESTS / "fails.yaml"), "-q", code=1)
    watch.wait_for("Failed")
    cli("delete", "hello", "-q")
    watch.wait_for("Deleted")
    watch.process.send_signal(signal.SIGINT)
    assert watch.finish() == 130
    assert watch.lines[0].split()[:2] == ["NAME", "STATE"]
    assert sum("hello" in line for line in watch.lines) == 2
    assert [line.split()[:2] for line in watch.lines if line][-1] == ["hello", "Deleted"]


def test_a_piped_watch_in_json_is_an_object_a_line(cli: CommandLine) -> None:
    cli("run", "hello.yaml", "-q")
    watch = Running(cli.tool, cli.home, "-w", "-o", "json", command="ps")
    watch.wait_for("hello")
    watch.process.send_signal(signal.SIGINT)
    watch.finish()
    (shape,) = map(json.loads, filter(None, watch.lines))
    assert (shape["kind"], shape["name"], shape["state"]) == ("Job", "hello", "Succeeded")


def test_a_watch_in_a_terminal_keeps_one_list_and_leaves_the_terminal_as_it_was(cli: CommandLine) -> None:
    cli("run", "hello.yaml", "-q")
    command = [*cli.tool.command, "ps", "-w", "-o", "wide"]
    with PseudoTerminal(command, {**cli.environment(), "TERM": "xterm", "COLUMNS": "60"}, MANIFESTS, 60) as terminal:
        terminal.wait_for("Succeeded")
        cli("run", "fails.yaml", "-q", code=1)
        terminal.wait_for("Failed")
        terminal.press("\x03")
        assert terminal.finish() == 130
    assert terminal.shown.count("\x1b[?25l") == terminal.shown.count("\x1b[?25h") == 1  # the cursor is back
    assert "\x1b[1A" in terminal.shown  # the list was written over
    rows = terminal.shown.replace("\r", "").split("\n")
    assert all("hello" not in row or "fails" not in row for row in rows)

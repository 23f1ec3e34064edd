"""`tfjob attach` to jobs of this machine that run in the background."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import MANIFESTS, CommandLine, by_replica
from support.pseudo_terminal import PseudoTerminal
from support.running import command_of, ending, processes_of, wait_until

GATED = "for i in $(seq 1 30); do echo line $i; done; while [ ! -e GATE ]; do sleep 0.05; done; echo opened; exit 3"


@pytest.fixture
def gate(cli: CommandLine, tmp_path: Path) -> Iterator[Path]:
    """A job in the background that has printed 30 lines and fails when this file exists."""
    gate = tmp_path / "gate"
    manifest = (MANIFESTS / "sleeper.yaml").read_text()
    begin = manifest.index("command: ")
    script = GATED.replace("GATE", str(gate))
    cli("submit", "-", "--name", "gated", "--no-limits", stdin=f"{manifest[:begin]}command: [sh, -c, '{script}']\n")
    wait_until(lambda: "line 30" in cli("logs", "gated"), 90)
    yield gate
    gate.touch()
    cli("delete", "gated", "--yes")


def test_attach_shows_the_last_lines_and_ends_with_the_code_of_the_job(cli: CommandLine, gate: Path) -> None:
    command = [*cli.tool.command, "attach", "gated"]
    with ending(
        subprocess.Popen(
            command, env=cli.environment(), cwd=MANIFESTS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    ) as process:
        assert process.stdout is not None
        shown = [process.stdout.readline()]
        while "line 30" not in shown[-1]:
            shown.append(process.stdout.readline())
        gate.touch()
        shown += process.stdout.readlines()
        assert process.wait(60) == 1
    assert [line for line in shown if " | " in line] == [
        *(f"worker-0 | line {number}\n" for number in range(21, 31)),
        "worker-0 | opened\n",
    ]
    cli.golden("attach-lines", by_replica("".join(shown)))


def test_ctrl_c_detaches_and_the_job_keeps_running(cli: CommandLine, gate: Path) -> None:
    with PseudoTerminal([*cli.tool.command, "attach", "gated", "--plain"], cli.environment(), MANIFESTS) as terminal:
        terminal.wait_for("line 30")
        terminal.press("\x03")
        terminal.wait_for("tfjob attach gated")
        assert terminal.finish() == 130
    assert cli("wait", "gated", "--for", "running") == "gated is Running\n"


def test_attach_ends_with_the_reader_of_its_output(cli: CommandLine, gate: Path) -> None:
    command = [*cli.tool.command, "attach", "gated"]
    with ending(
        subprocess.Popen(command, env=cli.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 130
        assert "tfjob attach gated" in process.stderr.read()
    assert cli("wait", "gated", "--for", "running") == "gated is Running\n"


def test_attach_starts_a_driver_for_a_job_that_lost_its_own(cli: CommandLine, gate: Path) -> None:
    def drivers() -> list[int]:
        return [pid for pid in processes_of(cli.home) if b"tfjob.launch.background" in command_of(pid)]

    with PseudoTerminal([*cli.tool.command, "attach", "gated", "--plain"], cli.environment(), MANIFESTS) as terminal:
        terminal.wait_for("line 30")
        (driver,) = drivers()
        os.kill(driver, signal.SIGKILL)
        wait_until(lambda: drivers() not in ([], [driver]), 60)
        gate.touch()
        assert terminal.finish() == 1


def test_of_a_finished_job_attach_prints_the_result(finished: CommandLine) -> None:
    shown = finished("attach", "hello") + finished("attach", "fails", code=1)
    finished.golden("attach-finished", shown)


def test_attach_ends_when_the_job_is_stopped_and_needs_one_that_runs(cli: CommandLine, gate: Path) -> None:
    with PseudoTerminal([*cli.tool.command, "attach", "gated", "--plain"], cli.environment(), MANIFESTS) as terminal:
        terminal.wait_for("line 30")
        cli("stop", "gated")
        assert terminal.finish() == 130
        assert "tfjob resume gated" in terminal.shown
    cli.golden("attach-suspended", cli("attach", "gated", code=2), exact=True)

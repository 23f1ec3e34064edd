"""The live view of an attached run, in a real terminal."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import CommandLine, by_replica
from support.running import command_of, is_alive, processes_of, wait_until
from support.tmux import Tmux, tmux

NUMBERS = (
    (r" +(\d+%|-) +\d+\.\d MiB", "     N%     N.N MiB"),
    (r"(?<=· )\d+s$", "Ns"),
    (r"(in|after) [0-9.]+s:", r"\1 Ns:"),
    (r"\d+ s left", "N s left"),
    (r"ready>.*\n", ""),
)
"""What differs between runs; everything else must be at its place."""
BARS = """
import os, pathlib, sys, time
pathlib.Path(os.environ["TFJOB_OUTPUT_DIR"], "model").touch()
print("\\x1b[31mred\\x1b[0m \\x1b[2J\\x1b[Hand no jump")
print("Epoch 2/3")
sys.stdout.write("\\r 1/40 [>...] - loss: 0.9000\\r 7/40 [=>..] - loss: 0.1250")
sys.stdout.flush()
while not pathlib.Path("go").exists():
    time.sleep(0.05)
print()
"""


def manifest(name: str, script: str, workers: int, grace: int = 1) -> str:
    """A job of workers that run a script in Python or a shell."""
    program = "python3" if "import" in script else "sh"
    return f"""
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {{name: {name}}}
spec:
  tfReplicaSpecs:
    Worker:
      replicas: {workers}
      template:
        spec:
          terminationGracePeriodSeconds: {grace}
          containers: [{{name: tensorflow, image: example.com/it, command: [{program}, {name}.txt]}}]
"""


@pytest.fixture
def window(cli: CommandLine, tmp_path: Path) -> Iterator[Tmux]:
    """A shell of 80 by 24 cells in a new folder."""
    with tmux(environment(cli), tmp_path, 80, 24) as terminal:
        yield terminal


def environment(cli: CommandLine) -> dict[str, str]:
    """Return the environment in which the shell finds the tool; without COLUMNS, which would not follow the window."""
    return {name: value for name, value in cli.environment().items() if name != "COLUMNS"}


def run(
    cli: CommandLine, terminal: Tmux, folder: Path, name: str, script: str, workers: int = 1, grace: int = 1
) -> None:
    """Type the command that runs a job."""
    (folder / f"{name}.txt").write_text(script)
    (folder / f"{name}.yaml").write_text(manifest(name, script, workers, grace))
    terminal.type(f"clear; tmux clear-history; {' '.join(cli.tool.command)} run {name}.yaml --no-limits; echo code $?")


def is_as_found(terminal: Tmux) -> bool:
    """Return whether the terminal shows its cursor and echoes typed characters."""
    return terminal.has_cursor and "-echo " not in terminal.answer("stty -a")


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_run_with_bars_is_shown_resized_and_ends_with_the_verdict_and_what_to_do_next(
    cli: CommandLine, tmp_path: Path, width: int
) -> None:
    with tmux(environment(cli), tmp_path, width, 24) as terminal:
        run(cli, terminal, tmp_path, "bars", BARS, workers=2)
        measured = " .* MiB " if width > 60 else " "
        rows = "".join(rf"\n  worker-{index} +Running{measured}.* step.*" for index in (0, 1))
        terminal.wait_for(rf"── bars · Running 2/2 · .*\n  REPLICA .*{rows}")
        cli.until_golden(f"live-{width}", lambda: shown(terminal.screen()))
        terminal.resize(60, 20)
        terminal.wait_for(r"REPLICA +STATE +RESTARTS +STEP")
        terminal.resize(width, 24)
        terminal.wait_for(r"REPLICA +STATE +(STEP|RESTARTS +CPU)")
        wait_until(lambda: terminal.everything().count("── bars") == 1, 90, terminal.everything)
        (tmp_path / "go").touch()
        terminal.wait_for("code 0$")
        assert "── bars" not in terminal.everything()
        cli.golden(f"live-{width}-end", shown(terminal.everything()), exact=True)
        assert is_as_found(terminal)


def test_a_run_that_fails_ends_with_the_cause_the_last_lines_and_what_to_do_next(
    cli: CommandLine, tmp_path: Path, window: Tmux
) -> None:
    run(cli, window, tmp_path, "broken", "echo reading the data; sleep 1; echo no such file >&2; exit 3")
    window.wait_for("code 1$")
    assert "── broken" not in window.everything()
    cli.golden("live-80-failed", shown(window.everything()), exact=True)
    assert is_as_found(window)


def shown(text: str) -> str:
    """Return the screen without what differs between runs."""
    for pattern, name in NUMBERS:
        text = re.sub(pattern, name, text, flags=re.MULTILINE)
    return by_replica(text)


@pytest.mark.timeout(300)
def test_of_50_replicas_those_that_do_not_fit_are_counted_and_ctrl_c_gives_the_terminal_back(
    cli: CommandLine, tmp_path: Path, window: Tmux
) -> None:
    run(cli, window, tmp_path, "many", "while :; do echo here; sleep 0.2; done", workers=50)
    window.wait_for(r"… 4\d more: \d+ \w+")
    window.wait_for(r"worker-\d+ +\| here")
    # A look may fall between two parts of one painting.
    wait_until(lambda: is_whole(window.screen()), 120, window.screen)
    window.press("C-c")
    window.wait_for("code 130$", 120)
    assert "Ctrl-C again" in window.everything()
    assert "tfjob resume many" in window.everything()
    assert "── many" not in window.everything()
    assert is_as_found(window)


def is_whole(screen: str) -> bool:
    """Return whether half of 24 rows is the panel: headline, titles, eight replicas, the count of the rest, a hint."""
    panel = r"── many .*\n  REPLICA .*\n(  worker-\d+ +[A-Z].*\n){8}  … 42 more: .*\nCtrl-C .*\n"
    return screen.count("── many") == 1 and re.search(panel, screen) is not None


PATIENT = """
trap 'until [ -e go ]; do sleep 0.1; done; echo saved; exit 0' TERM
echo up
while :; do sleep 0.1; done
"""


def test_after_ctrl_c_the_view_counts_down_and_replicas_that_exit_0_make_the_job_succeed(
    cli: CommandLine, tmp_path: Path, window: Tmux
) -> None:
    run(cli, window, tmp_path, "patient", PATIENT, workers=2, grace=100)
    window.wait_for(r"worker-1 +\| up")
    window.wait_for(r"── patient · Running 2/2")
    window.press("C-c")
    seconds = window.wait_for(r"^stopping, ([1-9]\d) s left, Ctrl-C again kills$")[1]
    window.wait_for(rf"^stopping, (?!100|{seconds})\d+ s left, Ctrl-C again kills$")
    (tmp_path / "go").touch()
    window.wait_for("code 0$")
    cli.golden("live-80-stopped", shown(window.everything()), exact=True)
    assert is_as_found(window)


def test_a_second_ctrl_c_says_that_it_kills(cli: CommandLine, tmp_path: Path, window: Tmux) -> None:
    run(cli, window, tmp_path, "patient", PATIENT, grace=100)
    window.wait_for(r"worker-0 +\| up")
    window.press("C-c")
    window.wait_for(r"stopping, \d+ s left")
    window.press("C-c")
    window.wait_for("code 130$")
    assert "tfjob resume patient" in window.everything()


def test_attach_opens_the_view_of_a_job_in_the_background_and_ctrl_c_leaves_it(
    cli: CommandLine, tmp_path: Path, window: Tmux
) -> None:
    (tmp_path / "bars.txt").write_text(BARS)
    (tmp_path / "bars.yaml").write_text(manifest("bars", BARS, 2))
    tfjob = " ".join(cli.tool.command)
    window.type(f"{tfjob} submit -q bars.yaml --no-limits; {tfjob} wait bars --for running; clear")
    rows = r"(\n  worker-\d +Running .* MiB +epoch 2/3 step 7/40.*){2}"
    view = rf"── bars · Running 2/2 · .*\n  REPLICA .*{rows}\nCtrl-C detaches"
    window.type(f"clear; {tfjob} attach bars; echo code $?")
    window.wait_for(view)
    window.press("C-c")
    window.wait_for("code 130$")
    assert "tfjob attach bars" in window.everything()
    assert "── bars" not in window.everything()
    assert is_as_found(window)
    window.type(f"clear; {tfjob} attach bars; echo code $?")
    window.wait_for(view)
    (tmp_path / "go").touch()
    window.wait_for("code 0$")
    assert "bars succeeded" in window.everything()
    assert is_as_found(window)


def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it_again(cli: CommandLine, tmp_path: Path, window: Tmux) -> None:
    run(cli, window, tmp_path, "sleeps", "while :; do echo here; sleep 0.1; done")
    window.wait_for(r"── sleeps · Running 1/1")
    window.press("C-z")
    window.wait_for("Stopped")
    assert is_as_found(window)
    window.type("fg")
    window.wait_for(r"── sleeps · Running 1/1")
    window.press("C-c")
    window.wait_for("tfjob resume sleeps")
    assert is_as_found(window)


def test_kill_9_leaves_the_cursor_and_the_shell_sees_to_its_echo(
    cli: CommandLine, tmp_path: Path, window: Tmux
) -> None:
    run(cli, window, tmp_path, "sleeps", "while :; do echo here; sleep 0.1; done")
    window.wait_for(r"── sleeps · Running 1/1")
    tool = min(pid for pid in processes_of(cli.home) if b"sleeps.yaml" in command_of(pid))
    os.kill(tool, signal.SIGKILL)
    wait_until(lambda: not is_alive(tool), 60)
    window.wait_for("code 137$")
    assert is_as_found(window)


def test_where_no_view_is_wanted_lines_are_printed(cli: CommandLine, tmp_path: Path, window: Tmux) -> None:
    (tmp_path / "hello.yaml").write_text(manifest("hello", "sh", 1).replace("[sh, hello.txt]", "[echo, hello]"))
    window.type(f"clear; {' '.join(cli.tool.command)} run hello.yaml --no-limits --plain; echo code $?")
    window.wait_for("code 0$")
    assert "worker-0 | hello\n" in window.everything()
    window.wait_for_prompt()
    assert "──" not in window.everything()

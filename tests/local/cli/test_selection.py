"""Several jobs on one command line: names, patterns and `--all`; the others after an error; one exit code."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import MANIFESTS, CommandLine
from support.pseudo_terminal import PseudoTerminal
from support.running import ending, wait_until


def states(cli: CommandLine) -> dict[str, str]:
    return {item["name"]: item["state"] for item in json.loads(cli("ps", "-o", "json"))["items"]}


@pytest.fixture
def several(cli: CommandLine) -> CommandLine:
    """Two jobs set-a and set-b and a job other that run, and a job set-over that failed."""
    cli("run", "fails.yaml", "--name", "set-over", "--no-limits", code=1)
    for name in ("set-a", "set-b", "other"):
        cli("submit", "sleeper.yaml", "--name", name, "--no-limits")
    cli("wait", "--all", "--for", "running", "--timeout", "90s")
    return cli


def test_a_pattern_stops_what_it_matches_and_all_deletes_all(several: CommandLine) -> None:
    shown = several("stop", "set-*", "set-a")
    assert states(several) == {"set-over": "Failed", "set-a": "Suspended", "set-b": "Suspended", "other": "Running"}
    shown += several("stop", "set-*", code=3)
    assert json.loads(several("stop", "other", "-o", "json"))["state"] == "Suspended"
    shown += several("stop", "--all")
    several("delete", "--all", code=2)
    deleted = json.loads(several("delete", "set-*", "-o", "json"))
    assert sorted(item["name"] for item in deleted["items"]) == ["set-a", "set-b", "set-over"]
    shown += several("delete", "--all", "--yes")
    shown += several("delete", "--all")
    assert states(several) == {}
    several.golden("selection-stop", shown, exact=True)


def test_the_error_of_one_job_does_not_keep_the_others(several: CommandLine) -> None:
    several("stop", "set-a", "unknown", code=3)
    assert states(several)["set-a"] == "Running", "names are looked up before anything happens"
    shown = several("stop", "set-over", "set-a", "set-b", code=2)
    assert "set-over" in shown
    assert states(several) == {"set-over": "Failed", "set-a": "Suspended", "set-b": "Suspended", "other": "Running"}
    several.golden("selection-error", shown, exact=True)
    several("delete", "--all", "--yes")


def test_wait_waits_for_all_and_the_worst_exit_code_counts(cli: CommandLine) -> None:
    cli("run", "hello.yaml", "--no-limits")
    cli("run", "fails.yaml", "--name", "bad", "--no-limits", code=1)
    cli("submit", "sleeper.yaml", "--name", "slow", "--no-limits")
    cli("wait", "slow", "--for", "running", "--timeout", "90s")
    shown = cli("wait", "hello", "bad", code=1) + cli("wait", "*l*", "--timeout", "0s", code=4)
    assert [item["name"] for item in json.loads(cli("wait", "ba*", "-o", "json", code=1))["items"]] == ["bad"]
    assert cli("wait", "--all", "--for", "running") == "slow is Running\n", "jobs that have ended are left out"
    cli("stop", "slow")
    shown += cli("wait", "--all")
    cli.golden("selection-wait", shown)
    cli("delete", "slow")


def test_the_lines_of_several_jobs_are_followed_until_all_have_ended(cli: CommandLine) -> None:
    cli("run", "fails.yaml", "--no-limits", code=1)
    cli("submit", "sleeper.yaml", "--name", "slow", "--no-limits")
    command = [*cli.tool.command, "logs", "fails", "slo*", "-f"]
    with ending(
        subprocess.Popen(command, env=cli.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    ) as process:
        assert process.stdout is not None
        shown = [process.stdout.readline()]
        while shown[-1].strip() and "up" not in shown[-1]:
            shown.append(process.stdout.readline())
        cli("stop", "slow")
        shown += process.stdout.readlines()
        assert process.wait(60) == 0
    cli.golden("selection-logs", "".join(shown), exact=True)
    fields = [json.loads(line) for line in cli("logs", "slow", "fails", "-o", "json").splitlines()]
    assert [(line["job"], line["replica"]) for line in fields] == [
        *[("fails.1", "worker-0")] * 2,
        *[("slow.1", "worker-0")] * 2,
    ]
    cli("delete", "slow")


TOGETHER = """
trap 'touch NAME; while [ ! -e OTHER ]; do sleep 0.05; done; exit 143' TERM
echo up
while :; do sleep 0.05; done
"""


@pytest.mark.parametrize("words", [("stop", "--all"), ("delete", "--all", "--yes")], ids=["stop", "delete"])
def test_several_jobs_end_at_the_same_time(cli: CommandLine, tmp_path: Path, words: tuple[str, ...]) -> None:
    """Each job ends when the other one has got its SIGTERM, long before its grace period is over."""
    manifest = (MANIFESTS / "sleeper.yaml").read_text()
    manifest = manifest[: manifest.index("command: ")].replace("Seconds: 5", "Seconds: 1000")
    for name, other in (("one", "two"), ("two", "one")):
        script = TOGETHER.replace("NAME", str(tmp_path / name)).replace("OTHER", str(tmp_path / other))
        text = f"{manifest}command: {json.dumps(['sh', '-c', script])}\n"
        cli("submit", "-", "--name", name, "--no-limits", stdin=text)
    wait_until(lambda: cli("logs", "--all").count("up") == 2, 90)
    cli(*words)
    cli("delete", "--all", "--yes")


@pytest.fixture
def terminal(finished: CommandLine) -> Iterator[PseudoTerminal]:
    command = [*finished.tool.command, "delete", "f*", "hello"]
    with PseudoTerminal(command, finished.environment(), MANIFESTS) as opened:
        yield opened


def test_delete_asks_on_a_terminal_about_what_a_pattern_selects(
    terminal: PseudoTerminal, finished: CommandLine
) -> None:
    terminal.wait_for("[y/N]")
    assert "2 jobs: fails.1, hello.1" in terminal.shown
    terminal.press("n\n")
    assert terminal.finish() == 130
    assert states(finished).keys() == {"hello", "fails", "restarts"}

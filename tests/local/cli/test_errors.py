"""Bad input: exit code 2 or 3, one clear message that says what to do, never a traceback."""

from __future__ import annotations

import io
import os
import random
import sys
from pathlib import Path

import pytest

from support.command_line import MANIFESTS, CommandLine
from tfjob.cli import exit_codes
from tfjob.cli.main import COMMANDS, MEANT, cli
from tfjob.local.state.errors import Refusal
from tfjob.local.state.home import find_home

BAD_INPUT = {
    "no such file": (("run", "nowhere.yaml"), "nowhere.yaml"),
    "a folder": (("run", "."), "folder"),
    "an empty file name": (("check", ""), "empty"),
    "a URL": (("run", "https://a/b.yaml"), "https://a/b.yaml"),
    "a folder with one manifest": (
        ("run", "../../../../../examples/mnist"),
        "../../../../../examples/mnist/tfjob.yaml",
    ),
    "an empty file": (("run", "/dev/null"), "/dev/null"),
    "errors": (("run", "broken.yaml"), "3 errors"),
    "an unused parameter": (("run", "hello.yaml", "-p", "a=1"), "${a}"),
    "a parameter without value": (("run", "hello.yaml", "-p", "a"), "KEY=VALUE"),
    "a parameter twice": (("run", "hello.yaml", "-p", "a=1", "-p", "a=2"), "-p a"),
    "a bad name": (("run", "hello.yaml", "--name", "Not_a_name"), "--name: 'Not_a_name'"),
    "an unknown volume": (("run", "hello.yaml", "--volume", "data=/tmp"), "--volume data"),
    "a volume without folder": (("run", "everything.yaml", "--volume", "data="), "NAME=FOLDER"),
    "a missing interpreter": (("run", "hello.yaml", "--python", "/no/python"), "/no/python"),
    "a bad namespace": (("run", "hello.yaml", "-n", "../x"), "../x"),
    "a bad level": (("run", "hello.yaml", "--level", "best"), "'best'"),
    "a bad time span": (("wait", "hello", "--timeout", "soon"), "'soon'"),
    "an age without a unit": (("prune", "--older", "3"), "unit"),
    "an option of tfjob, misspelt, of a script": (("run", "train.py", "--worker", "2"), "--workers"),
    "a negative tail": (("logs", "hello", "--tail", "-1"), "--tail"),
    "following the past": (("logs", "hello", "-f", "-p"), "--previous"),
    "an unknown version": (("convert", "hello.yaml", "--to", "v9"), "kubeflow.org/v1"),
    "an unknown command": (("statsu",), "status"),
    **{f"the command {name} of other tools": ((name, "hello"), f"Use {meant}.") for name, meant in MEANT.items()},
    "no job": (("stop",), "--all"),
    "a job and all": (("wait", "hello", "--all"), "'hello'"),
    "deleting all without a terminal": (("delete", "--all"), "--yes"),
    "two replicas of all jobs": (("logs", "--all", "worker-0", "worker-1"), "'worker-1'"),
    "no command": (("exec", "hello", "worker-0"), "-- COMMAND"),
    "a claim's files": (("volume", "delete", "keep"), "tfjob volume delete keep --yes"),
    "a job that is over": (("stop", "hello"), "Succeeded"),
    "scaling what is over": (("scale", "fails", "worker=2"), "Failed"),
    "an option of another command": (("exec", "hello", "worker-0", "ls", "-l"), "-- "),
}
NOT_FOUND = {
    "an unknown job": (("status", "nobody"), "tfjob ps -a"),
    "a misspelt job": (("status", "helo"), "hello"),
    "another namespace": (("status", "hello", "-n", "other"), "-n default"),
    "an empty name": (("status", ""), "tfjob ps -a"),
    "an unknown replica": (("logs", "hello", "worker-7"), "chief-0, worker-0, worker-1"),
    "neither a job nor a replica": (("logs", "hello", "fails", "worker-7"), "'worker-7'"),
    "a replica of no job": (("logs", "--all", "ps-0"), "ps-0"),
    "an unknown container": (("logs", "hello", "worker-0/side"), "container 'side'"),
    "a replica that ended": (("exec", "hello", "worker-0", "--", "ls"), "worker-0"),
    "an unknown claim": (("volume", "delete", "nothing"), "default/keep, default/meet"),
    "one of several": (("delete", "hello", "nobody"), "nobody"),
    "a pattern without a match": (("wait", "hello", "no-*"), "'no-*'"),
    "a pattern without an active match": (("stop", "hel*"), "no active job matches"),
    "a first replica that ended": (("exec", "hello", "--", "ls"), "no running replica"),
}


@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_ends_with_2_and_says_what_to_do(here: Here, name: str) -> None:
    words, keyword = BAD_INPUT[name]
    code, shown = here(*words)
    assert (code, keyword in shown) == (2, True), shown


@pytest.mark.parametrize("name", NOT_FOUND)
def test_what_is_not_there_ends_with_3_and_a_hint(here: Here, name: str) -> None:
    words, keyword = NOT_FOUND[name]
    code, shown = here(*words)
    assert (code, keyword in shown) == (3, True), shown


def test_every_error_has_its_golden_text(finished: CommandLine, here: Here) -> None:
    cases = {name: here(*words) for name, (words, _) in (BAD_INPUT | NOT_FOUND).items()}
    text = "\n".join(f"{name}: exit code {code}\n{shown}" for name, (code, shown) in cases.items())
    finished.golden("errors", text, exact=True)


class Here:
    """The command line in this process, with finished jobs: a process per error would take too long."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[object, str]:
        self._monkeypatch.setattr(sys, "argv", ["tfjob", *words])
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((MANIFESTS / "hello.yaml").read_bytes())))
        with pytest.raises(SystemExit) as ended:
            exit_codes.guarded(cli)
        captured = self._capsys.readouterr()
        return ended.value.code, captured.out + captured.err


@pytest.fixture
def here(finished: CommandLine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """Run with arguments and return the exit code and the output; internal errors are raised."""
    monkeypatch.setenv("TFJOB_HOME", str(finished.home))
    monkeypatch.setenv("TFJOB_DEBUG", "1")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(MANIFESTS)
    return Here(monkeypatch, capsys)


def test_nothing_bad_was_started(finished: CommandLine) -> None:
    names = [path.name for path in (finished.home / "runs" / "default").iterdir()]
    assert sorted(names) == ["fails.1", "hello.1", "restarts.1"]


def test_check_goes_on_after_a_file_that_cannot_be_read(empty: CommandLine) -> None:
    shown = empty("check", "nowhere.yaml", ".", "http://a/b", "hello.yaml", code=2)
    assert [line.split(": ")[0] for line in shown.splitlines()] == ["nowhere.yaml", ".", "http://a/b", "hello.yaml"]
    empty.golden("check-unreadable", shown, exact=True)


def test_check_shows_the_lines_to_add_apart_as_run_does(empty: CommandLine) -> None:
    lines = '\n    [images."example.com/no-command"]\n    command = ['
    assert lines in empty("check", "--on", "local", "refused.yaml", code=2)
    assert lines in empty("run", "refused.yaml", code=2)


def test_what_a_conversion_changes_leaves_out_or_breaks_is_a_warning(empty: CommandLine) -> None:
    manifest = (MANIFESTS / "fails.yaml").read_text()
    manifest = manifest.replace("  tfReplicaSpecs:", "  successPolicy: AllWorkers\n  tfReplicaSpecs:")
    manifest = manifest.replace("    Worker:", "    PS:\n      restartPolicy: ExitCode")
    done = empty.run("convert", "-", "--to", "tensorflow.org/v1alpha1", stdin=manifest)
    assert done.returncode == 0
    told = done.stderr.splitlines()
    assert all(": warning: " in line for line in told), told
    keywords = ("successPolicy", "ExitCode", "Master")
    assert [word for word in keywords if not any(word in line for line in told)] == []
    empty.golden("convert-warnings", done.stderr, exact=True)


NEEDING = {
    "check": ("check", "--on", "local"),
    "run-dry-run": ("run", "--dry-run"),
    "run": ("run",),
    "submit": ("submit",),
}


@pytest.mark.parametrize("command", NEEDING)
def test_every_command_names_all_missing_objects_at_once(empty: CommandLine, command: str) -> None:
    shown = empty(*NEEDING[command], "needy.yaml", code=2)
    at = "spec.tfReplicaSpecs.Worker.template.spec.containers[0]"
    assert f"needy.yaml:16:42: {at}.env[0].valueFrom.secretKeyRef.name: " in shown
    assert f"needy.yaml:18:30: {at}.envFrom[0].configMapRef.name: " in shown
    assert "kind: Secret" in shown
    assert "kind: ConfigMap" in shown
    assert "extras" not in shown
    empty.golden(f"{command}-missing-objects", shown, exact=True)


def test_what_an_earlier_manifest_brought_is_not_missing_but_its_keys_may_be(cli: CommandLine) -> None:
    cli("run", "everything.yaml", "-p", "steps=1", "--no-limits")
    shown = cli("check", "--on", "local", "needy.yaml", code=2)
    place = "needy.yaml:16:56: spec.tfReplicaSpecs.Worker.template.spec.containers[0].env[0].valueFrom.secretKeyRef.key"
    assert shown.startswith(f"{place}: ")
    assert "passwort" in shown
    assert len(shown.splitlines()) == 1
    cli.golden("check-missing-key", shown, exact=True)
    needy = (MANIFESTS / "needy.yaml").read_text().replace("passwort", "password")
    assert "hunter2" in cli("run", "-", "--no-limits", stdin=needy)
    assert "secretKeyRef.name: " in cli("run", "-", "--no-limits", "-n", "other", stdin=needy, code=2)


@pytest.mark.parametrize("words", [("check", "--on", "local"), ("run", "--dry-run"), ("run", "--no-limits")])
def test_a_program_that_is_not_on_this_machine_is_a_warning(cli: CommandLine, words: tuple[str, ...]) -> None:
    manifest = (MANIFESTS / "fails.yaml").read_text().replace("[sh, -c,", "[/opt/no-such-program, -c,")
    shown = cli(*words, "-", stdin=manifest, code=1 if "--no-limits" in words else 0)
    warnings = [line for line in shown.splitlines() if ": warning: " in line]
    assert len(warnings) == 1
    assert ": warning: spec.tfReplicaSpecs.Worker.template.spec.containers[0].command[0]: " in warnings[0]
    assert "/opt/no-such-program" in warnings[0]
    assert "--no-limits" not in words or "cannot run '/opt/no-such-program': No such file" in shown
    cli.golden("warning-missing-program", f"{warnings[0]}\n", exact=True)


def test_a_manifest_of_another_namespace_than_the_command_line_s_is_refused(empty: CommandLine) -> None:
    manifest = (MANIFESTS / "hello.yaml").read_text().replace("name: hello", "name: hello\n  namespace: team", 1)
    shown = empty("run", "-", "-n", "other", "--dry-run", stdin=manifest, code=2)
    assert "stdin:5:3: metadata.namespace: " in shown
    assert "-n other" in shown
    empty.golden("run-other-namespace", shown, exact=True)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"not a database", "file is not a database"),
        (b"", "hello"),
    ],
)
def test_a_broken_state_is_told(cli: CommandLine, content: bytes, expected: str) -> None:
    cli.home.mkdir()
    (cli.home / "state.db").write_bytes(content)
    done = cli.run("status", "hello")
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode in (2, 3)


def test_a_state_of_a_newer_tfjob_is_refused(cli: CommandLine) -> None:
    import sqlite3

    cli.home.mkdir()
    connection = sqlite3.connect(cli.home / "state.db")
    connection.execute("pragma user_version = 99")
    connection.close()
    for words in (("ps",), ("run", "hello.yaml")):
        shown = cli(*words, code=2)
        assert "schema 99" in shown
        cli.golden("state-newer", shown, exact=True)


def test_a_user_without_a_home_is_told_to_name_one(empty: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("TFJOB_HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nobody)
    with pytest.raises(Refusal) as refused:
        find_home(os.environ)
    stop = exit_codes.explained(refused.value)
    assert stop is not None
    assert (stop.code, "TFJOB_HOME" in stop.hint) == (exit_codes.BAD_INPUT, True)
    empty.golden("no-home", f"{stop.message}\n{stop.hint}\n", exact=True)


HARMLESS = ("check", "convert", "ps", "status", "logs", "events", "wait", "explain", "volume", "stop", "scale")
WORDS = [
    *(
        *COMMANDS,
        "restarts",
        "hello",
        "fails",
        "@latest",
        "hello.1",
        "worker-0",
        "ls",
        "nothing",
        "",
        "two words",
        "\udcff",
    ),
    *(
        "-",
        "--",
        "-o",
        "json",
        "yaml",
        "-n",
        "default",
        "..",
        "é",
        "=",
        "x=",
        "worker=3",
        "ps=1",
        "--help",
        "--version",
    ),
    *("--tail", "1", "-1", "--since", "99999999999w", "1s", "--all", "-a", "-A", "--dry-run", "--to", "v1", "batch/v1"),
    *("--older", "30d", "--for", "running", "--timeout", "0", "hello.yaml", "broken.yaml", "old.yaml", "-p", "a=b"),
]


@pytest.mark.parametrize("seed", range(5))
def test_no_words_at_all_make_a_traceback(here: Here, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(25):
        words = [chance.choice(HARMLESS), *chance.choices(WORDS, k=chance.randrange(6))]
        code, _ = here(*words)
        assert code in range(5), words

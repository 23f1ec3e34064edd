"""The exact output of every command, in golden files."""

from __future__ import annotations

import json
import re

import pytest

from support.command_line import GOLDEN, CommandLine, by_replica
from support.running import workload_pid
from tfjob.cli.main import COMMANDS

READING = {
    "ps": ("ps",),
    "ps-all": ("ps", "-a", "-A"),
    "ps-wide": ("ps", "-a", "-o", "wide"),
    "ps-name": ("ps", "-a", "-o", "name"),
    "status-succeeded": ("status", "hello"),
    "status-failed": ("status", "fails"),
    "status-restarted": ("status", "restarts"),
    "logs-one": ("logs", "hello", "chief-0"),
    "logs-previous": ("logs", "restarts", "worker-0", "--previous"),
    "logs-last": ("logs", "restarts"),
    "logs-tail": ("logs", "hello", "chief-0", "--tail", "1"),
    "logs-since": ("logs", "hello", "chief-0", "--since", "1h"),
    "logs-followed": ("logs", "hello", "chief-0", "-f"),
    "logs-several": ("logs", "restarts", "fails"),
    "logs-several-followed": ("logs", "r*", "fails", "-f"),
    "logs-several-replica": ("logs", "--all", "worker-0", "--tail", "1"),
    "logs-several-runs": ("logs", "fails.1", "f*", "--tail", "1"),
    "wait-succeeded": ("wait", "hello"),
    "prune-dry-run": ("prune", "--older", "0s", "--dry-run"),
    "volume-ls": ("volume", "ls"),
}
STATELESS = {
    "version": (0, "--version"),
    "help": (0, "--help"),
    "explain-restarts": (0, "explain", "restarts"),
    "explain-errors": (0, "explain", "errors"),
    "ps-empty": (0, "ps"),
    "check-ok": (0, "check", "hello.yaml", "old.yaml"),
    "check-errors": (2, "check", "broken.yaml"),
    "check-volume-without-target": (2, "check", "hello.yaml", "--volume", "data=/tmp"),
    "tensorboard-logdir-absent": (2, "tensorboard", "hello", "--logdir", "absent"),
    "tensorboard-logdir-of-two": (2, "tensorboard", "hello", "fails", "--logdir", "."),
    "check-local": (2, "check", "--on", "local", "refused.yaml"),
    "run-refused": (2, "run", "refused.yaml"),
    "run-script": (
        0,
        *("run", "steps.py", "--chief", "--workers", "2", "--dry-run", "-o", "yaml", "--", "--steps", "3"),
    ),
    "run-manifest": (0, *("run", "everything.yaml", "--name", "other", "-p", "steps=3", "--dry-run", "-o", "yaml")),
    "completion-unknown": (2, "completion", "tcsh"),
    "convert-v1": (0, "convert", "old.yaml"),
    "convert-v1beta1": (0, "convert", "hello.yaml", "--to", "v1beta1"),
    "convert-v1alpha1": (0, "convert", "hello.yaml", "--to", "kubeflow.org/v1alpha1"),
    "operator-without-image": (2, "operator", "manifests"),
    "dry-run-ports": (0, "run", "--dry-run", "everything.yaml", "-p", "steps=3", "--level", "ports", "--no-limits"),
}


@pytest.mark.parametrize("name", READING)
def test_a_reading_command_prints_its_golden_text(finished: CommandLine, name: str) -> None:
    finished.golden(name, finished(*READING[name]))


@pytest.mark.parametrize("name", STATELESS)
def test_a_command_that_needs_no_state_prints_its_golden_text_and_leaves_nothing(empty: CommandLine, name: str) -> None:
    code, *words = STATELESS[name]
    empty.golden(name, empty(*map(str, words), code=int(code)), exact=True)
    assert not empty.home.exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_is_its_golden_text(empty: CommandLine, command: str) -> None:
    empty.golden(f"help-{command}", in_process(command, "--help"), exact=True)


@pytest.mark.parametrize(
    "words",
    [
        ("volume", "ls"),
        ("volume", "delete"),
        ("explain", "restarts"),
        ("explain", "errors"),
        ("operator", "manifests"),
        ("operator", "install"),
        ("operator", "uninstall"),
        ("serve", "start"),
        ("serve", "status"),
        ("serve", "stop"),
        ("serve", "update"),
    ],
)
def test_the_help_of_a_command_of_a_group_is_its_golden_text(empty: CommandLine, words: tuple[str, str]) -> None:
    empty.golden("-".join(("help", *words)), in_process(*words, "--help"), exact=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_golden_text_beside_its_help(command: str) -> None:
    assert any(GOLDEN.glob(f"{command}*.txt"))


def in_process(*words: str) -> str:
    """Return the help of a command without starting a process."""
    from click.testing import CliRunner

    from tfjob.cli.main import cli

    return CliRunner().invoke(cli, words, terminal_width=100, prog_name="tfjob").output


def test_a_job_without_event_files_names_the_searched_folders(finished: CommandLine) -> None:
    finished.golden("tensorboard-none", finished("tensorboard", "hello", code=3), exact=True)


def test_a_job_that_is_not_there_is_named_also_among_several(finished: CommandLine) -> None:
    finished.golden("tensorboard-unknown", finished("tensorboard", "hello", "nobody", code=3), exact=True)


def test_an_attached_run_shows_states_lines_and_the_end(finished: CommandLine) -> None:
    finished.golden("run-succeeded", by_replica(finished.outputs["hello"]))


def test_a_failed_run_ends_with_the_verdict(finished: CommandLine) -> None:
    finished.golden("run-failed", by_replica(finished.outputs["fails"]))


def test_a_restart_is_told(finished: CommandLine) -> None:
    finished.golden("run-restarted", by_replica(finished.outputs["restarts"]))


def test_events_are_told_in_order(finished: CommandLine) -> None:
    lines = finished("events", "restarts").splitlines()
    finished.golden("events", "\n".join(lines) + "\n")


def test_logs_of_all_replicas_are_prefixed_and_merged_by_time(finished: CommandLine) -> None:
    finished.golden("logs-all", by_replica(finished("logs", "hello")))
    stamped = finished("logs", "hello", "--timestamps").splitlines()
    times = [line.split(" | ")[1].split()[0] for line in stamped]
    assert times == sorted(times)
    assert len(times) == 8


def test_a_job_in_the_background_says_how_to_go_on(running: CommandLine) -> None:
    running.golden("submit", running.outputs["submit"], exact=True)


def test_a_running_job_shows_how_it_stands(running: CommandLine) -> None:
    pid = workload_pid(running.home, "sleeper-worker-0")
    running.golden("status-running", running("status", "sleeper").replace(str(pid), "PID"))
    running.golden("wait-timeout", running("wait", "sleeper", "--timeout", "0.2s", code=4))


def test_doctor_says_what_it_tried(empty: CommandLine) -> None:
    shown = re.sub(r"^  (ok|no)  ([^:\n]+).*(\n      .*)*", r"  MARK  \2", empty("doctor"), flags=re.MULTILINE)
    shown = re.sub(r"^level \w+: .*", "level LEVEL: MEANING", shown)
    empty.golden("doctor", re.sub(r"\d+ CPUs, [\d.]+ GiB", "N CPUs, N GiB", shown))


@pytest.mark.root
def test_a_dry_run_at_full_level_shows_the_cluster_s_tf_config(empty: CommandLine) -> None:
    words = ("run", "--dry-run", "everything.yaml", "-p", "steps=3", "--level", "full", "--no-limits")
    text = empty(*words)
    assert "hunter2" not in text
    empty.golden("dry-run-full", text, exact=True)
    shape = json.loads(empty(*words, "-o", "json"))
    (process,) = [item for item in shape["items"] if item["replica"] == "worker-0"]
    config = json.loads(process["containers"][1]["env"]["TF_CONFIG"])
    assert config["cluster"]["worker"] == ["everything-worker-0.default.svc:2222"]
    assert "hunter2" not in json.dumps(shape)


def test_no_colours_without_a_terminal(finished: CommandLine) -> None:
    outputs = [*finished.outputs.values(), finished("status", "fails"), finished("status", "nobody", code=3)]
    assert not any("\x1b" in output for output in outputs)

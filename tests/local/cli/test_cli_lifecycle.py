"""The lifecycle of jobs on the command line: background, stop, resume, scale, delete, names, several at once."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support.command_line import MANIFESTS, CommandLine
from support.running import ending, wait_until


def test_a_job_is_stopped_resumed_scaled_and_deleted(cli: CommandLine) -> None:
    cli("submit", "sleeper.yaml", "--no-limits")
    cli.golden("wait-running", cli("wait", "sleeper", "--for", "running", "--timeout", "90s"), exact=True)
    wait_until(lambda: "up" in cli("logs", "sleeper"), 60)
    cli.golden("stop", cli("stop", "sleeper"), exact=True)
    assert cli("logs", "sleeper") == "worker-0 | up\nworker-0 | stopped\n"
    assert "Suspended" in cli("ps")
    cli.golden("wait-suspended", cli("wait", "sleeper", code=1), exact=True)
    cli.golden("resume", cli("resume", "sleeper"), exact=True)
    cli("wait", "sleeper", "--for", "running", "--timeout", "90s")
    cli.golden("resume-running", cli("resume", "sleeper", code=2), exact=True)
    cli.golden("scale", cli("scale", "sleeper", "worker=2"), exact=True)
    wait_until(lambda: '"ready": "2/2"' in cli("ps", "-o", "json"), 60)
    cli.golden("suspend", cli("suspend", "sleeper"), exact=True)
    shape = json.loads(cli("status", "sleeper", "-o", "json"))
    assert (shape["kind"], shape["state"], shape["reason"]) == ("JobStatus", "Suspended", "Suspended")
    cli.golden("delete", cli("delete", "sleeper"), exact=True)
    assert not any((cli.home / "runs" / "default").iterdir())
    cli("status", "sleeper", code=3)


def test_a_name_in_use_is_refused_and_that_of_a_finished_job_used_again(cli: CommandLine) -> None:
    cli("submit", "sleeper.yaml", "--no-limits")
    cli("wait", "sleeper", "--for", "running", "--timeout", "90s")
    refused = cli("run", "sleeper.yaml", code=2)
    assert "--name" in refused
    assert "tfjob delete sleeper" in refused
    cli.golden("run-name-in-use", refused)
    cli("stop", "sleeper")
    assert "replaces sleeper.1, which can no longer be resumed" in cli("submit", "sleeper.yaml", "--no-limits")
    cli("delete", "sleeper", "sleeper.1")
    for _ in range(2):
        cli("run", "fails.yaml", "--no-limits", code=1)
    cli("run", "fails.yaml", "--name", "other", "--no-limits", code=1)
    shape = json.loads(cli("ps", "-a", "-o", "json"))
    assert [(item["id"], item["current"]) for item in shape["items"]] == [
        ("fails.1", False),
        ("fails.2", True),
        ("other.1", True),
    ]
    assert "fails.2" in cli("status", "fails")
    assert "fails.1" in cli("status", "fails.1")
    assert "fails.2" in cli("status", "fa"), "a unique beginning names a job"
    assert "other.1" in cli("status", "@latest")
    assert cli("logs", "fails.1", "--tail", "1") == "worker-0 | ValueError: no data\n"
    cli.golden("prune-none", cli("prune", "--older", "1h"), exact=True)
    cli.golden("prune", cli("prune", "--older", "0s"), exact=True)
    cli.golden("ps-empty", cli("ps", "-a"), exact=True)


def test_several_jobs_of_one_file_run_together_and_the_worst_end_counts(cli: CommandLine) -> None:
    both = "\n---\n".join((MANIFESTS / name).read_text() for name in ("hello.yaml", "fails.yaml"))
    shown = cli("run", "-", "--no-limits", stdin=both, code=1)
    lines = shown.splitlines()
    assert "hello/chief-0  | chief says bye" in lines
    assert "fails/worker-0 | loading" in lines
    verdicts = [line for line in lines if line.startswith(("hello ", "fails "))]
    assert [line.split()[0] for line in verdicts] == ["hello", "fails"]
    cli.golden("run-two-jobs", "\n".join(verdicts) + "\n")
    states = {item["name"]: item["state"] for item in json.loads(cli("ps", "-o", "json"))["items"]}
    assert states == {"hello": "Succeeded", "fails": "Failed"}


def test_if_one_job_of_a_file_is_refused_none_starts(cli: CommandLine) -> None:
    cli("submit", "sleeper.yaml", "--no-limits")
    both = "\n---\n".join((MANIFESTS / name).read_text() for name in ("hello.yaml", "sleeper.yaml"))
    cli("submit", "-", stdin=both, code=2)
    assert [item["name"] for item in json.loads(cli("ps", "-a", "-o", "json"))["items"]] == ["sleeper"]
    cli("delete", "sleeper")


def test_a_follower_sees_every_line_once_and_ends_with_the_job(cli: CommandLine) -> None:
    cli("submit", "hello.yaml", "--no-limits")
    lines = cli("logs", "hello", "-f").splitlines()
    assert sorted(lines) == sorted(cli("logs", "hello").splitlines())
    assert len(lines) == 8
    cli.golden("wait-succeeded", cli("wait", "hello", "--timeout", "120"))


def test_json_of_an_attached_run_is_one_document_and_its_exit_code_the_job_s(cli: CommandLine) -> None:
    (job,) = json.loads(cli("run", "fails.yaml", "--no-limits", "-o", "json", code=1))["items"]
    assert (job["state"], job["failure"]["exitCode"]) == ("Failed", 3)


def test_a_reader_that_goes_away_does_not_end_the_job(cli: CommandLine) -> None:
    command = [*cli.tool.command, "run", "hello.yaml", "--no-limits"]
    with ending(
        subprocess.Popen(command, env=cli.environment(), cwd=MANIFESTS, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(120) == 0
        assert process.stderr.read() == b""
    assert "Succeeded" in cli("ps")


def test_a_command_runs_inside_a_replica_with_its_name_and_its_exit_code(running: CommandLine) -> None:
    script = "echo $TFJOB_NOTHING$HOSTNAME; cat; echo wrong >&2; exit 7"
    running.golden("exec", running("exec", "sleeper", "worker-0", "--", "sh", "-c", script, stdin="in\n", code=7))
    running.golden("exec-no-program", running("exec", "sleeper", "worker-0", "no-such-program", code=127))
    running.golden("exec-no-container", running("exec", "sleeper", "worker-0", "-c", "no", "--", "ls", code=3))


def test_a_command_without_a_replica_runs_in_the_first_one(cli: CommandLine) -> None:
    manifest = (MANIFESTS / "sleeper.yaml").read_text()
    several = manifest.replace("replicas: 1", "replicas: 2")
    cli("submit", "-", "--name", "two", "--no-limits", stdin=several)
    cli("submit", "-", "--name", "one", "--no-limits", stdin=manifest)
    cli("wait", "--all", "--for", "running", "--timeout", "90s")
    assert cli("exec", "one", "--", "hostname") == "one-worker-0\n"
    shown = cli("exec", "two", "--", "hostname")
    assert shown.splitlines()[0] == "two-worker-0"
    cli.golden("exec-first-replica", shown, exact=True)
    assert cli("exec", "two", "worker-1", "--", "hostname") == "two-worker-1\n"
    cli("delete", "one", "two")


def test_namespaces_keep_jobs_apart(cli: CommandLine) -> None:
    cli("run", "fails.yaml", "-n", "team", "--no-limits", code=1)
    cli.golden("ps-empty", cli("ps"), exact=True)
    assert "fails" in cli("ps", "-n", "team")
    assert "team" in cli("ps", "-A")
    assert "-n team" in cli("status", "fails", code=3)


def test_the_latest_job_is_that_of_any_namespace_and_printed_commands_name_it(cli: CommandLine) -> None:
    """Most old manifests have a namespace: a user who has just started such a job means that one."""
    cli("run", "fails.yaml", "--no-limits", code=1)
    assert "tfjob wait sleeper -n team" in cli("submit", "sleeper.yaml", "-n", "team", "--no-limits")
    assert cli("status", "@latest").startswith("sleeper")
    assert cli("status", "@latest", "-n", "default").startswith("fails")
    assert "tfjob resume sleeper -n team" in cli("stop", "@latest")


def test_a_secret_is_in_its_own_file_and_nowhere_else(cli: CommandLine) -> None:
    shown = cli("run", "everything.yaml", "-p", "steps=1", "--no-limits")
    assert "the password has 7 letters" in shown
    found = subprocess.run(["grep", "-rl", "hunter2", cli.home], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == [str(cli.home / "secrets" / "default" / "access.json")]
    assert (cli.home / "secrets" / "default" / "access.json").stat().st_mode & 0o777 == 0o600
    assert cli.home.stat().st_mode & 0o777 == 0o700
    assert cli("logs", "everything", "worker-0/sidecar") == "beside\n"
    assert cli("logs", "everything", "worker-0/fetch") == "fetched\n"


def test_a_claim_outlives_its_job_and_goes_when_told(cli: CommandLine) -> None:
    cli("run", "everything.yaml", "-p", "steps=1", "--no-limits")
    (cli.home / "claims" / "default" / "data" / "kept").write_text("x")
    cli("delete", "everything")
    assert (cli.home / "claims" / "default" / "data" / "kept").exists()
    cli.golden("volume-delete", cli("volume", "delete", "data", "--yes"), exact=True)
    cli.golden("volume-ls-empty", cli("volume", "ls"), exact=True)


def test_deleting_a_job_ends_what_clean_pod_policy_kept(cli: CommandLine) -> None:
    manifest = (MANIFESTS / "everything.yaml").read_text()
    manifest = manifest.replace("  tfReplicaSpecs:", "  runPolicy: {cleanPodPolicy: None}\n  tfReplicaSpecs:")
    cli("submit", "-", "-p", "steps=1", "--no-limits", stdin=manifest)
    cli("wait", "everything", "--timeout", "120")
    shape = json.loads(cli("status", "everything", "-o", "json"))
    assert shape["state"] == "Succeeded"
    (left,) = [one for one in shape["replicas"] if one["name"] == "ps-0"]
    assert left["phase"] == "Running"
    cli("delete", "everything")


@pytest.mark.parametrize("level", ["addresses", "ports"])
def test_a_level_can_be_forced_and_is_shown(cli: CommandLine, level: str) -> None:
    shown = cli("run", "hello.yaml", "--level", level, "--dry-run")
    assert f"level {level}" in shown


def test_delete_says_which_earlier_runs_of_the_name_are_kept(cli: CommandLine) -> None:
    for _ in range(2):
        cli("run", "fails.yaml", "--no-limits", code=1)
    shown = cli("delete", "fails")
    assert "fails.1" in shown
    assert "tfjob prune" in shown
    cli.golden("delete-earlier-runs", shown + cli("delete", "fails.1"), exact=True)


def test_a_stopped_job_has_succeeded_if_all_replicas_exit_0(cli: CommandLine, tmp_path: Path) -> None:
    """`suspend` never ends a job, and neither does the stop of a job with a replica that was killed."""
    script = tmp_path / "nice.sh"
    script.write_text('trap "exit $1" TERM; [ $TF_CONFIG ]; echo up; while :; do sleep 0.05; done')
    for command, code, state in (
        ("suspend", "0", "Suspended"),
        ("stop", "143", "Suspended"),
        ("stop", "0", "Succeeded"),
    ):
        cli("submit", str(script), "--workers", "2", "--", code)
        wait_until(lambda: cli("logs", "nice").count("up") == 2, 60)
        ended = cli(command, "nice")
        assert json.loads(cli("status", "nice", "-o", "json"))["state"] == state
        if state == "Succeeded":
            cli.golden("stop-succeeded", ended)
            assert "Succeeded" in cli("resume", "nice", code=2)
        cli("delete", "nice")

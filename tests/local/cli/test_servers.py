"""Deployments and Services on this machine, from manifest to deletion."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from support.command_line import MANIFESTS, CommandLine
from support.running import Running, ending, wait_until


def status(cli: CommandLine) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cli("status", "web", "-o", "json"))
    return found


def until_ready(cli: CommandLine, ready: str) -> None:
    wait_until(lambda: status(cli)["ready"] == ready, 60, lambda: cli("status", "web"))


def test_a_deployment_is_run_reached_scaled_stopped_resumed_and_deleted(cli: CommandLine) -> None:
    cli("submit", "web.yaml", "--no-limits")
    cli("wait", "web", "--for", "running", "--timeout", "90s")
    until_ready(cli, "1/1")
    (row,) = json.loads(cli("ps", "-o", "json"))["items"]
    assert (row["name"], row["state"], row["writtenFor"]) == ("web", "Running", "apps/v1")
    assert "web" in cli("ps").splitlines()[1]
    (replica,) = status(cli)["replicas"]
    assert replica["phase"] == "Running"
    assert "Serving HTTP" in cli("logs", "web")
    assert cli("exec", "web", replica["name"], "--", "echo", "inside") == "inside\n"
    assert replica["name"] in cli("events", "web")
    assert "web.1 is a Deployment; only TFJobs have a TensorBoard" in cli("tensorboard", "web", code=2)
    assert "--for running" in cli("wait", "web", code=2)
    assert "1 server" in cli("ps", "-o", "wide")

    for name in ("service/web", "deployment/web", "web", f"pod/{replica['name']}"):
        port = "8139" if name.startswith("service") else "http"
        with Running(cli.tool, cli.home, name, f":{port}", command="port-forward") as forwarding:
            forwarding.wait_for("Forwarding")
            url = f"http://127.0.0.1:{forwarding.lines[0].split()[2].rpartition(':')[2]}/"
            with urlopen(url, timeout=60) as answer:
                assert b"web.yaml" in answer.read()

    cli("scale", "web", "replicas=2")
    until_ready(cli, "2/2")
    assert "replicas" in cli("scale", "web", "worker=2", code=2)
    cli("stop", "web")
    stopped = status(cli)
    assert (stopped["state"], stopped["reason"], stopped["ready"]) == ("Suspended", "Stopped", "0/2")
    assert stopped["replicas"] == []
    cli("resume", "web")
    until_ready(cli, "2/2")
    told = cli("run", "web.yaml", "--no-limits", code=2)
    assert "Deployment 'web' exists and is Running" in told
    assert "To update it: tfjob submit FILE; to delete it: tfjob delete web" in told
    cli("delete", "web")
    assert json.loads(cli("ps", "-a", "-o", "json"))["items"] == []


def test_an_attached_deployment_runs_until_ctrl_c_which_stops_it(cli: CommandLine) -> None:
    with Running(cli.tool, cli.home, "web.yaml", "--no-limits", cwd=MANIFESTS) as run:
        run.wait_for("Serving HTTP")
        run.wait_for("Running 1/1")
        run.wait_for("Service web is ready")
        (place,) = (line.rpartition(":")[2] for line in run.lines if "Service web is ready" in line)
        with socket.create_connection(("127.0.0.1", int(place))):  # as a browser keeps one
            run.process.send_signal(signal.SIGINT)
            assert run.finish() == 130
    assert not [line for line in run.lines if "Exception" in line or "Suspended 1/1" in line]
    assert status(cli)["state"] == "Suspended"
    cli("delete", "web")


@pytest.mark.parametrize("errors", [subprocess.PIPE, subprocess.STDOUT], ids=["stdout", "both"])
def test_an_attached_deployment_whose_output_nobody_reads_is_stopped(cli: CommandLine, errors: int) -> None:
    command = [*cli.tool.command, "run", "web.yaml", "--no-limits"]
    with ending(
        subprocess.Popen(
            command, env=cli.environment(), cwd=MANIFESTS, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    ) as process:
        assert process.stdout is not None
        assert any("Running 1/1" in line for line in process.stdout)
        process.stdout.close()
        assert process.wait(60) == 130
        if process.stderr is not None:
            assert process.stderr.read() == "the output pipe was closed; stopping\n"
    assert status(cli)["state"] == "Suspended"
    cli("delete", "web")


def test_an_attached_deployment_can_be_scaled_to_0_and_up_again_and_deleted_elsewhere(cli: CommandLine) -> None:
    with Running(cli.tool, cli.home, "web.yaml", "--no-limits", cwd=MANIFESTS) as run:
        run.wait_for("Running 1/1")
        for replicas in (0, 1):
            cli("scale", "web", f"replicas={replicas}")
            until_ready(cli, f"{replicas}/{replicas}")
        assert status(cli)["state"] == "Running"
        cli("delete", "web")
        assert run.finish() == 1
    assert run.lines[-1] == "web was deleted"


def test_an_attached_job_that_is_deleted_elsewhere_has_no_advice_to_resume_it(cli: CommandLine) -> None:
    with Running(cli.tool, cli.home, "sleeper.yaml", "--no-limits", cwd=MANIFESTS) as run:
        run.wait_for("Running")
        cli("delete", "sleeper")
        assert run.finish() == 1
    assert run.lines[-1] == "sleeper was deleted"


def test_a_job_and_its_service_are_in_one_manifest_with_a_deployment(cli: CommandLine, tmp_path: Path) -> None:
    selector = "{training.kubeflow.org/job-name: sleeper}"
    spec = f"{{selector: {selector}, ports: [{{port: 8140}}]}}"
    service = f"apiVersion: v1\nkind: Service\nmetadata: {{name: sleeper-web}}\nspec: {spec}\n"
    documents = [service, *((MANIFESTS / name).read_text() for name in ("sleeper.yaml", "web.yaml"))]
    file = tmp_path / "both.yaml"
    file.write_text("---\n".join(documents))
    cli("submit", str(file), "--no-limits")
    assert {row["name"] for row in json.loads(cli("ps", "-o", "json"))["items"]} == {"sleeper", "web"}
    cli("wait", "sleeper", "--for", "running", "--timeout", "90s")
    assert "Its ports: 8140." in cli("port-forward", "svc/sleeper-web", "1", code=3)
    other = tmp_path / "other.yaml"
    other.write_text((MANIFESTS / "web.yaml").read_text().replace("{name: web}", "{name: sleeper-web}"))
    other.write_text(other.read_text().replace("  name: web\n", "  name: other\n", 1))
    told = cli("submit", str(other), "--no-limits", code=2)
    assert "Service 'sleeper-web' already belongs to sleeper.1" in told
    assert "tfjob delete sleeper\n" in told
    assert {row["name"] for row in json.loads(cli("ps", "-a", "-o", "json"))["items"]} == {"sleeper", "web"}
    cli("delete", "sleeper", "web")


def test_a_program_that_is_missing_is_explained(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text((MANIFESTS / "web.yaml").read_text().replace("[python, ", "[nosuchprogram, "))
    with Running(cli.tool, cli.home, str(file), "--no-limits") as run:
        run.wait_for("exited 127: cannot run 'nosuchprogram': PATH has no such program")
        wait_until(lambda: status(cli)["restarts"] >= 1, 60)
        wait_until(lambda: status(cli)["reason"] == "CrashLoopBackOff", 60)
        (replica,) = status(cli)["replicas"]
        assert replica["exitCode"] == 127
        assert replica["restarts"] >= 1
        assert "nosuchprogram" in cli("events", "web")
        assert "CrashLoopBackOff" in cli("ps")
        run.process.send_signal(signal.SIGINT)
        assert run.finish() == 130
    cli("delete", "web")


def test_a_second_submission_updates_a_server_that_runs(cli: CommandLine, tmp_path: Path) -> None:
    text = (MANIFESTS / "web.yaml").read_text()
    file = tmp_path / "web.yaml"
    file.write_text(text)
    cli("submit", str(file), "--no-limits")
    cli("scale", "web", "replicas=2")
    until_ready(cli, "2/2")
    before = {replica["name"] for replica in status(cli)["replicas"]}
    assert cli("submit", str(file), "--no-limits") == "web.1 is unchanged\n"
    assert {replica["name"] for replica in status(cli)["replicas"]} == before

    file.write_text(text.replace("image: example.com/web", "image: example.com/web:2").replace("8139", "8141"))
    assert cli("submit", str(file), "--no-limits") == "web.1 was updated\n"
    wait_until(lambda: not before & {replica["name"] for replica in status(cli)["replicas"]}, 60)
    until_ready(cli, "2/2")
    assert len(status(cli)["replicas"]) == 2
    wait_until(lambda: "8141" in cli("events", "web"), 60)
    assert "Its ports: 8141." in cli("port-forward", "svc/web", "1", code=3)
    file.write_text(text.replace("app: web", "app: other"))
    told = cli("submit", str(file), "--no-limits", code=2)
    assert "web.1 runs with a different spec.selector, which an update cannot change" in told
    assert "a different cpu, spec.selector," in cli("submit", str(file), "--no-limits", "--cpu", code=2)
    cli("delete", "web")


def test_a_refused_submission_leaves_the_stopped_run_of_its_name(cli: CommandLine, tmp_path: Path) -> None:
    cli("submit", "web.yaml", "--no-limits")
    file = tmp_path / "other.yaml"
    text = (MANIFESTS / "web.yaml").read_text().replace("  name: web\n", "  name: other\n", 1)
    file.write_text(text.partition("---")[0])
    cli("submit", str(file), "--no-limits")
    cli("stop", "other")
    file.write_text(text)
    assert "belongs to web.1" in cli("submit", str(file), "--no-limits", code=2)
    cli("resume", "other")
    cli("wait", "other", "--for", "running", "--timeout", "90s")
    cli("delete", "web", "other")


def test_a_job_and_a_deployment_cannot_share_a_name(cli: CommandLine, tmp_path: Path) -> None:
    job = (MANIFESTS / "sleeper.yaml").read_text().replace("sleeper", "web", 1)
    both = tmp_path / "both.yaml"
    both.write_text(f"{job}---\n{(MANIFESTS / 'web.yaml').read_text()}")
    told = cli("check", str(both), "--on", "local", code=2)
    assert "metadata.name: is also the name of a TFJob in this manifest" in told
    cli("submit", "web.yaml", "--no-limits")
    alone = tmp_path / "job.yaml"
    alone.write_text(job)
    told = cli("submit", str(alone), "--no-limits", code=2)
    assert "the name 'web' is taken by a Deployment (web.1)" in told
    assert "tfjob delete web" in told
    cli("delete", "web")


def test_a_dry_run_shows_the_processes_and_the_service(empty: CommandLine) -> None:
    shown = empty("run", "web.yaml", "--dry-run", "--level", "ports", "--no-limits")
    empty.golden("dry-run-deployment", shown)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("selector: {app: web}", "selector: {app: wob}", "web.yaml:22:3: spec.selector: selects no pod"),
        (
            "targetPort: http",
            "targetPort: grpc",
            "web.yaml:23:24: spec.ports[0].targetPort: its pods have no port grpc",
        ),
        ("8139, targetPort: http", "99999", "web.yaml:23:12: spec.ports[0].port: Invalid value: 99999"),
    ],
)
def test_what_is_wrong_with_a_service_has_its_place(
    empty: CommandLine, tmp_path: Path, old: str, new: str, place: str
) -> None:
    file = tmp_path / "web.yaml"
    file.write_text((MANIFESTS / "web.yaml").read_text().replace(old, new))
    for words in (("check", str(file), "--on", "local"), ("submit", str(file)), ("run", str(file))):
        assert place in empty(*words, code=2)


def test_a_service_over_two_deployments_is_an_error(empty: CommandLine, tmp_path: Path) -> None:
    text = (MANIFESTS / "web.yaml").read_text()
    file = tmp_path / "both.yaml"
    file.write_text(f"{text}\n---\n{text.partition('---')[0].replace('  name: web', '  name: green', 1)}")
    told = empty("check", str(file), "--on", "local", code=2)
    assert "spec.selector: selects pods of Deployment web and Deployment green" in told


def test_the_name_of_a_headless_service_leads_to_the_pods(cli: CommandLine, tmp_path: Path) -> None:
    text = (MANIFESTS / "web.yaml").read_text().replace("  selector: {app: web}\n  ports", "  clusterIP: None\n  ports")
    file = tmp_path / "web.yaml"
    file.write_text(text.replace("spec:\n  clusterIP", "spec:\n  selector: {app: web}\n  clusterIP"))
    assert "headless" in cli("check", str(file), "--on", "local")
    cli("submit", str(file), "--no-limits")
    until_ready(cli, "1/1")
    wait_until(lambda: "Service web is ready: port 8138" in cli("events", "web"), 60)
    (replica,) = status(cli)["replicas"]
    read = "from urllib.request import urlopen; print(urlopen('http://web:8138/', timeout=60).status)"
    assert "200" in cli("exec", "web", replica["name"], "--", "python", "-c", read)
    cli("delete", "web")


def test_a_config_map_that_a_deployment_needs_is_missed_before_it_starts(empty: CommandLine, tmp_path: Path) -> None:
    text = (MANIFESTS / "web.yaml").read_text()
    file = tmp_path / "web.yaml"
    file.write_text(
        text.replace("        image:", "        envFrom: [{configMapRef: {name: gone}}]\n        image:", 1)
    )
    for words in (("check", str(file), "--on", "local"), ("submit", str(file)), ("run", str(file))):
        told = empty(*words, code=2)
        assert "web.yaml:13:" in told
        assert "spec.template.spec.containers[0].envFrom[0].configMapRef.name: ConfigMap 'gone' does not exist" in told
    with file.open("a") as manifest:
        manifest.write("\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: gone}\n")
    empty("check", str(file), "--on", "local")

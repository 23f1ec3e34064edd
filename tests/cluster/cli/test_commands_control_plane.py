"""Commands with `--on k8s` against a real API server and the operator; no node, so the test moves the pods."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.client import Client
from support.canaries import manifest, shown, tells
from support.cluster_golden import check_cluster_golden, transcript
from support.cluster_line import on_cluster, start
from support.command_line import MANIFESTS, CommandLine
from support.installed import Installed
from support.operating import OperatorProcess, operating, with_token
from support.room import Room, job, room
from support.running import wait_until
from support.served import serve_tfjobs
from tfjob.api.resources import CONFIG_MAPS, DEPLOYMENTS, PODS, RESOURCE_QUOTAS, SECRETS, SERVICES
from tfjob.api.types import TFJOBS
from tfjob.kube.access.errors import ApiError
from tfjob.launch.package import MOST_BYTES

pytestmark = pytest.mark.timeout(300)


def shape(there: CommandLine, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(there("status", name, "-o", "json"))
    return found


def test_a_job_is_submitted_watched_and_waited_for(there: CommandLine, team: Room) -> None:
    said = transcript(there, "submit", "sleeper.yaml", "--name", "waited")
    assert "tfjob logs waited -f --on k8s" in said
    team.until_pods("waited", "worker-0")
    team.until("waited", "Pending")
    said += transcript(there, "wait", "waited", "--for", "running", "--timeout", "0.5s", code=4)
    team.all_run("waited", "worker-0")
    said += transcript(there, "wait", "waited", "--for", "running", "--timeout", "60s")
    waiting = start(there, "wait", "waited")
    team.ends("waited-worker-0")
    shown, _ = waiting.communicate(timeout=90)
    assert waiting.returncode == 0
    check_cluster_golden("commands-wait", f"{said}$ tfjob wait waited\n{shown}")
    row = next(line for line in there("ps").splitlines() if line.startswith("waited"))
    assert row.split()[:4] == ["waited", "Succeeded", "1/1", "0"]
    wait_until(lambda: "SuccessfulCreatePod" in there("events", "waited"), 60)


def test_a_failed_job_says_why_and_its_last_lines_outlive_its_pod(there: CommandLine, team: Room) -> None:
    there("submit", "sleeper.yaml", "--name", "fails")
    team.all_run("fails", "worker-0")
    team.ends("fails-worker-0", 3, message="loading\nValueError: no data")
    said = transcript(there, "wait", "fails", "--timeout", "90s", code=1)
    text = there("status", "fails")
    assert "Failed (ReplicaFailed)" in text
    logs = there("logs", "fails")
    why = "".join(line for line in text.splitlines(keepends=True) if line.lstrip().startswith("why"))
    check_cluster_golden("commands-failed", f"{said}$ tfjob status fails\n{why}$ tfjob logs fails\n{logs}")
    assert logs.splitlines()[1:] == ["worker-0 | loading", "worker-0 | ValueError: no data"]
    (failure,) = [item["failure"] for item in json.loads(there("ps", "-o", "json"))["items"] if item["name"] == "fails"]
    assert failure["exitCode"] == 3


def test_a_waiting_job_says_what_it_waits_for(there: CommandLine, team: Room) -> None:
    there("submit", "sleeper.yaml", "--name", "waiting")
    team.until("waiting", reason="Unschedulable")
    text = there("status", "waiting")
    assert "Pending (Unschedulable)" in text
    assert "no nodes available" in text  # the scheduler's words
    wait_until(lambda: "FailedScheduling" in there("status", "waiting"), 60)  # the scheduler writes the event later
    team.waits("waiting-worker-0", "ImagePullBackOff", 'Back-off pulling image "nosuch"')
    team.until("waiting", reason="ImagePullBackOff")
    assert "Back-off pulling image" in there("status", "waiting")


def test_a_job_is_stopped_resumed_scaled_and_deleted(there: CommandLine, team: Room) -> None:
    team.create(job("another", worker=1))  # the last hint depends on whether the namespace has other jobs
    there("submit", "sleeper.yaml", "--name", "life")
    team.all_run("life", "worker-0")
    said = transcript(there, "stop", "life")
    assert "tfjob resume life --on k8s" in said
    assert team.pods("life") == {}
    assert (shape(there, "life")["state"], shape(there, "life")["reason"]) == ("Suspended", "Stopped")
    said += transcript(there, "wait", "life", code=1)
    said += transcript(there, "resume", "life")
    team.until_pods("life", "worker-0")
    team.until("life", "Pending")
    said += transcript(there, "resume", "life", code=2)
    said += transcript(there, "scale", "life", "worker=2")
    team.until_pods("life", "worker-0", "worker-1")
    said += transcript(there, "suspend", "life", "--no-wait")
    said += transcript(there, "delete", "life")
    assert team.pods("life") == {} or team.until_pods("life") == {}
    said += transcript(there, "status", "life", code=3)
    check_cluster_golden("commands-life", said, NAMESPACE=team.namespace)


def test_what_a_command_does_not_know_of_a_job_stays(there: CommandLine, team: Room) -> None:
    wanted = job("kept", worker=1)
    wanted["metadata"]["annotations"] = {"team.example.com/owner": "us"}
    wanted["spec"]["tfReplicaSpecs"]["worker"]["template"]["spec"]["newField"] = {"a": 1}
    team.create(wanted)
    there("stop", "kept")
    there("resume", "kept")
    kept = team.get(TFJOBS, "kept")
    assert kept["metadata"]["annotations"] == {"team.example.com/owner": "us"}
    assert kept["spec"]["tfReplicaSpecs"]["worker"]["template"]["spec"]["newField"] == {"a": 1}


SCRIPT = ("steps.py", "--name", "script", "--image", "python:3", "--workers", "2")


def sent(team: Room, job: str) -> list[dict[str, Any]]:
    """The ConfigMaps with the files of a job."""
    return [one for one in team.objects(CONFIG_MAPS) if one["metadata"]["name"].startswith(f"{job}-files-")]


def test_the_folder_of_a_script_travels_in_config_maps_of_its_job(there: CommandLine, team: Room) -> None:
    """They are deleted with it; a TAB knows the job."""
    said = there("submit", *SCRIPT, "--", "--steps", "3")
    assert re.search(rf"sending \d+ files \(.*\) of {MANIFESTS} to the cluster", said)
    team.until_pods("script", "worker-0", "worker-1")
    (config_map,) = sent(team, "script")
    assert config_map["immutable"]
    (owner,) = config_map["metadata"]["ownerReferences"]
    assert owner["uid"] == team.get(TFJOBS, "script")["metadata"]["uid"]
    with pytest.raises(ApiError, match="immutable"):
        team.patch(CONFIG_MAPS, config_map["metadata"]["name"], {"binaryData": {"part-0": ""}})
    pod = team.pods("script")["worker-1"]
    (container,), (unpack,) = pod["spec"]["containers"], pod["spec"]["initContainers"]
    assert container["command"] == ["python", "steps.py", "--steps", "3"]
    assert (unpack["name"], unpack["image"]) == ("tfjob-files", "python:3")
    words = {"_TFJOB_COMPLETE": "bash_complete", "COMP_WORDS": "tfjob status scr", "COMP_CWORD": "2"}
    assert there(env=words) == "plain,script\n"
    there("delete", "script")
    wait_until(lambda: sent(team, "script") == [], 60)


def test_a_job_that_follows_a_deleted_one_has_its_own_files(there: CommandLine, team: Room) -> None:
    """The ConfigMaps of the same files have the same names, and those of the deleted job may still be there."""
    there("submit", *SCRIPT)
    (old,) = sent(team, "script")
    there("delete", "script")
    orphan = {"name": old["metadata"]["name"], "ownerReferences": old["metadata"]["ownerReferences"]}
    wait_until(lambda: sent(team, "script") == [], 60)
    team.make(CONFIG_MAPS, {**old, "metadata": orphan})  # as if the garbage collector were slow
    there("submit", *SCRIPT)
    (new,) = sent(team, "script")
    assert new["metadata"]["ownerReferences"][0]["uid"] == team.get(TFJOBS, "script")["metadata"]["uid"]
    there("delete", "script")


def test_a_script_in_a_dry_run_is_what_its_submission_creates(there: CommandLine, team: Room) -> None:
    shown = json.loads(there.run("run", "--dry-run", *SCRIPT, "-o", "json").stdout)["items"]
    there("submit", *SCRIPT)
    team.until_pods("script", "worker-0", "worker-1")
    resources = {one.kind: one for one in (TFJOBS, CONFIG_MAPS, PODS, SERVICES)}
    assert [one["kind"] for one in shown] == ["TFJob", "ConfigMap", "Service", "Service", "Pod", "Pod"]
    for one in shown:
        assert differences(one, team.get(resources[one["kind"]], one["metadata"]["name"])) == []
    there("delete", "script")


def test_eight_config_maps_that_are_full_are_accepted(there: CommandLine, team: Room, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(there("run", *SCRIPT, "--dry-run", "-o", "yaml"))
    (tmp_path / "steps.py").touch()
    (tmp_path / "data.bin").write_bytes(os.urandom(MOST_BYTES - 100_000))
    there("submit", str(tmp_path / "job.yaml"))
    assert len(sent(team, "script")) == 8
    there("delete", "script")
    wait_until(lambda: sent(team, "script") == [], 60)


def test_check_reports_that_a_program_would_not_be_sent(there: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(there("run", *SCRIPT, "--dry-run", "-o", "yaml"))
    (tmp_path / "steps.py").touch()
    assert "ok (script)" in there("check", "--on", "k8s", str(tmp_path / "job.yaml"))
    (tmp_path / ".tfjobignore").write_text("*.py\n")
    assert ".tfjobignore ignores it" in there("check", "--on", "k8s", str(tmp_path / "job.yaml"), code=2)


def test_files_that_may_not_be_created_leave_no_job(there: CommandLine, team: Room) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}}
    team.make(RESOURCE_QUOTAS, {**quota, "spec": {"hard": {"count/configmaps": "0"}}})
    wait_until(lambda: bool(team.get(RESOURCE_QUOTAS, "small").get("status", {}).get("used")), 60)
    try:
        assert "quota" in there("submit", *SCRIPT, code=2)
        wait_until(lambda: team.find(TFJOBS, "script") is None, 60)
    finally:
        team.delete(RESOURCE_QUOTAS, "small")


def test_a_name_that_is_taken_is_refused_with_what_to_do(there: CommandLine, team: Room) -> None:
    there("submit", "sleeper.yaml", "--name", "taken")
    team.until("taken", "Pending")
    said = there("submit", "sleeper.yaml", "--name", "taken", code=2)
    assert "--name" in said
    assert "tfjob delete taken --on k8s" in said
    check_cluster_golden("commands-name-taken", said, NAMESPACE=team.namespace)


def test_the_objects_of_a_manifest_are_made_and_brought_up_to_date(there: CommandLine, team: Room) -> None:
    there("submit", "everything.yaml", "-p", "steps=1")
    assert shape(there, "everything")["namespace"] == team.namespace
    (name,) = team.get(SECRETS, "access")["data"]
    there("delete", "everything")
    team.patch(SECRETS, "access", {"data": {name: None}})
    there("submit", "everything.yaml", "-p", "steps=2")
    assert list(team.get(SECRETS, "access")["data"]) == [name]
    assert team.find(CONFIG_MAPS, "settings")


def test_a_deployment_and_its_service_are_created_and_not_waited_for(there: CommandLine, team: Room) -> None:
    told = there("run", "web.yaml")
    assert "deployment web was created" in told
    made = team.get(DEPLOYMENTS, "web")
    assert made["spec"]["selector"] == {"matchLabels": {"app": "web"}}
    assert team.find(SERVICES, "web")
    assert "kind: Deployment" in there("run", "web.yaml", "--dry-run")
    assert "no ready pod" in there("port-forward", "svc/web", "8139", code=3)


@pytest.mark.faults
def test_a_secret_and_a_token_are_in_no_output_no_record_and_no_object(
    there: CommandLine, control_plane: Client, team: Room, operator: OperatorProcess, tmp_path: Path
) -> None:
    """What a Secret holds is in the Secret; neither tfjob nor the operator writes it, or its own token, elsewhere."""
    token = control_plane.kubectl("create", "token", "default", "-n", team.namespace).strip()
    control_plane.kubectl(
        "create",
        "rolebinding",
        "all",
        "-n",
        team.namespace,
        "--clusterrole=cluster-admin",
        f"--serviceaccount={team.namespace}:default",
    )
    access = with_token(token, control_plane.kubeconfig, tmp_path, team.namespace)
    cli = CommandLine(Installed(there.tool.command, {**there.tool.env, "KUBECONFIG": str(access)}), tmp_path / "home")
    text = manifest("careful", "python", "train.py")
    told = [
        ("dry run", cli("run", "-", "--dry-run", "-v", stdin=text)),
        ("submit", cli("submit", "-", "-v", stdin=text)),
    ]
    team.all_run("careful", "worker-0")
    team.ends("careful-worker-0", 3, message="no data")
    told.append(("wait", cli("wait", "careful", "--timeout", "90s", "-v", code=1)))
    told += shown(cli, "careful", tmp_path)
    told += [(str(path), path.read_text()) for path in cli.home.rglob("*") if path.is_file()]
    told.append(("operator", "\n".join(operator.lines)))
    for kind in ("tfjobs", "pods", "events", "services", "configmaps"):
        told.append((kind, control_plane.kubectl("get", kind, "-n", team.namespace, "-o", "yaml")))
    assert any("careful" in text for what, text in told if what == "operator")
    assert [what for what, text in told if tells(text) or token in text] == []


def test_several_jobs_are_made_or_none(there: CommandLine, team: Room) -> None:
    one = (MANIFESTS / "sleeper.yaml").read_text()
    several = f"{one.replace('sleeper', 'first')}\n---\n{one.replace('sleeper', 'taken-too')}"
    there("submit", "-", stdin=one.replace("sleeper", "taken-too"))
    assert "taken-too" in there("submit", "-", stdin=several, code=2)
    assert team.find(TFJOBS, "first") is None


def test_an_invalid_job_is_refused_before_anything_is_made(there: CommandLine) -> None:
    said = transcript(there, "run", "broken.yaml", code=2)
    said += transcript(there, "submit", "sleeper.yaml", "-n", "nowhere", code=2)
    said += transcript(there, "run", "sleeper.yaml", "--level", "full", code=2)
    check_cluster_golden("commands-invalid", said)


def test_ctrl_c_only_detaches(there: CommandLine, team: Room) -> None:
    attached = start(there, "run", str(MANIFESTS / "sleeper.yaml"), "--name", "goes-on")
    assert attached.stdout is not None
    assert "goes-on" in attached.stdout.readline(), "it says that it has begun"
    team.until_pods("goes-on", "worker-0")
    attached.send_signal(signal.SIGINT)
    shown, _ = attached.communicate(timeout=60)
    assert attached.returncode == 130
    assert "tfjob stop goes-on --on k8s" in shown
    check_cluster_golden("commands-detached", shown.splitlines()[-1])
    assert shape(there, "goes-on")["state"] == "Pending"
    assert set(team.pods("goes-on")) == {"worker-0"}


def test_an_attached_run_ends_with_the_job_s_exit_code(there: CommandLine, team: Room) -> None:
    attached = start(there, "run", str(MANIFESTS / "sleeper.yaml"), "--name", "attached")
    team.all_run("attached", "worker-0")
    team.ends("attached-worker-0", 3, message="no data")
    shown, _ = attached.communicate(timeout=90)
    assert attached.returncode == 1
    check_cluster_golden("commands-attached", shown[shown.rindex("\nattached ") + 1 :])
    assert shape(there, "attached")["folder"].startswith(str(there.home))


def test_attach_opens_a_job_again_and_ends_with_its_exit_code(there: CommandLine, team: Room) -> None:
    there("submit", "sleeper.yaml", "--name", "again")
    team.all_run("again", "worker-0")
    there("wait", "again", "--for", "running", "--timeout", "60s")
    attached = start(there, "attach", "again")
    assert attached.stdout is not None
    assert "attached to again" in attached.stdout.readline()
    attached.send_signal(signal.SIGINT)
    shown, _ = attached.communicate(timeout=60)
    assert attached.returncode == 130
    assert "tfjob attach again --on k8s" in shown
    attached = start(there, "attach", "again")
    assert attached.stdout is not None
    assert "attached to again" in attached.stdout.readline()
    team.ends("again-worker-0", 3, message="no data")
    shown, _ = attached.communicate(timeout=90)
    assert attached.returncode == 1
    assert "again failed" in shown
    check_cluster_golden("commands-attach-finished", transcript(there, "attach", "again", code=1))


def test_patterns_and_all_select_jobs_of_the_namespace(tool: Installed, control_plane: Client, tmp_path: Path) -> None:
    """The jobs of other tests in a shared namespace would be stopped too."""
    serve_tfjobs(control_plane)
    namespace = control_plane.namespace("several")
    with (
        operating(control_plane.kubeconfig, f"--namespace={namespace}"),
        room(control_plane.kubeconfig, namespace) as own,
    ):
        line = on_cluster(tool, control_plane.kubeconfig, namespace, tmp_path)
        for name in ("set-a", "set-b", "other"):
            line("submit", "sleeper.yaml", "--name", name)
            own.all_run(name, "worker-0")
        line("wait", "--all", "--for", "running", "--timeout", "60s")
        own.ends("other-worker-0", 3, message="no data")
        line("wait", "other", code=1)
        said = transcript(line, "wait", "other", "set-a", "--timeout", "0.5s", code=4)
        said += transcript(line, "stop", "set-*", "other", code=2)
        said += transcript(line, "wait", "set-*", "other", code=1)
        said += transcript(line, "stop", "--all")
        said += transcript(line, "stop", "nothing-*", code=3)
        said += transcript(line, "logs", "set-a", "worker-0/other", code=3)
        said += transcript(line, "delete", "set-*", "other")
        check_cluster_golden("commands-several", said, NAMESPACE=namespace)
        assert own.pods("set-a") == {} or own.until_pods("set-a") == {}
    control_plane.delete_namespace(namespace)


def test_a_dry_run_prints_every_object_and_makes_none(there: CommandLine, team: Room) -> None:
    text = there("run", "--dry-run", "everything.yaml", "-p", "steps=3", "--name", "dry")
    documents = list(yaml.safe_load_all(text))
    kinds = [document["kind"] for document in documents]
    assert kinds[:3] == ["Secret", "ConfigMap", "TFJob"]
    assert kinds[3:] == ["Service", "Service", "Pod", "Pod"]
    assert "hunter2" not in text
    (pod,) = [one for one in documents if one["metadata"]["name"] == "dry-worker-0" and one["kind"] == "Pod"]
    main = next(
        one for one in pod["spec"]["containers"] if any(two["name"] == "TF_CONFIG" for two in one.get("env", ()))
    )
    config = json.loads(next(one["value"] for one in main["env"] if one["name"] == "TF_CONFIG"))
    assert config["task"] == {"type": "worker", "index": 0}
    assert config["cluster"]["worker"] == [f"dry-worker-0.{team.namespace}.svc:2222"]
    assert team.find(TFJOBS, "dry") is None
    listed = json.loads(there("run", "--dry-run", "sleeper.yaml", "-o", "json"))
    assert [item["kind"] for item in listed["items"]] == ["TFJob", "Service", "Pod"]
    served = list(yaml.safe_load_all(there("run", "--dry-run", "servers.yaml")))
    assert [one["kind"] for one in served] == ["TFJob", "ConfigMap", "Service", "Service", "Pod", "Pod"]


def test_a_submission_creates_what_a_dry_run_shows(there: CommandLine, team: Room) -> None:
    """The API server adds defaults to it; what is shown is in what there is then."""
    words = (str(MANIFESTS / "everything.yaml"), "-p", "steps=3", "--name", "exact")
    shown = json.loads(there("run", "--dry-run", *words, "-o", "json"))["items"]
    there("submit", *words)
    team.until_pods("exact", "ps-0", "worker-0")
    wait_until(lambda: len(team.services("exact")) == 2, 60)
    resources = {one.kind: one for one in (TFJOBS, CONFIG_MAPS, SECRETS, PODS, SERVICES)}
    for one in shown:
        made = team.get(resources[one["kind"]], one["metadata"]["name"])
        assert differences(one, made) == []
        if one["kind"] == "TFJob":
            assert one["spec"] == made["spec"]
    assert len(team.pods("exact")) == sum(one["kind"] == "Pod" for one in shown)
    there("delete", "exact")


def differences(shown: Any, made: Any, path: str = "") -> list[str]:
    """The paths at which what was made lacks or changes what is shown; ids and Secrets are not shown."""
    if path.endswith("/uid") or path == "/stringData":
        return []
    if isinstance(shown, dict) and isinstance(made, dict):
        return [one for key in shown for one in differences(shown[key], made.get(key), f"{path}/{key}")]
    if isinstance(shown, list) and isinstance(made, list) and len(shown) <= len(made):
        pairs = enumerate(zip(shown, made, strict=False))
        return [one for number, pair in pairs for one in differences(*pair, f"{path}/{number}")]
    return [] if shown == made else [f"{path}: {shown} is {made}"]


def test_check_asks_the_cluster_and_makes_nothing(there: CommandLine, team: Room) -> None:
    said = transcript(there, "check", "--on", "k8s", "sleeper.yaml")
    said += transcript(there, "check", "--on", "k8s", "servers.yaml")
    said += transcript(there, "check", "--on", "k8s", "hello.yaml", code=2)
    assert "hello.yaml:29:37: spec.tfReplicaSpecs.Chief.template.spec.volumes[0].persistentVolumeClaim" in said
    check_cluster_golden("commands-check", said, NAMESPACE=team.namespace)
    assert team.find(TFJOBS, "sleeper") is None


PROGRAM = "import no_such_module\nimport tensorflow as tf\nstrategy = tf.distribute.MirroredStrategy()\n"


def test_a_program_is_checked_without_the_interpreter_of_this_machine(there: CommandLine, tmp_path: Path) -> None:
    """Also without an image, which only a run needs."""

    def check(program: str) -> tuple[int, str]:
        (tmp_path / "train.py").write_text(program)
        done = there.tool.tfjob(there.home, "check", "train.py", "--on", "k8s", "--workers", "2", cwd=tmp_path)
        return done.returncode, done.stdout + done.stderr

    code, said = check(PROGRAM)
    assert (code, "train.py:3:12: warning" in said, "no_such_module" in said) == (0, True, False), said
    code, said = check("def train(:\n")
    assert (code, "train.py:1:11: " in said) == (2, True), said


def test_a_tensorboard_on_a_cluster_needs_its_manifest(there: CommandLine, team: Room, tmp_path: Path) -> None:
    team.create(job("dark", worker=1), job("darker", worker=1))
    said = transcript(there, "tensorboard", "dark", code=3)
    said += transcript(there, "tensorboard", "dark", "darker", code=3)
    said += transcript(there, "tensorboard", "dark", "--logdir", "/absent", code=2)
    check_cluster_golden("commands-tensorboard", said)


@pytest.mark.parametrize(
    ("quota", "level", "keyword"),
    [
        ({"pods": "0"}, "", "quota: small"),
        ({"requests.cpu": "1"}, "", "must specify requests.cpu"),  # Kubernetes' words, and the next ones
        ({}, "restricted", 'violates PodSecurity "restricted:latest"'),
    ],
    ids=["quota", "quota that asks for requests", "security standard"],
)
def test_check_tells_what_a_namespace_would_refuse(
    tool: Installed, control_plane: Client, tmp_path: Path, quota: dict[str, str], level: str, keyword: str
) -> None:
    serve_tfjobs(control_plane)
    namespace = control_plane.namespace("check")
    if quota:
        control_plane.apply(
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": {"hard": quota}},
            namespace=namespace,
        )
    if level:
        control_plane.kubectl("label", "namespace", namespace, f"pod-security.kubernetes.io/enforce={level}")
    line = on_cluster(tool, control_plane.kubeconfig, namespace, tmp_path)
    wait_until(lambda: keyword in line.run("check", "--on", "k8s", "sleeper.yaml").stdout, 90)
    if "pods" in quota:
        check_cluster_golden("commands-check-quota", line("check", "--on", "k8s", "sleeper.yaml"))
    control_plane.delete_namespace(namespace)


def test_a_job_that_no_operator_looks_at_says_so(unattended: CommandLine, quiet: Room) -> None:
    unattended("submit", "sleeper.yaml", "--name", "alone")
    wait_until(lambda: "NotSeen" in unattended("status", "alone"), 60)
    found = unattended("status", "alone")
    check_cluster_golden("commands-not-seen", found, NAMESPACE=quiet.namespace)
    assert "NotSeen" in unattended("ps")
    assert "Pending" in unattended("ps")
    unattended("delete", "alone")


def doctor(line: CommandLine, client: Client, namespace: str) -> str:
    """Return what `tfjob doctor` prints, without the findings that depend on other tests of the same cluster."""
    findings = json.loads(line.run("doctor", "-o", "json").stdout)["findings"]
    varying = {one[key] for one in findings if "operator" in one["title"] for key in ("title", "fix") if one[key]}
    assert varying
    lines = [text for text in line.run("doctor").stdout.splitlines() if not any(one in text for one in varying)]
    shown = re.sub(r"v1\.\d+\.\d+\S*", "VERSION", "\n".join(lines))
    return shown.replace(context(client), "CONTEXT").replace(namespace, "NAMESPACE")


def context(client: Client) -> str:
    return str(yaml.safe_load(client.kubeconfig.read_text())["current-context"])


def test_doctor_says_what_is_there_and_what_is_not(unattended: CommandLine, quiet: Room, control_plane: Client) -> None:
    check_cluster_golden("commands-doctor", doctor(unattended, control_plane, quiet.namespace))
    found = json.loads(unattended.run("doctor", "-o", "json").stdout)
    assert found["kind"] == "ClusterDoctor"
    assert {"title", "ok", "problem", "fix"} == set(found["findings"][0])


def test_version_shows_who_is_of_which_release(there: CommandLine) -> None:
    found = json.loads(there("version", "-o", "json"))
    assert found["kubernetes"].startswith("v1.")
    assert (found["crd"], found["skew"]) == (found["tfjob"], "")
    lines = [line for line in there("version").splitlines() if line.split()[0] in ("tfjob", "Kubernetes", "CRD")]
    check_cluster_golden("commands-version", "\n".join(lines), KUBERNETES=found["kubernetes"], TFJOB=found["tfjob"])


def test_a_job_elsewhere_is_pointed_to_and_all_namespaces_are_listed(
    there: CommandLine, team: Room, unattended: CommandLine, quiet: Room
) -> None:
    there("submit", "sleeper.yaml", "--name", "elsewhere")
    said = unattended("status", "elsewhere", code=3)
    assert f"-n {team.namespace}" in said
    check_cluster_golden("commands-elsewhere", said, NAMESPACE=team.namespace, HERE=quiet.namespace)
    assert unattended("status", "elsewhere", "-n", team.namespace)
    assert "elsewhere" in unattended("ps", "-A")
    assert "elsewhere" not in unattended("ps")


def test_prune_keeps_to_one_namespace_and_to_what_is_over(there: CommandLine, team: Room) -> None:
    there("submit", "sleeper.yaml", "--name", "pruned")
    team.all_run("pruned", "worker-0")
    team.ends("pruned-worker-0")
    there("wait", "pruned", "--timeout", "90s")
    there("submit", "sleeper.yaml", "--name", "alive")
    said = there("prune", "--older", "0s")
    assert "pruned" in said
    assert "alive" not in said
    assert team.find(TFJOBS, "pruned") is None


def test_what_is_forbidden_is_one_clear_error(
    tool: Installed, control_plane: Client, team: Room, tmp_path: Path
) -> None:
    control_plane.kubectl("create", "serviceaccount", "nobody", "-n", team.namespace)
    token = control_plane.kubectl("create", "token", "nobody", "-n", team.namespace).strip()
    line = on_cluster(tool, with_token(token, control_plane.kubeconfig, tmp_path), team.namespace, tmp_path)
    said = transcript(line, "ps", code=2)
    assert line.run("doctor").returncode == 1
    said += f"$ tfjob doctor\n{doctor(line, control_plane, team.namespace)}\n"
    said += transcript(line, "check", "--on", "k8s", "sleeper.yaml", code=2)
    assert "sleeper.yaml:1:1: " in said
    check_cluster_golden("commands-forbidden", said, NAMESPACE=team.namespace)


def test_credentials_that_nobody_knows_are_one_clear_error(
    tool: Installed, control_plane: Client, team: Room, tmp_path: Path
) -> None:
    line = on_cluster(tool, with_token("wrong", control_plane.kubeconfig, tmp_path), team.namespace, tmp_path)
    check_cluster_golden("commands-unauthorized", line("ps", code=2))


def test_a_cluster_that_does_not_answer_or_is_not_known_is_one_clear_error(
    tool: Installed, control_plane: Client, tmp_path: Path
) -> None:
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    for cluster in config["clusters"]:
        cluster["cluster"]["server"] = "https://127.0.0.1:1"
    gone = tmp_path / "gone"
    gone.write_text(yaml.safe_dump(config))
    line = CommandLine(Installed(tool.command, {**tool.env, "KUBECONFIG": str(gone)}), tmp_path / "home")
    said = transcript(line, "ps", "--on", "k8s", code=2)
    said += transcript(line, "ps", "--on", "k8s:nope", code=2)
    said += transcript(line, "ps", "--on", "k8s", env={"KUBECONFIG": str(tmp_path / "nowhere")}, code=2)
    said += transcript(line, "ps", "--on", "k9s", code=2)
    check_cluster_golden("commands-no-cluster", said, FOLDER=str(tmp_path), CONTEXT=context(control_plane))


def test_a_cluster_without_tfjobs_says_how_to_get_them(tool: Installed, tmp_path: Path) -> None:
    class NoSuchKind(BaseHTTPRequestHandler):
        """Answers as an API server does for a kind that it does not have."""

        def do_GET(self) -> None:
            self.send_error(404, "404 page not found")

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), NoSuchKind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        config = {
            "clusters": [{"name": "bare", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
            "contexts": [{"name": "bare", "context": {"cluster": "bare", "user": ""}}],
            "current-context": "bare",
        }
        (tmp_path / "given").write_text(yaml.safe_dump(config))
        line = on_cluster(tool, tmp_path / "given", "default", tmp_path)
        calls = (("ps",), ("status", "mnist"), ("submit", "sleeper.yaml"))
        said = "".join(transcript(line, *words, code=2) for words in calls)
        assert said.count("tfjob operator install") == len(calls)
        check_cluster_golden("commands-no-tfjobs", said)
        server.shutdown()


def test_replica_types_may_be_in_any_case(there: CommandLine, team: Room) -> None:
    there("submit", "-", stdin=json.dumps(job("lower", worker=1)))
    team.until_pods("lower", "worker-0")
    there("scale", "lower", "worker=2")
    team.until_pods("lower", "worker-0", "worker-1")

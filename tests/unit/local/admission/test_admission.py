"""What this machine refuses of a job before anything starts, and what it only warns about."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from support.golden import Wording
from tfjob.api.objects import ObjectMeta
from tfjob.api.problems import Problem
from tfjob.api.types import ORIGIN, PARALLELISM, ReplicaSpec, RunPolicy, SchedulingPolicy, TensorBoard, TFJob, TFJobSpec
from tfjob.local.admission import admission
from tfjob.local.admission.admission import Host
from tfjob.local.inputs.references import Node
from tfjob.local.state import addresses
from tfjob.local.state.config import Config, ImageEntry

AT = "spec.tfReplicaSpecs.Worker.template.spec"
CONTAINER = f"{AT}.containers[0]"
GPU = "nvidia.com/gpu"


def job(pod: dict[str, Any], *, replicas: int = 1, **spec: Any) -> TFJob:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "x", "command": ["python"]}], **pod}}
    worker = ReplicaSpec(replicas=replicas, template=template)
    return TFJob(spec=TFJobSpec(tf_replica_specs={"Worker": worker}, **spec))


def with_container(**fields: Any) -> TFJob:
    return job({"containers": [{"name": "tensorflow", "image": "x", "command": ["python"], **fields}]})


def host(**fields: Any) -> Host:
    settings: dict[str, Any] = {
        "config": Config(),
        "project": Path("/"),
        "node": Node("laptop", cpus=4, memory=8 * 1024**3),
        "uid": 1000,
        "gid": 1000,
    }
    return Host(**{**settings, **fields})


def split(problems: list[Problem]) -> tuple[list[str], list[str]]:
    """The paths of errors, and those of warnings."""
    return [one.path for one in problems if not one.warning], [one.path for one in problems if one.warning]


def test_a_plain_job_has_no_problems() -> None:
    plain = with_container(
        resources={"limits": {"cpu": 2, "memory": "1Gi"}},
        workingDir="/app",
        ports=[{"containerPort": 2222}],
        imagePullPolicy="Always",
        securityContext={"runAsUser": 1000, "allowPrivilegeEscalation": False, "runAsNonRoot": True},
        volumeMounts=[{"name": "v", "mountPath": "/v"}],
    )
    assert admission.problems(plain, host()) == []


@pytest.mark.parametrize(
    ("resource", "keyword"),
    [("nvidia.com/gpu", "--cpu"), ("alpha.kubernetes.io/nvidia-gpu", "--cpu"), ("amd.com/gpu", "gpu = true")],
)
def test_a_gpu_that_is_not_there_is_refused_unless_the_job_is_to_do_without(
    resource: str, keyword: str, wording: Wording
) -> None:
    wanted = with_container(resources={"limits": {resource: 1}, "requests": {resource: 1}})
    (refused,) = admission.problems(wanted, host())
    assert refused.path == f'{CONTAINER}.resources.limits["{resource}"]'
    assert keyword in refused.hint
    wording(refused)
    for instead in (host(config=Config(gpu=True)), host(cpu=True)):
        (warned,) = admission.problems(wanted, instead)
        assert warned.warning


@pytest.mark.parametrize(("replicas", "amount", "fits"), [(2, 1, True), (1, 2, True), (3, 1, False), (1, 3, False)])
def test_a_job_that_asks_for_more_gpus_than_there_are_is_refused(
    replicas: int, amount: int, fits: bool, wording: Wording
) -> None:
    container = {"name": "tensorflow", "image": "x", "command": ["python"], "resources": {"limits": {GPU: amount}}}
    wanted = job({"containers": [container]}, replicas=replicas)
    found = admission.problems(wanted, host(gpus=("0", "1")))
    assert [one.path for one in found] == ([] if fits else ["spec.tfReplicaSpecs"])
    assert all("--cpu" in one.hint for one in found)
    wording(*found)
    assert all(one.warning for one in admission.problems(wanted, host(gpus=("0", "1"), cpu=True)))


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"limits": {"nvidia.com/gpu": 0}}, ([], [])),
        ({"limits": {"rdma/hca": 1}}, (['limits["rdma/hca"]'], [])),
        ({"limits": {"hugepages-2Mi": "4Mi"}}, (["limits.hugepages-2Mi"], [])),
        ({"limits": {"ephemeral-storage": "1Gi"}}, ([], ["limits.ephemeral-storage"])),
        ({"claims": [{"name": "gpu"}]}, (["claims"], [])),
    ],
)
def test_a_resource_that_nothing_holds_is_refused_or_told(
    resources: dict[str, Any], expected: tuple[list[str], list[str]]
) -> None:
    found = split(admission.problems(with_container(resources=resources), host()))
    assert found == tuple([f"{CONTAINER}.resources.{path}" for path in paths] for paths in expected)


def test_requests_that_do_not_fit_together_are_told(wording: Wording) -> None:
    wanted = job(
        {"containers": [{"name": "t", "command": ["x"], "resources": {"requests": {"cpu": 3, "memory": "1Gi"}}}]},
        replicas=2,
    )
    (warned,) = admission.problems(wanted, host())
    assert (warned.path, warned.warning) == ("spec.tfReplicaSpecs", True)
    assert "6 CPUs" in warned.message
    wording(warned)


@pytest.mark.parametrize(
    ("pod", "errors", "warnings"),
    [
        ({"hostNetwork": True}, ["hostNetwork"], []),
        ({"hostNetwork": False}, [], []),
        ({"hostPID": True, "hostIPC": True}, ["hostPID", "hostIPC"], []),
        ({"shareProcessNamespace": True}, ["shareProcessNamespace"], []),
        ({"shareProcessNamespace": False}, [], []),
        ({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"]}}, ["dnsConfig"], []),
        ({"activeDeadlineSeconds": 5}, ["activeDeadlineSeconds"], []),
        ({"schedulingGates": [{"name": "x"}]}, ["schedulingGates"], []),
        ({"nodeSelector": {"a": "b"}, "tolerations": [{}], "affinity": {}}, [], [""]),
        ({"imagePullSecrets": [{"name": "x"}]}, [], ["imagePullSecrets"]),
        ({"serviceAccountName": "trainer"}, [], ["serviceAccountName"]),
        ({"serviceAccountName": "default"}, [], []),
        ({"os": {"name": "windows"}}, ["os"], []),
        ({"securityContext": {"runAsUser": 1001}}, ["securityContext.runAsUser"], []),
        ({"securityContext": {"runAsUser": 0}}, ["securityContext.runAsUser"], []),
        ({"securityContext": {"runAsUser": 1000, "runAsGroup": 1000}}, [], []),
        ({"securityContext": {"fsGroup": 1}}, [], ["securityContext.fsGroup"]),
        ({"securityContext": {"sysctls": [{"name": "x"}]}}, ["securityContext.sysctls"], []),
        ({"volumes": [{"name": "v", "nfs": {"server": "s"}}]}, ["volumes[0]"], []),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/no/such/folder"}}]}, ["volumes[0]"], []),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, [], []),
        ({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}, [], []),
        ({"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]}, [], ["volumes[0].emptyDir.sizeLimit"]),
        ({"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi", "medium": "Memory"}}]}, [], []),
    ],
)
def test_each_field_of_a_pod_is_refused_told_or_honoured(
    pod: dict[str, Any], errors: list[str], warnings: list[str]
) -> None:
    found = split(admission.problems(job(pod), host()))
    assert found == ([f"{AT}.{path}" for path in errors], [f"{AT}.{path}".rstrip(".") for path in warnings])


@pytest.mark.parametrize(
    ("fields", "errors", "warnings"),
    [
        ({"livenessProbe": {"exec": {"command": ["x"]}}, "readinessProbe": {"tcpSocket": {"port": 1}}}, [], []),
        ({"livenessProbe": {"grpc": {"port": 1}}}, [], ["livenessProbe"]),
        ({"startupProbe": {"httpGet": {"port": "no-such"}}}, [], ["startupProbe"]),
        ({"lifecycle": {"preStop": {"exec": {}}}}, ["lifecycle.preStop"], []),
        ({"lifecycle": {"postStart": {"exec": {}}}}, ["lifecycle.postStart"], []),
        ({"ports": [{"containerPort": 1, "hostPort": 1}]}, ["ports[0].hostPort"], []),
        ({"tty": True}, [], ["tty"]),
        ({"volumeDevices": [{"name": "x"}]}, ["volumeDevices"], []),
        ({"securityContext": {"privileged": True}}, ["securityContext.privileged"], []),
        ({"securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}}, ["securityContext.capabilities.add"], []),
        (
            {"securityContext": {"capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}}},
            [],
            ["securityContext"],
        ),
        ({"command": None}, ["image"], []),
    ],
)
def test_each_field_of_a_container_is_refused_told_or_honoured(
    fields: dict[str, Any], errors: list[str], warnings: list[str]
) -> None:
    found = split(admission.problems(with_container(**fields), host()))
    assert found == ([f"{CONTAINER}.{path}" for path in errors], [f"{CONTAINER}.{path}" for path in warnings])


def test_an_image_without_a_local_entry_comes_with_the_lines_to_add(wording: Wording) -> None:
    (refused,) = admission.problems(with_container(command=None), host())
    assert '[images."x"]\ncommand = ["python", "main.py"]' in refused.hint
    wording(refused)


def test_a_missing_interpreter_is_refused() -> None:
    (refused,) = admission.problems(with_container(), host(python=Path("/no/python")))
    assert "--python /no/python" in refused.message


def test_root_may_not_be_asked_to_be_nobody() -> None:
    asked = job({"securityContext": {"runAsNonRoot": True}})
    assert split(admission.problems(asked, host(uid=0, gid=0)))[0] == [f"{AT}.securityContext.runAsNonRoot"]


def test_a_sidecar_whose_startup_probe_cannot_run_is_refused() -> None:
    sidecar = {"name": "s", "command": ["x"], "restartPolicy": "Always", "startupProbe": {"grpc": {"port": 1}}}
    found = split(admission.problems(job({"initContainers": [sidecar]}), host()))
    assert found == ([f"{AT}.initContainers[0].startupProbe"], [])


def test_a_mapping_lifts_the_refusal_of_a_volume(tmp_path: Path, wording: Wording) -> None:
    wanted = job({"volumes": [{"name": "share", "azureFile": {"shareName": "s"}}]})
    (refused,) = admission.problems(wanted, host())
    assert "azureFile" in refused.message
    assert "--volume share=FOLDER" in refused.hint
    wording(refused)
    assert admission.problems(wanted, host(volumes={"share": tmp_path})) == []
    assert admission.problems(wanted, host(config=Config(volumes={"share": tmp_path}))) == []


def test_a_mapping_that_no_volume_has_is_told(wording: Wording) -> None:
    wanted = job({"volumes": [{"name": "data"}, {"name": "share"}]})
    (told,) = admission.unknown_volumes([wanted], [], {"dta": Path("/"), "data": Path("/")})
    assert "--volume dta" in told.message
    assert "tfjob-data" in told.hint
    wording(told)


def test_a_port_that_the_host_serves_is_told_where_ports_are_kept() -> None:
    with socket.socket() as server:
        server.bind(("0.0.0.0", 0))
        server.listen(1)
        port = server.getsockname()[1]
        wanted = with_container(ports=[{"containerPort": port}])
        assert split(admission.problems(wanted, host(level="full"))) == ([], [f"{CONTAINER}.ports[0].containerPort"])
        assert split(admission.problems(wanted, host(level="ports"))) == ([], [f"{CONTAINER}.ports[0].containerPort"])
        named = with_container(ports=[{"containerPort": port}], args=[f"--port={port}"])
        assert admission.problems(named, host(level="ports")) == []


@pytest.mark.parametrize(
    ("container", "replicas", "level", "warned"),
    [
        ({}, 2, "ports", True),
        ({}, 1, "ports", False),
        ({}, 2, "full", False),
        ({"args": ["--port=8501"]}, 2, "ports", False),
        ({"env": [{"name": "PORT", "value": "8501"}]}, 2, "ports", False),
    ],
)
def test_replicas_that_would_share_a_port_have_a_warning(
    container: dict[str, Any], replicas: int, level: str, warned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "is_free", lambda ip, port: True)
    pod = {"containers": [{"name": "web", "image": "web", "ports": [{"containerPort": 8501}], **container}]}
    document = {"kind": "Deployment", "spec": {"replicas": replicas, "template": {"spec": pod}}}
    warnings = [one.path for one in admission.object_problems(document, host(level=level)) if one.warning]
    assert warnings == ["spec.template.spec.containers[0].ports[0].containerPort"] * warned


@pytest.mark.parametrize("kind", ["LoadBalancer", "NodePort"])
def test_a_service_for_the_outside_is_refused_unless_it_is_tensorboards(kind: str) -> None:
    """TensorBoard answers to this machine, which is all that people want of it here."""
    wanted = job({}, tensor_board=TensorBoard(service_type=kind, volumes=[{"name": "v", "nfs": {}}]))
    assert split(admission.problems(wanted, host())) == (
        ["spec.tensorBoard.volumes[0]"],
        ["spec.tensorBoard.serviceType"],
    )
    (refused,) = admission.object_problems({"kind": "Service", "spec": {"type": kind}}, host())
    assert refused.path == "spec.type"
    assert admission.object_problems({"kind": "Service", "spec": {"type": "ClusterIP"}}, host()) == []


def test_a_headless_service_and_ports_other_than_tcp_have_warnings() -> None:
    spec = {"clusterIP": "None", "ports": [{"port": 53, "protocol": "UDP"}, {"port": 80}]}
    found = split(admission.object_problems({"kind": "Service", "spec": spec}, host()))
    assert found == ([], ["spec.clusterIP", "spec.ports[0].protocol"])


def test_a_claim_that_a_folder_cannot_be_is_refused() -> None:
    document = {"kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {"volumeMode": "Block"}}
    assert [one.path for one in admission.object_problems(document, host())] == ["spec"]


def test_a_job_that_another_manages_is_refused_and_gang_scheduling_told() -> None:
    policy = RunPolicy(managed_by="kueue.x-k8s.io/multikueue", scheduling_policy=SchedulingPolicy(queue="q"))
    found = split(admission.problems(job({}, run_policy=policy), host()))
    assert found == (["spec.runPolicy.managedBy"], ["spec.runPolicy.schedulingPolicy"])


def test_replicas_that_are_none_are_not_judged() -> None:
    assert admission.problems(job({"hostNetwork": True}, replicas=0), host()) == []


@pytest.mark.parametrize(("answer", "refused"), [(1, True), (0, False)])
def test_a_default_parameter_server_needs_an_interpreter_with_tensorflow(
    tmp_path: Path, answer: int, refused: bool, wording: Wording
) -> None:
    """The interpreter itself is asked; a missing extra comes with the line that installs it."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexit {answer}\n")
    python.chmod(0o755)
    server = TFJob(spec=TFJobSpec(tf_replica_specs={"PS": ReplicaSpec(replicas=1)}))
    found = admission.problems(server, host(python=python))
    assert bool(found) == refused
    if refused:
        assert "'tfjob[tensorflow]'" in found[0].hint
        wording(*found)


def test_the_template_of_a_default_parameter_server_may_be_edited(tmp_path: Path) -> None:
    """It has no command: the server's is ours. One of the user's own needs one."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 0\n")
    python.chmod(0o755)
    server: dict[str, Any] = {"name": "tensorflow", "image": "x", "env": [{"name": "A", "value": "1"}]}
    mounted = {**server, "volumeMounts": [{"name": "ps-config-volume", "mountPath": "/ps-server"}]}
    metadata = ObjectMeta(name="j", annotations={ORIGIN: "tensorflow.org/v1alpha1"})
    for container, refused in ((mounted, False), (server, True)):
        replica = ReplicaSpec(replicas=1, template={"spec": {"containers": [container]}})
        owner = TFJob(metadata=metadata, spec=TFJobSpec(tf_replica_specs={"PS": replica}))
        assert bool(admission.problems(owner, host(python=python, level="full"))) == refused


def test_a_tensorboard_that_is_not_installed_is_a_warning_with_the_line_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    wanted = job({}, tensor_board=TensorBoard(log_dir="/logs"))
    assert admission.problems(wanted, host()) == [], "the interpreter of these tests has it"
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    (told,) = admission.problems(wanted, host(python=python))
    assert (told.path, told.warning) == ("spec.tensorBoard", True)
    assert f"{python} -m pip install 'tfjob[tensorboard]'" in told.hint
    wording(told)


def test_two_mounts_at_one_path_are_refused_also_in_two_spellings() -> None:
    wanted = with_container(volumeMounts=[{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a/"}])
    assert split(admission.problems(wanted, host()))[0] == [f"{CONTAINER}.volumeMounts[1].mountPath"]


def test_the_root_is_no_place_for_a_volume() -> None:
    wanted = with_container(volumeMounts=[{"name": "v", "mountPath": "/"}])
    assert split(admission.problems(wanted, host()))[0] == [f"{CONTAINER}.volumeMounts[0].mountPath"]


@pytest.mark.parametrize(
    ("container", "warned"),
    [
        ({"command": ["/opt/no/train"]}, "command[0]"),
        ({"command": ["python3", "-u", "/opt/no/train.py"]}, "command[2]"),
        ({"command": ["/opt/no/python", "main.py"]}, "command[0]"),
        ({"command": ["python", "/opt/no/a.py"], "volumeMounts": [{"mountPath": "/opt/non"}]}, "command[1]"),
        ({"command": ["python", "/opt/no/a.py"], "volumeMounts": [{"mountPath": "/opt/no"}]}, ""),
        ({"command": ["python", "/opt/image/a.py"]}, ""),
        ({"command": ["python", "absent.py"]}, "command[1]"),
        ({"command": ["python", "absent.py"], "workingDir": "/opt/image"}, ""),
        ({"command": ["python", "$(PROGRAM).py"]}, ""),
        ({"command": ["python", "-m", "module", "/opt/no/data"]}, ""),
        ({"command": ["cat", "/opt/no/file"]}, ""),
        ({"command": ["sh", "-c", "/opt/no/train"]}, ""),
        ({"command": ["$(PROGRAM)", "/opt/no/a.py"]}, ""),
    ],
)
def test_a_program_that_only_the_image_has_is_a_warning(
    tmp_path: Path, container: dict[str, Any], warned: str, wording: Wording
) -> None:
    entry = ImageEntry(name="x", file=Path("tfjob.toml"), folders={"/opt/image": tmp_path})
    found = admission.problems(with_container(image="x", **container), host(config=Config(images={"x": entry})))
    assert split(found) == ([], [f"{CONTAINER}.{warned}"] if warned else [])
    wording(*found)


def test_a_job_needs_what_runs_at_once() -> None:
    replica = ReplicaSpec(replicas=5, template={"spec": {"containers": [{"resources": {"limits": {GPU: 2}}}]}})
    whole = TFJob(spec=TFJobSpec(tf_replica_specs={"Worker": replica, "PS": ReplicaSpec(replicas=2)}))
    assert admission.gpus_asked_for(whole) == 10
    of_a_batch = TFJob(metadata=ObjectMeta(annotations={PARALLELISM: "1"}), spec=whole.spec)
    assert admission.gpus_asked_for(of_a_batch) == 2

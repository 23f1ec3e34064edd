"""Accelerators on a real API server: what pods get, and how the operator follows its configuration."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from devcluster.client import Client
from support.cluster_golden import check_cluster_golden
from support.operating import OperatorProcess, operating
from support.room import Room, job, room, template
from support.running import wait_until
from tfjob.api.resources import CONFIG_MAPS, PODS
from tfjob.api.types import TFJOBS

Object = dict[str, Any]

OLD, NEW = "alpha.kubernetes.io/nvidia-gpu", "nvidia.com/gpu"
NAME = "tf-job-operator-config"
METRIC = "tfjob_controller_config_last_read_successful"
PRESET = (files("tfjob.operator") / "presets" / "azure.yaml").read_text()
BROKEN = "accelerators: gpu\n"


@pytest.fixture(scope="module")
def operator(control_plane: Client, quiet_room: Room) -> Iterator[OperatorProcess]:
    """An operator that has been running for a while when its configuration is made."""
    here = quiet_room.namespace
    words = (f"--namespace={here}", f"--lease-namespace={here}", "--config-key=gpus.yaml")
    with operating(control_plane.kubeconfig, *words) as running:
        yield running


def configured(room: Room, text: str, key: str = "controller_config_file.yaml") -> None:
    """Writes the operator's configuration."""
    data = {key: text}
    if room.find(CONFIG_MAPS, NAME):
        room.patch(CONFIG_MAPS, NAME, {"data": data})
    else:
        room.make(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": data})


def asking(name: str, **container: Any) -> Object:
    """A job of one worker that asks for a GPU as the documents do, by a request alone."""
    own = {"resources": {"requests": {OLD: 1}}, **container}
    return job(name, worker={"replicas": 1, "template": template(container=own)})


def test_a_configuration_is_followed_without_a_restart(quiet_room: Room, operator: OperatorProcess) -> None:
    """One story: none, a good one made late, a broken one, none again, a good one of another shape, and one at the key
    that the command line names."""
    room = quiet_room
    room.create(asking("before"))
    plain = room.until_pods("before", "worker-0")["worker-0"]["spec"]
    assert [volume["name"] for volume in plain["volumes"]] == [plain["volumes"][0]["name"]]  # the token's alone

    configured(room, PRESET)
    operator.wait_for(f"accelerators: {OLD}")
    assert room.until_event(NAME, "ControllerConfigUsed")["involvedObject"]["kind"] == "ConfigMap"
    room.create(asking("equipped", env=[{"name": "LD_LIBRARY_PATH", "value": "/mine"}]))
    made = room.until_pods("equipped", "worker-0")["worker-0"]["spec"]
    container = made["containers"][0]
    assert container["resources"] == {"limits": {NEW: "1"}, "requests": {NEW: "1"}}
    injected = {volume["name"]: volume["hostPath"]["path"] for volume in made["volumes"] if "hostPath" in volume}
    assert injected == {
        "lib": "/usr/lib/nvidia-384",
        "bin": "/usr/lib/nvidia-384/bin",
        "libcuda": "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    }
    assert {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}.items() >= {
        "lib": "/usr/lib/nvidia",
        "bin": "/usr/local/nvidia/bin",
        "libcuda": "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    }.items()
    assert [one["value"] for one in container["env"] if one["name"] == "LD_LIBRARY_PATH"] == ["/mine"]
    told = room.until_event("equipped", "AcceleratorOverridden")
    assert told["type"] == "Warning"
    assert "LD_LIBRARY_PATH" in told["message"]
    check_cluster_golden("operator-accelerator-overridden", told["message"])
    stored = room.get(TFJOBS, "equipped")["spec"]["tfReplicaSpecs"]["worker"]["template"]["spec"]
    assert "volumes" not in stored
    assert stored["containers"][0]["resources"] == {"requests": {OLD: 1}}
    assert room.get(PODS, "before-worker-0")["spec"] == plain

    configured(room, BROKEN)
    invalid = room.until_event(NAME, "InvalidControllerConfig")["message"]
    assert "accelerators: " in invalid
    check_cluster_golden("operator-invalid-config", invalid, NAMESPACE=room.namespace)
    wait_until(lambda: operator.samples(METRIC) == [({}, 0.0)], 60)
    room.create(asking("still"))
    still = room.until_pods("still", "worker-0")["worker-0"]["spec"]
    set_by_preset = {"name": "LD_LIBRARY_PATH", "value": "/usr/lib/nvidia:/usr/lib/x86_64-linux-gnu"}
    assert set_by_preset in still["containers"][0]["env"]

    room.delete(CONFIG_MAPS, NAME)
    wait_until(lambda: operator.samples(METRIC) == [({}, 1.0)], 60)
    manifest = (
        f"kind: ConfigMap\ndata:\n  controller_config_file.yaml: |\n    accelerators: {{{OLD}: {{resource: {NEW}}}}}\n"
    )
    configured(room, manifest, key="my-configmap.yaml")
    assert room.until_event(NAME, "OddControllerConfig")["type"] == "Warning"
    room.create(asking("odd"))
    odd = room.until_pods("odd", "worker-0")["worker-0"]["spec"]
    assert odd["containers"][0]["resources"]["limits"] == {NEW: "1"}

    configured(room, "accelerators: {example.com/chip: {}}", key="gpus.yaml")  # beside the other key
    operator.wait_for("example.com/chip")
    said = dict.fromkeys(line["msg"] for line in operator.log if "accelerators" in line["msg"])
    check_cluster_golden("operator-config-log", "\n".join(said), NAMESPACE=room.namespace)


def test_a_file_of_the_command_line_is_followed_in_place_of_the_config_map(
    control_plane: Client, tmp_path: Path
) -> None:
    """It also says what default parameter servers run."""
    file, program = tmp_path / "config.yaml", tmp_path / "server.py"
    program.write_text("serve()\n")
    file.write_text(f"grpcServerFilePath: {program}\ntfImage: example.com/tf:2\n")
    config, namespace = control_plane.kubeconfig, control_plane.namespace()
    words = (f"--namespace={namespace}", f"--controller_config_file={file}")
    with room(config, namespace) as place, operating(config, *words) as operator:
        wait_until(lambda: operator.samples(METRIC) == [({}, 1.0)], 60)
        body = job("servers", worker=1)
        body["spec"]["tfReplicaSpecs"]["PS"] = {"replicas": 1}
        place.create(body)
        made = place.until_pods("servers", "ps-0", "worker-0")["ps-0"]["spec"]
        assert made["containers"][0]["image"] == "example.com/tf:2"
        assert list(place.get(CONFIG_MAPS, "servers-ps-server")["data"].values()) == ["serve()\n"]
        file.write_text(BROKEN)
        wait_until(lambda: operator.samples(METRIC) == [({}, 0.0)], 60)
        file.write_text(f"accelerators: {{{OLD}: {{}}}}\n")
        wait_until(lambda: operator.samples(METRIC) == [({}, 1.0)], 60)
        operator.wait_for(OLD)


def test_a_file_that_is_not_there_is_refused_at_once(control_plane: Client) -> None:
    with operating(control_plane.kubeconfig, "--controller-config-file=/none.yaml", wait="") as operator:
        assert operator.finish() == 2
        assert operator.said("--controller-config-file /none.yaml")

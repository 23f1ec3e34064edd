"""Which containers get files of this machine, and what their pods need for that."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.golden import Wording
from tfjob.api.types import TFJob
from tfjob.errors import InvalidRequest
from tfjob.launch.delivery import FOLDER, Delivery, Sender
from tfjob.launch.package import MOST_BYTES

Object = dict[str, Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "bin").mkdir()
    for name in ("train.py", "train.sh", "pkg/train.py", "pkg/__main__.py", "bin/run", "dropped.py", "two.sh"):
        (tmp_path / name).write_text("print(1)\n")
    (tmp_path / ".tfjobignore").write_text("dropped.py\n")
    return tmp_path


def job(*containers: Object, **spec: Any) -> TFJob:
    named = [
        {"name": f"c{number}" if number else "tensorflow", "image": "i:1", **one}
        for number, one in enumerate(containers)
    ]
    replica = {"replicas": 1, "template": {"spec": {"containers": named}}}
    specs = {"Worker": {**replica, **spec.pop("worker", {})}, **spec}
    document = {"metadata": {"name": "train", "namespace": "team"}, "spec": {"tfReplicaSpecs": specs}}
    return msgspec.convert(document, TFJob)


def pod(delivery: Delivery, kind: str = "Worker") -> Object:
    template = delivery.job.spec.tf_replica_specs[kind].template
    assert template is not None
    spec: Object = template["spec"]
    return spec


SENT = {
    "a script": ["python", "train.py", "--epochs", "3"],
    "a script with options of the interpreter": ["/usr/bin/python3.11", "-u", "train.py"],
    "a script in this folder": ["python", "./train.py"],
    "a module": ["python", "-m", "pkg.train"],
    "a package": ["python3", "-m", "pkg"],
    "under another module": ["python", "-m", "cProfile", "train.py"],
    "a shell script": ["bash", "train.sh"],
    "a program of this folder": ["bin/run", "--fast"],
    "the first of two is not there": ["time", "gone.sh", "train.py"],
}
KEPT = {
    "in the image": ["python", "/app/train.py"],
    "in the image, with a script as its argument": ["python", "/app/main.py", "train.py"],
    "not in this folder": ["python", "other.py"],
    "a module of the image": ["python", "-m", "http.server"],
    "in another folder": ["python", "../train.py"],
    "a program on the PATH that is called like a file": ["train.py.exe", "x"],
    "code": ["python", "-c", "print(1)"],
    "no command": [],
}


@pytest.mark.parametrize("case", SENT)
def test_a_manifest_that_names_a_file_of_its_folder_gets_the_folder(folder: Path, case: str) -> None:
    delivery = Sender(folder).delivery(job({"command": SENT[case][:1], "args": SENT[case][1:]}))
    (container,) = pod(delivery)["containers"]
    assert container["workingDir"] == f"{FOLDER}/project"
    assert len(delivery.config_maps) == 1


@pytest.mark.parametrize("case", KEPT)
def test_a_manifest_with_its_code_in_the_image_stays_as_it_is(folder: Path, case: str) -> None:
    asked = job({"command": KEPT[case], "args": ["train.py"] if not KEPT[case] else []})
    assert Sender(folder).delivery(asked) == Delivery(asked, ())


@pytest.mark.parametrize("is_program", [True, False])
def test_code_that_is_in_the_image_is_not_sent(folder: Path, is_program: bool) -> None:
    asked = job({"command": ["python", "train.py"]})
    assert Sender(folder, is_program, in_image=True).delivery(asked) == Delivery(asked, ())


def test_a_working_folder_that_the_manifest_sets_stays(folder: Path) -> None:
    asked = job({"command": ["python", "train.py"], "workingDir": "/app"})
    assert not Sender(folder).delivery(asked).config_maps


def test_a_program_gets_the_folder_whatever_it_runs(folder: Path) -> None:
    assert Sender(folder, is_program=True).delivery(job({"command": ["sh", "-c", "python train.py"]})).config_maps


def test_a_program_that_is_ignored_is_refused(folder: Path, wording: Wording) -> None:
    with pytest.raises(InvalidRequest, match="dropped") as caught:
        Sender(folder).delivery(job({"command": ["python", "dropped.py"]}))
    wording(caught.value)


def test_each_container_gets_what_it_needs(folder: Path) -> None:
    given = job({"command": ["/bin/proxy"]}, {"command": ["python", "train.py"], "image": "i:2"})
    spec = pod(Sender(folder).delivery(given))
    proxy, train = spec["containers"]
    assert proxy == {"name": "tensorflow", "image": "i:1", "command": ["/bin/proxy"]}
    assert train["volumeMounts"] == [{"name": "tfjob-files", "mountPath": FOLDER}]
    (unpack,) = spec["initContainers"]
    assert unpack["image"] == "i:2"


def test_the_init_container_has_the_image_and_the_environment_of_the_replica(folder: Path) -> None:
    """Quotas may want requests of every container; a GPU is of no use to it."""
    environment: Object = {
        "image": "i:2",
        "imagePullPolicy": "Always",
        "env": [{"name": "PATH", "value": "/conda/bin"}],
        "envFrom": [{"configMapRef": {"name": "site"}}],
        "securityContext": {"runAsUser": 1000},
    }
    mount = {"name": "conda", "mountPath": "/conda"}
    container = {
        **environment,
        "command": ["python3", "train.py"],
        "volumeMounts": [mount],
        "resources": {"limits": {"cpu": "2", "nvidia.com/gpu": 1}, "requests": {"memory": "1Gi"}},
        "ports": [{"containerPort": 2222}],
        "livenessProbe": {"exec": {"command": ["true"]}},
    }
    (unpack,) = pod(Sender(folder).delivery(job(container)))["initContainers"]
    assert unpack.items() >= environment.items()
    assert unpack["volumeMounts"][0] == mount
    assert unpack["resources"] == {"limits": {"cpu": "2"}, "requests": {"memory": "1Gi"}}
    assert unpack["command"][:2] == ["python3", "-c"]
    assert not unpack.keys() & {"ports", "livenessProbe", "workingDir"}


def test_a_pod_may_be_evicted_although_it_has_local_files(folder: Path) -> None:
    """The cluster autoscaler would keep its node otherwise; the next pod gets the same files."""
    delivery = Sender(folder).delivery(job({"command": ["python", "train.py"]}))
    template = delivery.job.spec.tf_replica_specs["Worker"].template or {}
    assert list(template["metadata"]["annotations"].values()) == ["tfjob-files"]


def test_config_maps_are_immutable_and_named_by_their_content(folder: Path) -> None:
    asked = job({"command": ["python", "train.py"]})
    first = Sender(folder).delivery(asked)
    assert Sender(folder).delivery(asked) == first
    (config_map,) = first.config_maps
    assert config_map["immutable"]
    assert config_map["metadata"]["namespace"] == "team"
    volumes = {one["name"]: one for one in pod(first)["volumes"]}
    assert volumes["tfjob-package"]["projected"]["sources"] == [{"configMap": {"name": config_map["metadata"]["name"]}}]
    (folder / "train.py").write_text("print(2)\n")
    (changed,) = Sender(folder).delivery(asked).config_maps
    assert changed["metadata"]["name"] != config_map["metadata"]["name"]


def test_too_much_is_refused_with_the_largest_folders(folder: Path, wording: Wording) -> None:
    for place, size in (("data/images/train", MOST_BYTES), ("data/images/test", 1000), ("runs", 500_000)):
        (folder / place).mkdir(parents=True)
        (folder / place / "1.bin").write_bytes(os.urandom(size))
    (folder / "weights.bin").write_bytes(os.urandom(2_000_000))
    with pytest.raises(InvalidRequest, match="tfjobignore") as caught:
        Sender(folder).delivery(job({"command": ["python", "train.py"]}))
    assert "data/images/train/ (8.0 MiB), weights.bin (1.9 MiB), runs/" in str(caught.value)
    wording(str(caught.value).replace(str(folder), "FOLDER"))


def test_what_is_sent_and_what_is_left_out_is_reported(folder: Path, wording: Wording) -> None:
    (folder / ".env").write_text("TOKEN=secret\n")
    (folder / "shared").symlink_to("../shared")
    sender = Sender(folder)
    assert sender.summary() == ""
    assert sender.warnings() == []
    sender.delivery(job({"command": ["python", "train.py"]}))
    assert "7 files" in sender.summary()
    wording(sender.summary().replace(str(folder), "FOLDER"), *sender.listing(), *sender.warnings())


def test_a_template_that_has_the_files_already_stays_as_it_is(folder: Path) -> None:
    once = Sender(folder, is_program=True).delivery(job({"command": ["python", "train.py"]}))
    assert Sender(folder, is_program=True).delivery(once.job) == Delivery(once.job, ())


# --- the Keras layer --------------------------------------------------------------------------------------------------

TWO: Object = {"worker": {"replicas": 2}}
LAYER = f"{FOLDER}/keras_layer"


def python_path(delivery: Delivery) -> str | None:
    env = pod(delivery)["containers"][0].get("env") or ()
    return next((one.get("value") for one in env if one["name"] == "PYTHONPATH"), None)


def with_env(command: list[str], **env: str) -> Object:
    return {"command": command, "env": [{"name": name, "value": value} for name, value in env.items()]}


SENT_SCRIPT, IMAGE_SCRIPT = ["python", "train.py"], ["python", "/app/train.py"]
LAYERS: dict[str, tuple[Object, Object, str | None]] = {
    "sent": (with_env(SENT_SCRIPT), TWO, LAYER),
    "a shell script": (with_env(["bash", "train.sh"]), TWO, LAYER),
    "a chief and a worker": (with_env(SENT_SCRIPT), {"Chief": {"replicas": 1}}, LAYER),
    "a path of the user": (with_env(SENT_SCRIPT, PYTHONPATH="/a"), TWO, f"{LAYER}:/a"),
    "turned off": (with_env(SENT_SCRIPT, TFJOB_KERAS_LAYER="0"), TWO, None),
    "one worker": (with_env(SENT_SCRIPT), {}, None),
    "parameter servers": (with_env(SENT_SCRIPT), {**TWO, "PS": {"replicas": 1}}, None),
    "in the image": (with_env(IMAGE_SCRIPT), TWO, None),
    "in the image, and requested": (with_env(IMAGE_SCRIPT, TFJOB_KERAS_LAYER="1"), TWO, LAYER),
}


@pytest.mark.parametrize("case", LAYERS)
def test_a_replica_that_trains_with_others_gets_the_keras_layer(folder: Path, case: str) -> None:
    container, spec, expected = LAYERS[case]
    assert python_path(Sender(folder).delivery(job(container, **spec))) == expected


def test_the_layer_alone_does_not_change_the_working_folder(folder: Path) -> None:
    asked = job(with_env(SENT_SCRIPT, TFJOB_KERAS_LAYER="1"), **TWO)
    delivery = Sender(folder, in_image=True).delivery(asked)
    assert python_path(delivery) == LAYER
    assert "workingDir" not in pod(delivery)["containers"][0]

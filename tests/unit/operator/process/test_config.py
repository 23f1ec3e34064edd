"""How the operator's configuration is read, good or bad."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from tfjob.api.objects import ConfigMap
from tfjob.api.problems import InvalidManifest
from tfjob.kube.cluster.event_log import Subject
from tfjob.operator.process.config import (
    DOCUMENTED_SERVER_FILE,
    INVALID,
    ODD,
    USED,
    Configuration,
    ControllerConfig,
    read,
    read_config_map,
)
from tfjob.plan.actions import Event
from tfjob.plan.build.accelerators import Accelerator, HostVolume

GPU = "alpha.kubernetes.io/nvidia-gpu"
DOCUMENT = f"""
grpcServerFilePath: {DOCUMENTED_SERVER_FILE}
accelerators:
  {GPU}:
    envVars:
      - name: LD_LIBRARY_PATH
        value: /usr/lib/driver
    volumes:
      - name: lib
        mountPath: /usr/lib/nvidia
        hostPath:  /usr/lib/driver
"""
LIB = HostVolume("lib", "/usr/lib/driver", "/usr/lib/nvidia")
MEANING = {GPU: Accelerator((LIB,), {"LD_LIBRARY_PATH": "/usr/lib/driver"})}
MANIFEST = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: tf-job-operator-config\ndata:\n"


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.strip().splitlines())


@pytest.mark.parametrize(
    ("data", "warnings"),
    [
        ({"controller_config_file.yaml": DOCUMENT}, []),
        ({"controller-config-file.yaml": DOCUMENT}, []),
        ({"my-config.yaml": DOCUMENT}, ["my-config.yaml is read as controller_config_file.yaml"]),
        (
            {"controller_config_file.yaml": DOCUMENT, "controller-config-file.yaml": "?"},
            ["controller_config_file.yaml is used, controller-config-file.yaml is not"],
        ),
        (
            {"cm.yaml": f"{MANIFEST}  controller_config_file.yaml: |\n{indented(DOCUMENT)}"},
            ["cm.yaml is read as controller_config_file.yaml", "the value is itself a ConfigMap, its data is used"],
        ),
    ],
    ids=["the documents' key", "the later key", "any single key", "both keys", "made --from-file of the manifest"],
)
def test_every_way_to_make_the_config_map_is_understood(data: dict[str, str], warnings: list[str]) -> None:
    found = read_config_map(data, "ConfigMap a/b")
    assert found.config == ControllerConfig(MEANING, DOCUMENTED_SERVER_FILE)
    assert [warning.message for warning in found.warnings] == warnings


def test_the_key_that_the_command_line_names_comes_before_the_known_ones() -> None:
    data = {"mine.yaml": DOCUMENT, "other.yaml": "?", "controller_config_file.yaml": "?"}
    found = read_config_map(data, "ConfigMap a/b", "mine.yaml")
    assert found.config.accelerators == MEANING
    assert [one.message for one in found.warnings] == ["mine.yaml is used, controller_config_file.yaml is not"]
    known = read_config_map({"controller-config-file.yaml": DOCUMENT, "other.yaml": "?"}, "ConfigMap a/b", "mine.yaml")
    assert known.config.accelerators == MEANING
    with pytest.raises(InvalidManifest, match=r"there is no key mine\.yaml"):
        read_config_map({"a.yaml": DOCUMENT, "b.yaml": ""}, "ConfigMap a/b", "mine.yaml")


def test_field_names_count_in_any_case_and_unknown_ones_are_a_warning() -> None:
    text = f"""
GRPCSERVERFILEPATH: /a
Accelerators:
  {GPU}:
    Volumes: [{{Name: lib, HostPath: /usr/lib/driver, mountpath: /usr/lib/nvidia}}]
    envvars: [{{NAME: LD_LIBRARY_PATH, Value: /usr/lib/driver}}]
    enVar: []
tfImage: example.com/tf:2
"""
    found = read(text, "file")
    assert found.config == ControllerConfig(MEANING, "/a", "example.com/tf:2")
    told = 'file:7:5: warning: Accelerators["alpha.kubernetes.io/nvidia-gpu"].enVar: is not known and not used; '
    assert [str(warning) for warning in found.warnings] == [f"{told}did you mean envVars?"]


@pytest.mark.parametrize("text", ["", "\n", "accelerators:\n", "accelerators: {}\n"])
def test_an_empty_configuration_is_one(text: str) -> None:
    assert read(text, "file").config == ControllerConfig()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("accelerators: [", "file:2:1: this is not YAML"),
        ("a: 1\n---\nb: 2\n", "file: there must be one document in it"),
        ("accelerators: gpu\n", "file:1:1: accelerators: must be a mapping, not "),
        ("accelerators: {'a b': {}}\n", """file:1:16: accelerators["a b"]: 'a b' is no name of a resource"""),
        (
            "accelerators:\n  gpu: {resource: '<name>'}\n",
            "accelerators.gpu.resource: '<name>' is no name of a resource",
        ),
        ("accelerators:\n  gpu:\n    volumes: lib\n", "file:3:5: accelerators.gpu.volumes: must be a list"),
        (
            "accelerators:\n  gpu:\n    volumes: [{name: <volume-name>}]\n",
            "name: '<volume-name>' is no name of a volume",
        ),
        (
            "accelerators:\n  gpu:\n    volumes: [{name: a, hostPath: b, mountPath: /c}]\n",
            "'b' must be an absolute path",
        ),
        ("accelerators:\n  gpu:\n    volumes: [{name: a, hostPath: /b/../c, mountPath: /c}]\n", "holds '..' or ':'"),
        ("accelerators:\n  gpu:\n    volumes: [{name: a, mountPath: /c}]\n", "hostPath: a path is missing"),
        (
            "accelerators:\n  gpu:\n    volumes:\n"
            "    - {name: a, hostPath: /b, mountPath: /c}\n    - {name: a, hostPath: /d, mountPath: /e}\n",
            "file:5:7: accelerators.gpu.volumes[1]: has the name or the mountPath of one before it",
        ),
        ("accelerators:\n  gpu:\n    envVars: [{name: A=B}]\n", "'A=B' is no name of a variable"),
        (
            "accelerators:\n  gpu:\n    envVars: [{name: A, value: true}]\n",
            "must be a text, not the boolean true",
        ),
        ("accelerators:\n  gpu:\n    envVars: [{name: A}, {name: A}]\n", "envVars[1].name: A is set twice"),
        ("accelerators: {}\nAccelerators: {}\n", "Accelerators: is a second accelerators"),
        ("grpcServerFilePath: server.py\n", "grpcServerFilePath: 'server.py' must be an absolute path"),
        ("tfImage: 'a b'\n", "tfImage: 'a b' is no image name"),
    ],
)
def test_a_fault_is_told_with_its_place(text: str, said: str) -> None:
    with pytest.raises(InvalidManifest) as caught:
        read(text, "file")
    assert said in str(caught.value)


@pytest.mark.parametrize("data", [{}, {"a": "", "b": ""}])
def test_a_config_map_without_a_key_that_could_be_meant_is_refused(data: dict[str, str]) -> None:
    with pytest.raises(
        InvalidManifest, match=r"data: there is no key controller_config_file\.yaml; its keys: (none|a, b)"
    ):
        read_config_map(data, "ConfigMap a/b")


@pytest.mark.parametrize("name", ["azure", "gke"])
def test_the_presets_are_good_and_request_what_device_plugins_advertise(name: str) -> None:
    found = read((files("tfjob.operator") / "presets" / f"{name}.yaml").read_text(), name)
    assert found.warnings == []
    assert {one: accelerator.resource for one, accelerator in found.config.accelerators.items()} == {
        GPU: "nvidia.com/gpu"
    }
    assert found.config.accelerators[GPU].volumes


def test_the_preset_of_gke_mounts_what_the_first_chart_mounted() -> None:
    found = read((files("tfjob.operator") / "presets" / "gke.yaml").read_text(), "gke").config.accelerators[GPU]
    assert {(one.host_path, one.mount_path) for one in found.volumes} == {
        ("/home/kubernetes/bin/nvidia/lib", "/usr/local/nvidia/lib64"),
        ("/home/kubernetes/bin/nvidia/bin", "/usr/local/bin/nvidia"),
    }
    assert not found.variables


class Uses:
    """Who is told of configurations."""

    def __init__(self) -> None:
        self.used: list[tuple[ControllerConfig, str]] = []
        self.told: list[str] = []
        self.configuration = Configuration(lambda *used: self.used.append(used), self._tell)

    def take(self, text: str) -> None:
        self.configuration.take(ConfigMap(), lambda: read(text, "file"))

    def _tell(self, about: Subject, news: Event) -> None:
        self.told.append(news.reason)


def test_a_broken_configuration_changes_nothing_until_a_good_one_comes() -> None:
    uses = Uses()
    uses.take(DOCUMENT)
    uses.take("accelerators: [")
    assert (len(uses.used), uses.configuration.good, uses.told) == (1, False, [USED, INVALID])
    uses.take("accelerators: {}")
    assert (uses.used[-1][0], uses.configuration.good) == (ControllerConfig(), True)


def test_a_program_of_the_users_own_is_read_and_one_that_is_missing_is_a_warning(tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text("serve()\n")
    large = tmp_path / "large.py"
    large.write_text("#" * 1_000_000)
    uses = Uses()
    for path in (program, tmp_path / "none.py", large, DOCUMENTED_SERVER_FILE):
        uses.take(f"grpcServerFilePath: {path}")
    assert [text for _, text in uses.used] == ["serve()\n", "", "", ""]
    assert uses.told == [USED, USED, ODD, USED, ODD, USED]

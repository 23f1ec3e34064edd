"""How the operator's configuration is read, good or bad."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from support.golden import Wording
from tfjob.api.objects import ConfigMap, Object
from tfjob.api.problems import InvalidManifest
from tfjob.controller.actions import Event
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
    ("data", "keys"),
    [
        ({"controller_config_file.yaml": DOCUMENT}, []),
        ({"controller-config-file.yaml": DOCUMENT}, []),
        ({"my-config.yaml": DOCUMENT}, ["my-config.yaml"]),
        (
            {"controller_config_file.yaml": DOCUMENT, "controller-config-file.yaml": "?"},
            ["controller-config-file.yaml"],
        ),
        (
            {"cm.yaml": f"{MANIFEST}  controller_config_file.yaml: |\n{indented(DOCUMENT)}"},
            ["cm.yaml", "ConfigMap"],
        ),
    ],
    ids=["the documents' key", "the later key", "any single key", "both keys", "made --from-file of the manifest"],
)
def test_every_way_to_make_the_config_map_is_understood(
    data: dict[str, str], keys: list[str], wording: Wording
) -> None:
    found = read_config_map(data, "ConfigMap a/b")
    assert found.config == ControllerConfig(MEANING, DOCUMENTED_SERVER_FILE)
    messages = [warning.message for warning in found.warnings]
    assert [key in message for key, message in zip(keys, messages, strict=True)] == [True] * len(keys)
    wording(*messages)


def test_the_key_that_the_command_line_names_comes_before_the_known_ones(wording: Wording) -> None:
    data = {"mine.yaml": DOCUMENT, "other.yaml": "?", "controller_config_file.yaml": "?"}
    found = read_config_map(data, "ConfigMap a/b", "mine.yaml")
    assert found.config.accelerators == MEANING
    (warning,) = found.warnings
    assert "controller_config_file.yaml" in warning.message
    known = read_config_map({"controller-config-file.yaml": DOCUMENT, "other.yaml": "?"}, "ConfigMap a/b", "mine.yaml")
    assert known.config.accelerators == MEANING
    with pytest.raises(InvalidManifest, match=r"mine\.yaml") as caught:
        read_config_map({"a.yaml": DOCUMENT, "b.yaml": ""}, "ConfigMap a/b", "mine.yaml")
    wording(warning, caught.value)


def test_field_names_count_in_any_case_and_unknown_ones_are_a_warning(wording: Wording) -> None:
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
    (warning,) = found.warnings
    assert (warning.line, warning.column, warning.path) == (7, 5, f'Accelerators["{GPU}"].enVar')
    assert "envVars" in warning.hint
    wording(warning)


@pytest.mark.parametrize("text", ["", "\n", "accelerators:\n", "accelerators: {}\n"])
def test_an_empty_configuration_is_one(text: str) -> None:
    assert read(text, "file").config == ControllerConfig()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("accelerators: [", "file:2:1"),
        ("a: 1\n---\nb: 2\n", "file"),
        ("accelerators: gpu\n", "accelerators"),
        ("accelerators: {'a b': {}}\n", 'accelerators["a b"]'),
        (
            "accelerators:\n  gpu: {resource: '<name>'}\n",
            "accelerators.gpu.resource",
        ),
        ("accelerators:\n  gpu:\n    volumes: lib\n", "accelerators.gpu.volumes"),
        (
            "accelerators:\n  gpu:\n    volumes: [{name: <volume-name>}]\n",
            "<volume-name>",
        ),
        (
            "accelerators:\n  gpu:\n    volumes: [{name: a, hostPath: b, mountPath: /c}]\n",
            "'b'",
        ),
        ("accelerators:\n  gpu:\n    volumes: [{name: a, hostPath: /b/../c, mountPath: /c}]\n", "hostPath"),
        ("accelerators:\n  gpu:\n    volumes: [{name: a, mountPath: /c}]\n", "hostPath"),
        (
            "accelerators:\n  gpu:\n    volumes:\n"
            "    - {name: a, hostPath: /b, mountPath: /c}\n    - {name: a, hostPath: /d, mountPath: /e}\n",
            "accelerators.gpu.volumes[1]",
        ),
        ("accelerators:\n  gpu:\n    envVars: [{name: A=B}]\n", "A=B"),
        (
            "accelerators:\n  gpu:\n    envVars: [{name: A, value: true}]\n",
            "envVars[0].value",
        ),
        ("accelerators:\n  gpu:\n    envVars: [{name: A}, {name: A}]\n", "envVars[1].name"),
        ("accelerators: {}\nAccelerators: {}\n", "Accelerators"),
        ("grpcServerFilePath: server.py\n", "grpcServerFilePath"),
        ("tfImage: 'a b'\n", "tfImage"),
    ],
)
def test_a_fault_is_told_with_its_place(text: str, place: str, wording: Wording) -> None:
    with pytest.raises(InvalidManifest) as caught:
        read(text, "file")
    assert place in str(caught.value)
    wording(caught.value)


@pytest.mark.parametrize("data", [{}, {"a": "", "b": ""}])
def test_a_config_map_without_a_key_that_could_be_meant_is_refused(data: dict[str, str], wording: Wording) -> None:
    with pytest.raises(InvalidManifest, match=r"controller_config_file\.yaml") as caught:
        read_config_map(data, "ConfigMap a/b")
    wording(caught.value)


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

    def _tell(self, about: Object, news: Event) -> None:
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

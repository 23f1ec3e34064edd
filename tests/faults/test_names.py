"""A name, a namespace or a path of a user leads nowhere but to its own folder, and is never a shell's word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from command_line import MANIFESTS, CommandLine
from conformance.manifests import tfjob
from installed import Installed

pytestmark = pytest.mark.faults

SHELL = "$(touch reached)"
ODD = ["../victim", "..", SHELL, "x\ny"]


@pytest.fixture
def cli(tool: Installed, tmp_path: Path) -> CommandLine:
    """A state folder with a neighbour that nobody may touch."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "kept").touch()
    return CommandLine(tool, tmp_path / "home")


def untouched(cli: CommandLine) -> bool:
    """Whether the neighbour is as it was and nothing came beside it."""
    beside = {path.name for path in cli.home.parent.iterdir()}
    kept = [path.name for path in (cli.home.parent / "victim").iterdir()]
    return beside <= {"victim", "home"} and kept == ["kept"] and not (MANIFESTS / "reached").exists()


@pytest.mark.parametrize("name", ["../victim", SHELL])
def test_a_command_knows_no_job_and_no_claim_of_such_a_name(cli: CommandLine, name: str) -> None:
    for words in (["delete", "-y"], ["logs"], ["stop"]):
        cli(*words, "--", name, code=3)
    cli("volume", "delete", "-y", "--", name, code=2)
    cli("ps", "-n", name, code=2)
    assert untouched(cli)


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("place", ["name", "namespace", "claim", "volume", "subPath"])
def test_a_manifest_with_such_a_name_is_refused_or_keeps_to_its_folder(cli: CommandLine, place: str, name: str) -> None:
    named = {key: name if key == place else "sound" for key in ("claim", "volume")}
    mount = {"name": named["volume"], "mountPath": "/data", **({"subPath": name} if place == "subPath" else {})}
    container = {"name": "tensorflow", "image": "x", "command": ["touch", "/data/reached"], "volumeMounts": [mount]}
    volume = {"name": named["volume"], "persistentVolumeClaim": {"claimName": named["claim"]}}
    job = tfjob("sound", {"Worker": {"template": {"spec": {"containers": [container], "volumes": [volume]}}}})
    job["metadata"] |= {place: name} if place in ("name", "namespace") else {}
    done = cli.run("run", "-", stdin=yaml.safe_dump(job))
    assert "Traceback" not in done.stderr
    keeps = place == "subPath" and ".." not in name  # a folder of the volume may be called anything else
    assert done.returncode == (0 if keeps else 2), done.stdout + done.stderr
    assert untouched(cli)
    found = [path.relative_to(cli.home).parts for path in cli.home.rglob("reached")] if cli.home.exists() else []
    assert all(parts[:3] == ("claims", "default", "sound") for parts in found)
    assert bool(found) == keeps


def odd_containers(name: str) -> dict[str, dict[str, Any]]:
    """Pods with the name in places that become a folder, a file, a host's name or a variable on this machine."""

    def pod(volume: dict[str, Any] | None = None, container: dict[str, Any] | None = None, **fields: Any) -> Any:
        one = {"name": "tensorflow", "image": "x", "command": ["true"], **(container or {})}
        return {"containers": [one], "volumes": [{"name": "v", **(volume or {"emptyDir": {}})}], **fields}

    mounted = {"volumeMounts": [{"name": "v", "mountPath": "/data"}]}
    items = {"items": [{"key": "k", "path": name}]}
    return {
        "container": pod(container={"name": name}),
        "hostname": pod(hostname=name),
        "image": pod(container={"image": name}),
        "secret": pod({"secret": {"secretName": name}}, mounted),
        "path in a Secret": pod({"secret": {"secretName": "kept", **items}}, mounted),
        "path in a ConfigMap": pod({"configMap": {"name": "kept", **items}}, mounted),
        "mount path": pod(container={"volumeMounts": [{"name": "v", "mountPath": f"/{name}/reached"}]}),
        "message path": pod(container={"terminationMessagePath": f"/{name}/reached"}),
        "expanded": pod(
            container={
                "env": [{"name": "V", "value": name}],
                "volumeMounts": [{"name": "v", "mountPath": "/data", "subPathExpr": "$(V)"}],
            }
        ),
    }


@pytest.mark.parametrize("place", sorted(odd_containers("")))
def test_no_other_word_of_a_pod_leads_out_of_its_folder(cli: CommandLine, place: str) -> None:
    """It is refused, or waits and says why, or is what the container alone sees under that name."""
    kept = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kept"}, "stringData": {"k": "v"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"k": "v"}},
    ]
    pod = odd_containers(f"../../../../../victim/{SHELL}")[place]
    done = cli.run(
        "submit", "-", stdin=yaml.safe_dump_all([*kept, tfjob("sound", {"Worker": {"template": {"spec": pod}}})])
    )
    assert "Traceback" not in done.stderr
    if done.returncode == 0:
        assert cli.run("wait", "sound", "--timeout", "1s").returncode in (0, 1, 4)
        cli("delete", "sound", "-y")
    else:
        assert done.returncode == 2, done.stdout + done.stderr
    assert untouched(cli)
    cli.end()


@pytest.mark.parametrize("name", ["../victim", SHELL])
def test_no_word_of_the_command_line_does(cli: CommandLine, name: str) -> None:
    job = tfjob("sound", {"Worker": {"template": {"spec": {"containers": [{"name": "tensorflow", "image": "x"}]}}}})
    for words in (("--name", name), ("--volume", f"{name}={cli.home.parent}/victim")):
        cli("run", "-", *words, stdin=yaml.safe_dump(job), code=2)
    cli("run", "fails.yaml", "--no-limits", code=1)
    for asked in (["logs", "fails", f"worker-0/{name}"], ["exec", "fails", name, "--", "true"]):
        assert cli.run(*asked).returncode in (2, 3), asked
    assert untouched(cli)

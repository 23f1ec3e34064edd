"""A name, a namespace or a path of a user leads nowhere but to its own folder, and is never a shell's word."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from command_line import MANIFESTS, CommandLine
from conformance.manifests import tfjob
from installed import Installed

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

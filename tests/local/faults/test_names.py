"""A name, a namespace or a path of a user leads nowhere but to its own folder, and is never a shell's word."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from signal import SIGINT
from typing import Any

import pytest
import yaml

from support.command_line import MANIFESTS, CommandLine
from support.conformance.manifests import tfjob
from support.installed import Installed
from support.running import Running, wait_until
from tfjob.plan.policy.pending import DOUBTFUL

pytestmark = pytest.mark.faults

SHELL = "$(touch reached)"
KEPT = [
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kept"}, "stringData": {"k": "v"}},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"k": "v"}},
]
ODD = ["../victim", "..", SHELL, "x\ny"]


@pytest.fixture
def cli(tool: Installed, home: Path) -> CommandLine:
    """A state folder with a neighbour that nobody may touch."""
    (home.parent / "victim").mkdir()
    (home.parent / "victim" / "kept").touch()
    return CommandLine(tool, home)


def untouched(cli: CommandLine) -> bool:
    """Whether the neighbour is as it was and nothing came beside it."""
    beside = {path.name for path in cli.home.parent.iterdir()}
    kept = [path.name for path in (cli.home.parent / "victim").iterdir()]
    return beside <= {"victim", "home", "job.yaml"} and kept == ["kept"] and not (MANIFESTS / "reached").exists()


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
    pod = odd_containers(f"../../../../../victim/{SHELL}")[place]
    done = cli.run(
        "submit", "-", stdin=yaml.safe_dump_all([*KEPT, tfjob("sound", {"Worker": {"template": {"spec": pod}}})])
    )
    assert "Traceback" not in done.stderr
    if done.returncode == 0:
        assert cli.run("wait", "sound", "--timeout", "1s").returncode in (0, 1, 4)
        cli("delete", "sound", "-y")
    else:
        assert done.returncode == 2, done.stdout + done.stderr
    assert untouched(cli)
    cli.end()


HOSTILE = {
    "climbing": "../../../../../victim/reached",
    "hidden climb": "a/../../../../../../victim/reached",
    "absolute": "/victim/reached",
    "two lines": "x\ny: $(touch reached)",
    "shell": "x; touch reached; `touch reached` $(touch reached) && 'touch \"reached",
    "NUL": "x\0../victim/reached",
    "long": "x" * 5000,
    "long path": "x/" * 2500,
    "unicode": "\u2025/\uff0e\uff0e/victim/\u202ereached\U0001f4a5",
    "half a character": "x\ud800",
    "option": "--help",
    "blank": " ",
}
"""Texts that somebody may take for a path, a word of a shell, an option, or the end of a string."""
SHORT = ("climbing", "NUL", "shell")
"""Those that CI has everywhere."""
UNREADABLE = ("NUL", "half a character")
"""What a manifest, a variable and a path cannot have."""
FILE_NAMES = ("two lines", "shell", "unicode", "option", "blank")
"""What a file, or a folder in a folder, may be called."""


def cases(places: Iterable[str]) -> list[Any]:
    """Every place with every hostile text; in CI with three of them."""
    return [
        pytest.param(place, kind, marks=() if kind in SHORT else pytest.mark.long, id=f"{place}, {kind}")
        for place in places
        for kind in HOSTILE
    ]


def odd_metadata(text: str) -> dict[str, dict[str, Any]]:
    """The metadata of a pod with the text in it."""
    return {
        "label": {"labels": {"odd": text}},
        "name of a label": {"labels": {text: "odd"}},
        "annotation": {"annotations": {"odd": text}},
        "name of an annotation": {"annotations": {text: "odd"}},
    }


@pytest.mark.parametrize(("place", "kind"), cases(odd_metadata("")))
def test_a_label_or_an_annotation_is_data_wherever_a_pod_reads_it(cli: CommandLine, place: str, kind: str) -> None:
    """As a file, as a line of one, as a variable and as a word of a command; what can be none of them is refused."""
    text = HOSTILE[kind]
    metadata = odd_metadata(text)[place]
    (field,) = metadata
    (key,) = metadata[field]
    one = f"metadata.{field}['{key}']"
    read = (
        'cat /info/one >/data/file; cat /info/all >/data/all; printf %s "$ODD" >/data/env; printf %s "$1" >/data/word'
    )
    container = {
        "name": "tensorflow",
        "image": "x",
        "command": ["sh", "-ec", read, "sh", "$(ODD)"],
        "env": [{"name": "ODD", "valueFrom": {"fieldRef": {"fieldPath": one}}}],
        "volumeMounts": [{"name": "info", "mountPath": "/info"}, {"name": "data", "mountPath": "/data"}],
    }
    items = [
        {"path": "one", "fieldRef": {"fieldPath": one}},
        {"path": "all", "fieldRef": {"fieldPath": f"metadata.{field}"}},
    ]
    volumes = [
        {"name": "info", "downwardAPI": {"items": items}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "sound"}},
    ]
    template = {"metadata": metadata, "spec": {"containers": [container], "volumes": volumes}}
    job = tfjob("sound", {"Worker": {"template": template}})
    # A name in quotes ends at the next quote.
    is_data = field == "annotations" and kind not in UNREADABLE and "'" not in key
    assert ended_well(cli, job) == is_data
    if is_data:
        found = cli.home / "claims" / "default" / "sound"
        for file in ("file", "env", "word"):
            assert (found / file).read_text() == metadata[field][key], file
        assert json.dumps(metadata[field][key], ensure_ascii=False) in (found / "all").read_text()


def odd_paths(text: str) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Volumes, and mounts of them, with the text where a path inside the volume is expected."""
    field = {"path": text, "fieldRef": {"fieldPath": "metadata.name"}}
    items = {"items": [{"key": "k", "path": text}]}
    claim = {"persistentVolumeClaim": {"claimName": "sound"}}
    return {
        "path of downwardAPI": ({"downwardAPI": {"items": [field]}}, {}),
        "path in a ConfigMap": ({"configMap": {"name": "kept", **items}}, {}),
        "path in a Secret": ({"secret": {"secretName": "kept", **items}}, {}),
        "projected path": ({"projected": {"sources": [{"downwardAPI": {"items": [field]}}]}}, {}),
        "subPath of a claim": (claim, {"subPath": text}),
        "subPath in memory": ({"emptyDir": {"medium": "Memory"}}, {"subPath": text}),
        "subPath of a file": ({"configMap": {"name": "kept"}}, {"subPath": text}),
        "field": ({"downwardAPI": {"items": [{"path": "f", "fieldRef": {"fieldPath": text}}]}}, {}),
    }


@pytest.mark.parametrize(("place", "kind"), cases(odd_paths("")))
def test_a_path_in_a_volume_stays_in_it(cli: CommandLine, place: str, kind: str) -> None:
    """It is refused, or it is what the container sees under that name."""
    volume, mount = odd_paths(HOSTILE[kind])[place]
    container = {
        "name": "tensorflow",
        "image": "x",
        "command": ["true"],
        "volumeMounts": [{"name": "v", "mountPath": "/data", **mount}],
    }
    template = {"spec": {"containers": [container], "volumes": [{"name": "v", **volume}]}}
    keeps = kind in FILE_NAMES and place != "field"
    assert ended_well(cli, tfjob("sound", {"Worker": {"template": template}})) == keeps


def ended_well(cli: CommandLine, job: dict[str, Any]) -> bool:
    """Runs a job with odd texts: it succeeds, or is refused, or waits and says why; nothing is touched beside."""
    manifest = cli.home.parent / "job.yaml"
    manifest.write_text(yaml.safe_dump_all([*KEPT, job]))
    with Running(cli.tool, cli.home, str(manifest), "--cold", cwd=cli.home.parent / "victim") as run:
        wait_until(
            lambda: (
                run.process.poll() is not None
                or any(f"({reason})" in line for line in run.lines for reason in DOUBTFUL)
            ),
            180,
            lambda: "\n".join(run.lines),
        )
        if run.process.poll() is None:
            run.process.send_signal(SIGINT)
        code = run.finish()
    assert code in (0, 2, 130), "\n".join(run.lines)
    assert "Traceback" not in "\n".join(run.lines)
    assert untouched(cli)
    assert not [path for path in cli.home.rglob("reached") if path.is_file()]
    cli.end()
    return code == 0


@pytest.mark.parametrize("name", ["../victim", SHELL])
def test_no_word_of_the_command_line_does(cli: CommandLine, name: str) -> None:
    job = tfjob("sound", {"Worker": {"template": {"spec": {"containers": [{"name": "tensorflow", "image": "x"}]}}}})
    for words in (("--name", name), ("--volume", f"{name}={cli.home.parent}/victim")):
        cli("run", "-", *words, stdin=yaml.safe_dump(job), code=2)
    cli("run", "fails.yaml", "--no-limits", code=1)
    for asked in (["logs", "fails", f"worker-0/{name}"], ["exec", "fails", name, "--", "true"]):
        assert cli.run(*asked).returncode in (2, 3), asked
    assert untouched(cli)

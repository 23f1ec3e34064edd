"""The manifest file that a command line names: its content with the parameters filled in, and what may be kept."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfjob.api.manifest import loader as manifests
from tfjob.api.manifest.loader import Manifest
from tfjob.api.objects import LAST_APPLIED
from tfjob.api.problems import Problem
from tfjob.launch.errors import InvalidRequest


class Unreadable(InvalidRequest):
    """What the command line names is no file that can be read."""

    def __init__(self, file: str, problem: str, hint: str) -> None:
        super().__init__(f"{file} {problem}", hint[:1].upper() + hint[1:])
        self.problem = Problem("", problem, hint, source=file)


def read(file: str, parameters: Sequence[str], name: str = "", command: str = "run") -> tuple[bytes, Manifest]:
    """A manifest's bytes and what they hold; `command` is the one that asks, for commands in hints."""
    values = pairs(parameters, "-p")
    data = sys.stdin.buffer.read() if file == "-" else _content(file, command)
    return data, manifests.load(data, "stdin" if file == "-" else file, values, name)


def taken(data: bytes, source: str) -> Manifest:
    """What a manifest holds that was made here."""
    return manifests.load(data, source)


def _content(file: str, command: str) -> bytes:
    if file.startswith(("http://", "https://")):
        raise Unreadable(
            file, "is a URL, and URLs are not fetched", f"fetch it yourself: curl -fsSL {file} | tfjob {command} -"
        )
    path = Path(file)
    if path.is_dir():
        found = sorted(inner for inner in path.iterdir() if inner.suffix in (".yaml", ".yml", ".json"))
        hint = f"name the manifest in it: {found[0]}" if len(found) == 1 else "name a manifest in it"
        raise Unreadable(file, "is a folder", hint)
    return path.read_bytes()


def without_secrets(data: bytes, manifest: Manifest) -> bytes:
    """The manifest as it may be kept with a run: the content of its Secrets has files of its own."""
    if not any(document["kind"] == "Secret" for document in manifest.objects):
        return data
    import yaml

    jobs = [entry.part.value for entry in manifest.entries]
    return yaml.safe_dump_all(
        [*without_contents(manifest.objects), *jobs], sort_keys=False, allow_unicode=True
    ).encode()


def without_contents(objects: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The objects of a manifest as they may be shown."""
    return [hidden_secret(document) if document["kind"] == "Secret" else document for document in objects]


def hidden_secret(secret: dict[str, Any]) -> dict[str, Any]:
    """A Secret with its keys alone, also where kubectl noted what it had applied."""
    contents = {key: dict.fromkeys(secret[key], "(secret)") for key in ("data", "stringData") if secret.get(key)}
    metadata = secret["metadata"]
    if LAST_APPLIED in (metadata.get("annotations") or {}):
        metadata = {**metadata, "annotations": {**metadata["annotations"], LAST_APPLIED: "(secret)"}}
    return {**secret, "metadata": metadata, **contents}


def pairs(words: Sequence[str], option: str, what: str = "KEY=VALUE") -> dict[str, str]:
    """`KEY=VALUE` words as a mapping."""
    found: dict[str, str] = {}
    for word in words:
        key, separator, value = word.partition("=")
        if not separator or not key or (what != "KEY=VALUE" and not value):
            raise InvalidRequest(f"{option} {word}: write it as {what}")
        if key in found:
            raise InvalidRequest(f"{option} {key} is given twice")
        found[key] = value
    return found

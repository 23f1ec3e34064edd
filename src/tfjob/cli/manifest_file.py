"""The manifest file that a command line names: its content with the parameters filled in, and what may be kept."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfjob.api import manifest as manifests
from tfjob.api.manifest import Manifest
from tfjob.cli import outcome


def read(file: str, parameters: Sequence[str], name: str = "") -> tuple[bytes, Manifest]:
    """A manifest's bytes and what they hold."""
    values = pairs(parameters, "-p")
    data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    return data, manifests.load(data, "stdin" if file == "-" else file, values, name)


def without_secrets(data: bytes, manifest: Manifest) -> bytes:
    """The manifest as it may be kept with a run: the content of its Secrets has files of its own."""
    if not any(document["kind"] == "Secret" for document in manifest.objects):
        return data
    import yaml

    objects = [hidden_secret(document) if document["kind"] == "Secret" else document for document in manifest.objects]
    jobs = [entry.part.value for entry in manifest.entries]
    return yaml.safe_dump_all([*objects, *jobs], sort_keys=False, allow_unicode=True).encode()


def hidden_secret(secret: dict[str, Any]) -> dict[str, Any]:
    """A Secret with its keys alone."""
    contents = {key: dict.fromkeys(secret[key], "(secret)") for key in ("data", "stringData") if secret.get(key)}
    return {**secret, **contents}


def pairs(words: Sequence[str], option: str, what: str = "KEY=VALUE") -> dict[str, str]:
    """`KEY=VALUE` words as a mapping."""
    found: dict[str, str] = {}
    for word in words:
        key, separator, value = word.partition("=")
        if not separator or not key or (what != "KEY=VALUE" and not value):
            raise outcome.Stop(outcome.BAD_INPUT, f"{option} {word}: write it as {what}")
        if key in found:
            raise outcome.Stop(outcome.BAD_INPUT, f"{option} {key} is given twice")
        found[key] = value
    return found

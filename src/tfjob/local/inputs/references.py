"""The ConfigMaps and Secrets that a pod refers to, and what they hold."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfjob.api.pod_validation import CONFIG_MAP, SECRET
from tfjob.local.state.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class MissingReference(Refusal):
    """A pod refers to an object, or to a key of one, that does not exist and is not optional."""

    def __init__(self, kind: str, name: str, key: str = "") -> None:
        super().__init__(
            f'key "{key}" not found in {kind} "{name}"' if key else f'{kind} "{name}" not found',
            f"Put the {kind} into the manifest's file as a document of its own, or mark the reference optional.",
        )
        self.kind = kind
        self.name = name
        self.key = key


@dataclass(frozen=True)
class References:
    """How to find the documents of the pod's own namespace by name; None where there is none."""

    config_map: Callable[[str], Mapping[str, Any] | None]
    secret: Callable[[str], Mapping[str, Any] | None]

    def find(self, kind: str, reference: Mapping[str, Any], *, binary: bool) -> dict[str, bytes] | None:
        """The contents that `reference` names; None when they are missing and optional.

        A ConfigMap's `binaryData` counts only where `binary` is true: as files, not as variables.
        """
        wanted = reference.get("name") or reference.get("secretName") or ""
        document = self.config_map(wanted) if kind == CONFIG_MAP else self.secret(wanted)
        if document is None:
            if reference.get("optional"):
                return None
            raise MissingReference(kind, wanted)
        if kind == CONFIG_MAP and not binary:
            document = {**document, "binaryData": None}
        return contents(kind, document)


def brought(documents: Iterable[Mapping[str, Any]], namespace: str, kept: References) -> References:
    """What the documents of a manifest give a job of `namespace`, then what earlier manifests left there (`kept`)."""
    own = {
        (document["kind"], document["metadata"]["name"]): document
        for document in documents
        if (document["metadata"].get("namespace") or namespace) == namespace
    }
    return References(
        config_map=lambda name: own.get((CONFIG_MAP, name)) or kept.config_map(name),
        secret=lambda name: own.get((SECRET, name)) or kept.secret(name),
    )


def contents(kind: str, document: Mapping[str, Any]) -> dict[str, bytes]:
    """Key by key what a ConfigMap or Secret document holds, encoded fields decoded."""
    plain, encoded = ("data", "binaryData") if kind == CONFIG_MAP else ("stringData", "data")
    held = {key: _decoded(kind, document, key, value) for key, value in (document.get(encoded) or {}).items()}
    return held | {key: str(value).encode() for key, value in (document.get(plain) or {}).items()}


def _decoded(kind: str, document: Mapping[str, Any], key: str, value: object) -> bytes:
    try:
        return base64.b64decode("".join(str(value or "").split()), validate=True)
    except binascii.Error:
        name = (document.get("metadata") or {}).get("name", "")
        raise Refusal(
            f'{kind} "{name}": the value of "{key}" is not base64',
            "Write plain text under stringData." if kind == SECRET else "Write plain text under data.",
        ) from None

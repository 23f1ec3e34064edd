"""The Kubernetes version of an API server, and whether we support it."""

from __future__ import annotations

import re

import msgspec

from tfjob.kube.client.client import Client

OLDEST = (1, 27)
"""The newest feature that we rely on: the server rejects unknown fields (1.27). Older ones are validation rules in a
CRD (1.25) and the DisruptionTarget condition of pods (1.26). Servers before 1.29 drop `podReplacementPolicy` of a
TfJob's Jobs; nothing relies on it (docs/decisions/0016). Tests run on the version that `devcluster` pins.
"""


class ServerVersion(msgspec.Struct, frozen=True, rename="camel"):
    """The answer of `/version`; providers extend it: `minor` may be `29+`."""

    major: str = ""
    minor: str = ""
    git_version: str = ""

    @property
    def numbers(self) -> tuple[int, int]:
        """Major and minor version; zeros if unreadable."""
        return _number(self.major), _number(self.minor)

    def __str__(self) -> str:
        return self.git_version or f"v{self.major}.{self.minor}"


async def server_version(client: Client) -> ServerVersion:
    return msgspec.json.decode(await client.request("GET", "/version"), type=ServerVersion)


def version_problem(version: ServerVersion) -> str | None:
    """Return why this Kubernetes is too old; None if it is not."""
    if version.numbers >= OLDEST or version.numbers == (0, 0):
        return None
    oldest = ".".join(map(str, OLDEST))
    return f"the cluster runs Kubernetes {version}, but tfjob needs {oldest} or later"


def _number(text: str) -> int:
    match = re.match(r"\d+", text)
    return int(match[0]) if match else 0

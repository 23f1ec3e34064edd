"""How the replicas of a job reach each other where names cannot resolve: `name.namespace.svc:port` in texts, replaced.

At full level every pod has a hosts file and the texts stay as they are. Without mount namespaces TF_CONFIG, command
and environment carry addresses instead, and at the lowest level ports of 127.0.0.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Peer:
    """A replica by its service's name, its address, and at the lowest level the port that stands for each of its own."""

    name: str
    namespace: str
    ip: str
    ports: Mapping[int, int] = field(default_factory=dict)


def rewrite(text: str, peers: Iterable[Peer]) -> str:
    """`text` with every `peer:port` replaced by an address that this machine can reach without names."""
    for peer in peers:
        if peer.name not in text:
            continue
        text = _pattern(peer).sub(lambda match, peer=peer: _address(peer, int(match[1])), text)  # type: ignore[misc]
    return text


def _pattern(peer: Peer) -> re.Pattern[str]:
    suffix = rf"(?:\.{re.escape(peer.namespace)}(?:\.svc(?:\.[a-z0-9.-]+)?)?)?"
    return re.compile(rf"(?<![\w.-]){re.escape(peer.name)}{suffix}:(\d+)")


def _address(peer: Peer, port: int) -> str:
    return f"{LOOPBACK}:{peer.ports[port]}" if port in peer.ports else f"{peer.ip}:{port}"

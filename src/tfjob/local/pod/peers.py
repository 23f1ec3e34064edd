"""How the replicas of a job reach each other where names cannot resolve: `name.namespace.svc:port` in texts, replaced.

At full level every pod has a hosts file and the texts stay as they are. Without mount namespaces TF_CONFIG, command
and environment carry addresses instead, and at the lowest level ports of 127.0.0.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Peer:
    """A replica: its service's name, its address, and for ports that it cannot have, those that it has instead."""

    name: str
    namespace: str
    ip: str
    ports: Mapping[int, int] = field(default_factory=dict)


def rewrite(text: str, peers: Iterable[Peer], *, names: bool) -> str:
    """`text` with every `peer:port` as it must read here: with `names` only ports change, without them hosts too."""
    for peer in peers:
        if peer.name in text and (peer.ports or not names):
            text = _pattern(peer).sub(partial(_address, peer, names), text)
    return text


def _pattern(peer: Peer) -> re.Pattern[str]:
    suffix = rf"(?:\.{re.escape(peer.namespace)}(?:\.svc(?:\.[a-z0-9.-]+)?)?)?"
    return re.compile(rf"(?<![\w.-])({re.escape(peer.name)}{suffix}):(\d+)")


def _address(peer: Peer, names: bool, match: re.Match[str]) -> str:
    host, port = match[1], int(match[2])
    return f"{host if names else peer.ip}:{peer.ports.get(port, port)}"

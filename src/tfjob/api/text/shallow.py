"""JSON that is nested deeper than a stack can follow.

An API server stores ten thousand levels where a schema lets unknown fields be. One such object must not end whoever
reads all of them: what lies deeper than any field that we know is read as null.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

T = TypeVar("T")

LEVELS = 100
"""No field of a job, a pod or a review of them lies so deep."""
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]+|[\]}]+', re.DOTALL)


def decoded(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw) -> T:
    """What a decoder reads, without what is nested too deeply for it."""
    try:
        return decoder.decode(data)
    except RecursionError:
        return decoder.decode(shallow(bytes(data)))


def shallow(data: bytes) -> bytes:
    """The same JSON with null for what is nested too deeply; it takes no stack."""
    kept, begin, depth = [], 0, 0
    for token in _TOKEN.finditer(data):
        first, count = token[0][:1], len(token[0])
        if first in b"[{":
            if depth <= LEVELS < depth + count:
                kept.append(data[begin : token.start() + LEVELS - depth])
            depth += count
        elif first in b"]}":
            if depth - count <= LEVELS < depth:
                kept.append(b"null")
                begin = token.start() + depth - LEVELS
            depth -= count
    return b"".join((*kept, data[begin:] if depth <= LEVELS else b"null"))

"""Decode JSON that is nested too deeply for a recursive decoder.

If a schema allows unknown fields, an API server stores objects with ten thousand levels. One such object must not break
a list of all objects, so values below the fields that we know are read as null.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

T = TypeVar("T")

LEVELS = 100
"""More levels than any field of a job, a pod or an admission review has."""
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]+|[\]}]+', re.DOTALL)


def decoded(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw) -> T:
    """Decode JSON, with null for values that are nested too deeply for the decoder."""
    try:
        return decoder.decode(data)
    except RecursionError:
        return decoder.decode(shallow(bytes(data)))


def shallow(data: bytes) -> bytes:
    """Replace values that are nested too deeply by null, without recursion."""
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

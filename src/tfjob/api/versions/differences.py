"""What one JSON value has and another has not, as a short list that can be put back later.

A difference holds its path, a digest of what stood there, and what should. It is put back only where still the same
stands: whoever has changed the value since wins over the note.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

Difference = list[Any]
"""`[path, digest or null for nothing, wanted]`, without the last for what should not be there."""

_NOTHING: Any = object()
_DIGEST_BYTES = 6


def differences(have: Any, want: Any) -> list[Difference]:
    """What turns `have` into `want`."""
    return list(_differences(have, want, []))


def put_back(value: Any, noted: Sequence[Difference]) -> Any:
    """The value with the differences that still fit; the given one stays as it is."""
    for difference in noted:
        path, digest, *wanted = difference
        value = _changed(value, path, digest, wanted[0] if wanted else _NOTHING)
    return value


def _differences(have: Any, want: Any, path: list[str | int]) -> Iterator[Difference]:
    # Most of an object is not only equal but the same: looking no further is what makes this cheap.
    if have is want:
        return
    if isinstance(have, dict) and isinstance(want, dict):
        for key in sorted(have.keys() | want.keys()):
            yield from _differences(have.get(key, _NOTHING), want.get(key, _NOTHING), [*path, key])
    elif isinstance(have, list) and isinstance(want, list) and len(have) == len(want):
        for index, pair in enumerate(zip(have, want, strict=True)):
            yield from _differences(*pair, [*path, index])
    elif type(have) is not type(want) or have != want:
        # A type is compared too: in JSON, true is not 1.
        yield [path, _digest(have), *([] if want is _NOTHING else [want])]


def _changed(value: Any, path: Sequence[str | int], digest: str | None, wanted: Any) -> Any:
    if not path:
        if _digest(value) == digest:
            return wanted
        both = digest is None and isinstance(value, dict) and isinstance(wanted, dict)
        return _with_missing(value, wanted) if both else value
    step, *rest = path
    if isinstance(value, dict) and (step in value or not rest):
        changed = _changed(value.get(step, _NOTHING), rest, digest, wanted)
        others = {key: item for key, item in value.items() if key != step}
        return others if changed is _NOTHING else {**others, step: changed}
    if isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value):
        changed = _changed(value[step], rest, digest, wanted)
        return value if changed is _NOTHING else [*value[:step], changed, *value[step + 1 :]]
    return value


def _with_missing(value: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """What somebody has put where nothing was, with what it leaves open."""
    merged = {**wanted, **value}
    for key in value.keys() & wanted.keys():
        if isinstance(value[key], dict) and isinstance(wanted[key], dict):
            merged[key] = _with_missing(value[key], wanted[key])
    return merged


def _digest(value: Any) -> str | None:
    if value is _NOTHING:
        return None
    encoded = msgspec.json.encode(value, order="sorted")
    return blake2b(encoded, digest_size=_DIGEST_BYTES).hexdigest()

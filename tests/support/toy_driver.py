"""The background driver of tests, which also knows the toy kinds: `python -m support.toy_driver HOME UID LOCK`."""

from __future__ import annotations

import sys
from typing import Any

from support.toys import BatchKind, ServerKind
from tfjob import kinds
from tfjob.controller.kind import Kind
from tfjob.durations import USUAL, Durations

machine_kinds = kinds.machine_kinds


def toy_kinds(durations: Durations = USUAL) -> list[Kind[Any]]:
    return [*machine_kinds(durations), BatchKind(), ServerKind()]


if __name__ == "__main__":
    kinds.machine_kinds = toy_kinds
    from tfjob.launch import background  # after the kinds have changed

    background.main(sys.argv[1:])

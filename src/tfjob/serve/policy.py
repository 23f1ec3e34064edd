"""Which versions of a model to load, to unload and to keep. Pure.

A version is a folder whose name is a whole number. A version that does not load never replaces one that does: the next
older one is taken in its place. A model that has a version keeps one, unless its policy names no version.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass

from tfjob.serve.config import Latest, ModelConfig, Specific

LARGEST = 2**63 - 1
LIKE_A_VERSION = re.compile(r"v?[0-9]+(\.[0-9]+)*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Folders:
    """The names of the folders of versions, by number, and warnings about other names."""

    names: Mapping[int, str]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """Failed attempts to load a version, and when to try again. An incomplete folder is no attempt."""

    attempts: int
    again_at: float


@dataclass(frozen=True, slots=True)
class Step:
    """What to do next: load one version, or, when there is none to load, unload some."""

    load: int | None = None
    unload: frozenset[int] = frozenset()


def read_names(names: Iterable[str]) -> Folders:
    """Find the versions among the names of folders."""
    found: dict[int, str] = {}
    warnings = []
    for name in sorted(names, key=lambda one: (len(one), one)):
        if name.isascii() and name.isdigit() and int(name) <= LARGEST:
            other = found.setdefault(int(name), name)
            if other != name:
                warnings.append(f"{other} and {name} are the same version: {other} is taken.")
        elif LIKE_A_VERSION.fullmatch(name):
            warnings.append(f"{name} is not a version: a version is a whole number below 2^63, such as 1.")
    return Folders(found, tuple(warnings))


def next_step(
    config: ModelConfig,
    seen: Collection[int],
    loaded: Set[int],
    failures: Mapping[int, Failure],
    retries: int,
    now: float,
) -> Step:
    """Decide what to do next, given the versions in the folder and those in memory."""
    policy = config.policy
    wanted = sorted((one for one in seen if not isinstance(policy, Specific) or one in policy.versions), reverse=True)
    count = max(1, policy.count) if isinstance(policy, Latest) else len(wanted)
    keep: set[int] = set()
    for version in wanted:
        if len(keep) == count:
            break
        if version in loaded:
            keep.add(version)
            continue
        failure = failures.get(version)
        if failure is None or (failure.attempts <= retries and now >= failure.again_at):
            return Step(load=version)
    if not keep and policy != Specific(()):
        return Step()
    return Step(unload=frozenset(loaded - keep))

"""The tool stays small and quick: few distributions, and a `--help` that costs next to nothing."""

from __future__ import annotations

import os
import re
import sys
from importlib.metadata import requires
from importlib.metadata import version as installed_version

import pytest

MOST_DISTRIBUTIONS = 10
MOST_SECONDS = 0.100
TRIES = 40


def test_the_base_install_is_at_most_10_distributions() -> None:
    found = needed("tfjob")
    assert len(found) <= MOST_DISTRIBUTIONS, sorted(found)


def test_help_takes_at_most_100_ms_of_cpu() -> None:
    """The least of several tries: what else the machine does is not the tool's cost."""
    took: list[float] = []
    while not took or (min(took) > MOST_SECONDS and len(took) < TRIES):
        took.append(cpu_seconds(sys.executable, "-m", "tfjob", "--help"))
    assert min(took) <= MOST_SECONDS


@pytest.mark.parametrize("extra", ["tensorflow", "kube", "operator"])
def test_what_only_some_need_is_an_extra(extra: str) -> None:
    """Nothing of an extra is in the base install."""
    names = {name_of(line) for line in requires("tfjob") or () if f'extra == "{extra}"' in line.replace("'", '"')}
    assert names
    assert not (names - {"tfjob"}) & needed("tfjob")


def needed(name: str) -> set[str]:
    """A distribution and everything that it needs on this interpreter, without extras."""
    found: set[str] = set()
    todo = [name]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += [name_of(line) for line in requires(one) or () if applies(line)]
    return found


def applies(requirement: str) -> bool:
    """Whether a requirement holds here; a marker that names another platform or an extra does not."""
    _, _, marker = requirement.partition(";")
    if "extra ==" in marker:
        return False
    try:
        installed_version(name_of(requirement))
    except ImportError:
        return False
    return True


def name_of(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return found[0].lower().replace("_", "-")


def cpu_seconds(*command: str) -> float:
    """User and system time of a command and its children."""
    silence = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    pid = os.posix_spawn(command[0], command, {"PATH": os.defpath, "HOME": "/"}, file_actions=silence)
    _, status, usage = os.wait4(pid, 0)
    assert status == 0
    return usage.ru_utime + usage.ru_stime

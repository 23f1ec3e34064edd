"""Tests at once (`pytest -n auto`): how many, which share a process, which need the machine alone."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

SHARED = ("installed_wheel", "released", "finished", "running")
"""Fixtures that take seconds to make, once in a process: the tests of each stay together."""
INDEPENDENT = ("tests/unit/", "tests/local/", "tests/long/tools/")
"""Folders whose other tests go wherever there is room; elsewhere those of a file stay together."""
TOGETHER = ("tests/local/serve/",)
"""Folders inside those whose tests stay together by file, because they share a server."""

TRAININGS = "trainings"
"""The group of all tests with real TensorFlow: one after another, since each could use all cores, but beside others,
since it also waits: for peers, for restarts, for their delays."""
LONGEST = (
    TRAININGS,
    "installed_wheel",
    "released",
    "test_commands_nodes.py",
    "test_commands_control_plane.py",
    "test_installation.py",
    "test_server_versions.py",
    "test_chart_server.py",
    "test_real_training_operator.py",
    "test_real_schedulers.py",
    "test_devcluster_control_plane.py",
)
"""Groups of few tests that take long: begun first, so that none of them is what all others wait for at the end."""

ID = "id"
"""The property of a test in reports that says its name as it was before pytest-xdist added the group."""
_LOCK = pytest.StashKey[Any]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "alone: no other test runs meanwhile, because it needs the machine for itself")
    # xdist would put the groups in another order than ours: a process that is given one of tests that run alone waits
    # for all others before each of them.
    config.option.loadscopereorder = False


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    groups = {item: _group(item) for item in items}
    sizes = Counter(groups.values())
    for item, group in groups.items():
        item.user_properties.append((ID, item.nodeid))
        item.add_marker(pytest.mark.xdist_group(group))
    # Large groups come before small ones. Tests that run alone come last, when every other test has finished.
    ranks = {
        group: (LONGEST.index(group) if group in LONGEST else len(LONGEST), -size) for group, size in sizes.items()
    }
    items.sort(key=lambda item: (_is_alone(item), ranks[groups[item]]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    """Stops a run whose groups are not seen: pytest-xdist hands them on in the names of the tests."""
    if node.config.option.dist == "loadgroup" and any("@" not in name for name in ids):
        pytest.exit(
            "this pytest does not show pytest-xdist its groups: see pyproject.toml", pytest.ExitCode.USAGE_ERROR
        )


def _is_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


def _group(item: pytest.Item) -> str:
    """The name that the tests of one process have in common; those of a place that run alone have their own."""
    return f"{_place(item)} alone" if _is_alone(item) else _place(item)


def _place(item: pytest.Item) -> str:
    if item.get_closest_marker("tensorflow"):
        return TRAININGS
    callspec = getattr(item, "callspec", None)
    if callspec and "cluster" in callspec.params:
        return f"{item.path.name} {callspec.params['cluster']}"
    shared = [name for name in SHARED if name in getattr(item, "fixturenames", ())]
    if shared:
        return shared[0]
    is_independent = item.nodeid.startswith(INDEPENDENT) and not item.nodeid.startswith(TOGETHER)
    return item.nodeid if is_independent else item.path.name


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two more than there are cores, because most tests wait for processes."""
    return 2 + (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells each process of the lock; its file goes with the process that started them."""
    if _LOCK not in node.config.stash:
        node.config.stash[_LOCK] = tempfile.NamedTemporaryFile(prefix="tfjob-tests-")  # noqa: SIM115 -- for the whole run
    node.workerinput["lock"] = node.config.stash[_LOCK].name


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outside the timer of pytest-timeout: waiting for the others is no fault
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    lock = getattr(item.config, "workerinput", {}).get("lock")
    if lock is None:
        return (yield)
    with Path(lock).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX if _is_alone(item) else fcntl.LOCK_SH)
        return (yield)

"""The conformance cases on this machine's cluster: at every level, as root and as an ordinary user.

CI runs every case as root at the full level. Elsewhere it runs the cases that depend on the level or on the user; the
long form runs every case everywhere.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.conformance.case import Case
from support.conformance.case_runner import CaseRunner, Place, lines_of
from support.conformance.cases import CASES, asked_of
from support.conformance.manifests import replica, tfjob
from support.installed import Installed
from support.local.warm_pods import end_fork_servers, standin_python
from tfjob.local.state.home import Home
from tfjob.local.warm import pool

AT_ONCE = 3
WARM = ("peers", "three", "again", "gang")
"""Names and ports, an exit code with its last line, a signal, a restart of all: what forks might spoil."""

BY_LEVEL = frozenset(
    ("peers", "judge", "missing", "again", "gang", "hungry", "files", "paths", "several", "old", "pause")
)
"""Names and ports, signals and exit codes, restarts, limits, mounts: what a level or a user's rights change."""
WHERE = {
    "full": ("full", "me"),
    "full-warm": ("full", "warm"),
    "full-user": ("full", "user"),
    "addresses": ("addresses", "me"),
    "ports": ("ports", "me"),
}
MARKS = {"full-user": [pytest.mark.root]}


def everywhere() -> Iterator[Any]:
    """Every place with every case that it is asked, marked `long` if CI leaves it out."""
    for place, (level, _) in WHERE.items():
        for case in asked_of(level):
            marks = [*MARKS.get(place, ()), *(() if _is_in_ci(place, case) else (pytest.mark.long,))]
            yield pytest.param(WHERE[place], case, id=f"{place}-{case.job}", marks=marks)


def _is_in_ci(place: str, case: Case) -> bool:
    return place == "full" or (place != "full-warm" and case.job in BY_LEVEL)


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaseRunner]:
    level, who = request.param
    chosen: Installed = request.getfixturevalue("user_tool" if who == "user" else "tool")
    folder = chosen.make_folder(tmp_path_factory.mktemp("conformance") / f"{level}-{who}")
    warm = ("--warm", "--python", str(standin_python(folder / "venv"))) if who == "warm" else ()
    place = Place(chosen, folder, starting=("--level", level, *warm))
    in_ci = [case for case in asked_of(level) if _is_in_ci(f"{level}-{who}".removesuffix("-me"), case)]
    cases = asked_of(level) if request.config.getoption("--long") else in_ci
    with contextlib.closing(CaseRunner(place, cases, AT_ONCE)) as runner:
        yield runner
    for home in folder.glob("*/home"):
        end_fork_servers(home)


@pytest.mark.parametrize("case", [case for case in CASES if case.job in WARM], ids=lambda case: case.job)
def test_conformance_of_warm_starts(warm_cluster: CaseRunner, case: Case) -> None:
    """What the case's name says, with replicas that are forked; with --long all cases are tried so."""
    case.check(warm_cluster.outcome(case))
    states = pool.running(Home(warm_cluster.place.folder / case.job / "home").fork_servers)
    assert sum(state.forked for state in states) > 0, "no replica was forked"


@pytest.fixture(scope="module")
def warm_cluster(tool: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaseRunner]:
    folder = tmp_path_factory.mktemp("warm")
    # Without the settings of the tests fork servers stay when a case is over, to be looked at.
    tool = dataclasses.replace(tool, env={**tool.env, "XDG_CONFIG_HOME": str(folder)})
    place = Place(
        tool, folder, starting=("--level", "full", "--warm", "--python", str(standin_python(folder / "venv")))
    )
    with contextlib.closing(CaseRunner(place, [case for case in CASES if case.job in WARM], AT_ONCE)) as runner:
        yield runner
    for home in folder.glob("*/home"):
        end_fork_servers(home)


@pytest.mark.parametrize(("cluster", "case"), list(everywhere()), indirect=["cluster"], scope="module")
def test_conformance(cluster: CaseRunner, case: Case) -> None:
    """What the case's name says, at this level."""
    case.check(cluster.outcome(case))


def test_every_case_is_possible_at_full_level() -> None:
    """What a level cannot do, a higher one can."""
    assert all("full" in case.levels for case in CASES)


@pytest.mark.parametrize(
    "cluster",
    [pytest.param(WHERE[place], id=place, marks=MARKS.get(place, ())) for place in WHERE if place != "full-warm"],
    indirect=True,
    scope="module",
)
def test_tf_config_is_byte_identical_to_the_clusters(cluster: CaseRunner) -> None:
    """At full level a replica sees exactly what training-operator v1.9 would write; below it, only hosts differ."""
    run, _ = cluster.place.run("bytes", [tfjob("bytes", {"Chief": replica("config"), "Worker": replica(count=2)})])
    printed = lines_of(run.stdout)["chief-0"]
    expected = (
        '{"cluster":{"chief":["bytes-chief-0.default.svc:2222"],'
        '"worker":["bytes-worker-0.default.svc:2222","bytes-worker-1.default.svc:2222"]},'
        '"task":{"type":"chief","index":0},"environment":"cloud"}'
    )
    if "full" in cluster.place.starting:
        assert printed == [expected]
    else:
        assert json.loads(printed[0])["task"] == json.loads(expected)["task"]
        assert all(address.startswith("127.") for address in json.loads(printed[0])["cluster"]["worker"])

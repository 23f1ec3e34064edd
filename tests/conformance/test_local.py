"""The conformance cases on this machine's cluster: at every level, as root and as an ordinary user."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from conformance.cases import CASES, Case
from conformance.checks import Outcome
from installed import Installed

AT_ONCE = 3
HERE = Path(__file__).parent

SETTINGS = [
    pytest.param(("full", "me"), id="full"),
    pytest.param(("full", "user"), id="full-user", marks=pytest.mark.root),
    pytest.param(("addresses", "me"), id="addresses"),
    pytest.param(("ports", "me"), id="ports"),
]


class Cluster:
    """Runs cases with the real tool, a few at once, each with a state folder of its own."""

    def __init__(self, level: str, tool: Installed, folder: Path) -> None:
        self.level = level
        self.tool = tool
        self.folder = folder
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._results = {case.name: self._pool.submit(self._run, case) for case in CASES if level in case.levels}

    def outcome(self, case: Case) -> Outcome:
        future: Future[Outcome] = self._results[case.name]
        return future.result(timeout=100)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _run(self, case: Case) -> Outcome:
        name = case.documents[0]["metadata"]["name"]
        folder = self.tool.make_folder(self.folder / name)
        (folder / "standin.py").write_bytes((HERE / "standin.py").read_bytes())
        (folder / "job.yaml").write_text(yaml.safe_dump_all(case.documents))
        home = folder / "home"
        begun = time.monotonic()
        run = self.tool.tfjob(home, "run", str(folder / "job.yaml"), "--level", self.level, *case.options, timeout=90)
        seconds = time.monotonic() - begun
        shown = self.tool.tfjob(home, "status", name, "-o", "json", timeout=20)
        assert shown.returncode == 0, run.stdout + run.stderr + shown.stderr
        lines: dict[str, list[str]] = {}
        for line in run.stdout.splitlines():
            replica, separator, text = line.partition(" | ")
            if separator:
                lines.setdefault(replica.strip(), []).append(text)
        return Outcome(run.returncode, json.loads(shown.stdout), lines, seconds)


@pytest.fixture(scope="module", params=SETTINGS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    level, who = request.param
    chosen: Installed = request.getfixturevalue("user_tool" if who == "user" else "tool")
    cluster = Cluster(level, chosen, chosen.make_folder(tmp_path_factory.mktemp("conformance") / f"{level}-{who}"))
    yield cluster
    cluster.close()


@pytest.mark.parametrize("case", CASES, ids=[case.documents[0]["metadata"]["name"] for case in CASES])
def test_conformance(cluster: Cluster, case: Case) -> None:
    """What the case's name says, at this level."""
    case.check(cluster.outcome(case))


def test_every_case_is_possible_at_full_level() -> None:
    """What a level cannot do, a higher one can."""
    assert all("full" in case.levels for case in CASES)


def test_tf_config_is_byte_identical_to_the_clusters(cluster: Cluster) -> None:
    """At full level a replica sees exactly what training-operator v1.9 would write; below it, only hosts differ."""
    folder = cluster.tool.make_folder(cluster.folder / "bytes")
    command = ["python", "-c", "import os; print(os.environ['TF_CONFIG'])"]
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "x:1", "command": command}]}}
    replicas = {"Chief": {"template": template}, "Worker": {"replicas": 2, "template": template}}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "bytes"},
        "spec": {"tfReplicaSpecs": replicas},
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    run = cluster.tool.tfjob(folder / "home", "run", str(folder / "job.yaml"), "--level", cluster.level, timeout=60)
    printed = [line.partition(" | ")[2] for line in run.stdout.splitlines() if line.startswith("chief-0 ")]
    expected = (
        '{"cluster":{"chief":["bytes-chief-0.default.svc:2222"],'
        '"worker":["bytes-worker-0.default.svc:2222","bytes-worker-1.default.svc:2222"]},'
        '"task":{"type":"chief","index":0},"environment":"cloud"}'
    )
    if cluster.level == "full":
        assert printed == [expected]
    else:
        assert json.loads(printed[0])["task"] == json.loads(expected)["task"]
        assert all(address.startswith("127.") for address in json.loads(printed[0])["cluster"]["worker"])

"""The conformance cases on a real Kubernetes: all of them, the same manifests and commands, with `--on k8s`.

The operator looks after their namespace alone, so that other tests may use the same cluster meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import state
from devcluster.client import Client
from support.conformance import standin_image
from support.conformance.case import Case
from support.conformance.case_runner import CaseRunner, Place, lines_of
from support.conformance.cases import CASES
from support.conformance.live_job import LiveJob
from support.conformance.manifests import Document, remembering, replica, tfjob
from support.installed import Installed
from support.operating import operating
from support.pod_history import PodHistory, pod_history
from support.running import wait_until
from support.served import serve_every_job

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]

AT_ONCE = 6


@pytest.fixture(scope="module")
def namespace(node_cluster: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A namespace with the claim that the cases use, on nodes that have their image and see this machine's files."""
    if node_cluster.kubeconfig.parent.name not in state.names():
        pytest.skip("needs nodes of devcluster: with the image of the cases, and on this machine")
    standin_image.load(node_cluster, tmp_path_factory.mktemp("image"))
    serve_every_job(node_cluster)
    name = node_cluster.namespace("conformance")
    folder = tmp_path_factory.mktemp("shared")
    folder.chmod(0o777)
    node_cluster.apply(volume(name, folder), claim(name), namespace=name)
    yield name
    node_cluster.delete_namespace(name)
    node_cluster.kubectl("delete", "persistentvolume", name, "--wait=false")


@pytest.fixture(scope="module")
def history(node_cluster: Client, namespace: str) -> Iterator[PodHistory]:
    """Every pod of the namespace, from before the first case on."""
    with pod_history(node_cluster, namespace) as found:
        yield found


@pytest.fixture(scope="module")
def there(
    node_cluster: Client,
    namespace: str,
    history: PodHistory,
    tool: Installed,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[CaseRunner]:
    """All cases, under way with an operator that looks after their namespace."""
    chosen = Installed(tool.command, {**tool.env, "KUBECONFIG": str(node_cluster.kubeconfig)})
    place = Place(chosen, tmp_path_factory.mktemp("conformance"), everywhere=("--on", "k8s", "-n", namespace))
    with (
        operating(node_cluster.kubeconfig, f"--namespace={namespace}"),
        contextlib.closing(CaseRunner(place, CASES, AT_ONCE)) as runner,
    ):
        yield runner


def volume(namespace: str, folder: Path) -> dict[str, object]:
    """A folder of this machine, which all nodes see."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": namespace},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": namespace, "name": "shared"},
            "hostPath": {"path": str(folder)},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    }


def claim(namespace: str) -> dict[str, object]:
    """The claim that the cases name; on this machine the tool makes it."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "shared"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": namespace,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


@pytest.mark.parametrize("case", CASES, ids=[case.job for case in CASES])
def test_conformance_on_a_cluster(there: CaseRunner, case: Case) -> None:
    """What the case's name says."""
    case.check(there.outcome(case))


@pytest.mark.parametrize("case", CASES, ids=[case.job for case in CASES])
def test_no_pod_is_doubled(there: CaseRunner, history: PodHistory, case: Case) -> None:
    """A replica has one pod or run for every attempt that its job's status has, and never two at a time."""
    job = there.outcome(case).job
    replicas, status = job.get("replicas", ()), job.get("status", {})
    recorded = {one["name"]: one["attempts"] for one in replicas if one["attempts"]}
    # What was scaled away counts as one more restart, so that it would come back as another attempt.
    gone = {name: count for name, count in status.get("taskRestarts", {}).items() if name not in recorded}
    # What was scaled up begins with the attempt that the gang is on.
    begins = {"worker-1": 2} if case.job == "grow" else {}
    wanted = {name: list(range(begins.get(name, 1), last + 1)) for name, last in (recorded | gone).items()}
    if job:
        wait_until(lambda: history.attempts(case.job) == wanted, 30, lambda: f"{history.of(case.job)}, not {wanted}")
    else:
        assert all(attempts == [1] for attempts in history.attempts(case.job).values())
    assert history.overlaps(case.job) == []


@pytest.mark.parametrize(
    ("job", "left"),
    [
        pytest.param("chief", {"chief-0": "Succeeded"}, id="by default what has ended stays"),
        pytest.param("clean-running", {"chief-0": "Succeeded"}, id="Running"),
        pytest.param("clean-all", {}, id="All"),
        pytest.param("several", {}, id="a pod whose other container goes on is removed"),
    ],
)
def test_what_is_left_of_a_job(there: CaseRunner, history: PodHistory, job: str, left: dict[str, str]) -> None:
    """cleanPodPolicy, by the pods that are still there when the dust has settled."""
    there.outcome(next(case for case in CASES if case.job == job))
    wait_until(lambda: history.present(job) == left, 60, lambda: str(history.present(job)))


def logs_of_all(place: Place, name: str, documents: list[Document]) -> str:
    """What all replicas of a job that keeps its pods said until its end; then it is deleted."""
    live = LiveJob(place.tool_of(name), name)
    submitted = live.tool("submit", str(place.write(name, documents)), *place.starting)
    assert submitted.returncode == 0, submitted
    live("wait", "--for", "succeeded")
    logs = live("logs")
    live("delete", "--yes")
    return logs


def test_tf_config_is_the_same_in_a_pod_and_in_a_local_process(
    there: CaseRunner, namespace: str, tool: Installed, tmp_path: Path
) -> None:
    """Byte by byte, in every replica of the same manifest in a namespace of the same name."""
    replicas = {
        "Chief": remembering("config", "serve", "meet", "until", "/shared/evaluator"),
        "Worker": replica("config", "serve", "sleep", "300", count=2),
        "PS": replica("config", "serve", "sleep", "300", count=2),
        "Evaluator": remembering("config", "make", "/shared/evaluator", "sleep", "300"),
    }
    manifest = [tfjob("bytes", replicas, runPolicy={"cleanPodPolicy": "None"})]
    here = Place(tool, tmp_path, everywhere=("-n", namespace), starting=("--level", "full"))
    in_process, in_pod = (lines_of(logs_of_all(place, "bytes", manifest)) for place in (here, there.place))
    assert in_process == in_pod
    assert len(in_pod) == sum(spec["replicas"] for spec in replicas.values())
    assert f".{namespace}.svc:2222" in in_pod["worker-1"][0]

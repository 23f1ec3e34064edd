"""Every version says what it can of a stored job, and nothing is lost on the way."""

from __future__ import annotations

import copy
from itertools import permutations
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.api.served_objects import VERSIONS, objects, replicas, stored
from tfjob.api.dialect import TENSORFLOW, TF_JOB
from tfjob.api.manifest.loader import load
from tfjob.api.types import API_VERSION, KIND, ORIGIN, RUNTIME_ID, UNSAID
from tfjob.api.versions.registry import to_version
from tfjob.api.versions.round_trip import ALPHA1, OLDER, converted

Object = dict[str, Any]
BETA1 = "kubeflow.org/v1beta1"
IMMUTABLE = ("name", "uid", "managedFields", "finalizers")
thorough = settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow], deadline=None)


def through(job: Object, *versions: str) -> Object:
    """The job after an API server has stored it in one version after the other."""
    for version in versions:
        before = copy.deepcopy(job)
        made = stored(converted(job, version))
        assert job == before, "the given object is not changed"
        assert made["apiVersion"] == version
        assert made["kind"] == (TF_JOB if version == TENSORFLOW else KIND)
        for name in IMMUTABLE:
            assert made["metadata"].get(name) == job["metadata"].get(name)
        job = made
    return job


PAIRS = list(permutations(VERSIONS, 2))
NAMES = {version: "tf_job" if version == TENSORFLOW else version.partition("/")[2] for version in VERSIONS}


@pytest.mark.parametrize("odd", [False, True], ids=["sound", "odd"])
@pytest.mark.parametrize(("version", "other"), PAIRS, ids=[f"{NAMES[a]}-{NAMES[b]}" for a, b in PAIRS])
def test_a_job_comes_back_from_another_version_as_it_was(version: str, other: str, odd: bool) -> None:
    @thorough
    @given(objects(version, odd=odd))
    def comes_back(job: Object) -> None:
        assert through(job, other, version) == job

    comes_back()


@thorough
@given(st.sampled_from(VERSIONS).flatmap(lambda version: objects(version, odd=True)), st.permutations(VERSIONS))
def test_a_job_comes_back_from_a_tour_of_all_versions(job: Object, tour: list[str]) -> None:
    assert through(job, *tour, job["apiVersion"]) == job


def with_worker(job: Object, **worker: Any) -> Object:
    """The job with a worker as its version has them."""
    spec = dict(job.get("spec", {}))
    if job["apiVersion"] == TENSORFLOW:
        spec.pop("replica_specs", None)  # the workers in it would go before those that are added
    if job["apiVersion"] in (ALPHA1, TENSORFLOW):
        spec["replicaSpecs"] = [*spec.get("replicaSpecs", []), {"tfReplicaType": "WORKER", **worker}]
    else:
        spec["tfReplicaSpecs"] = {**spec.get("tfReplicaSpecs", {}), "Worker": worker}
    return stored({**job, "spec": spec})


def edited(job: Object) -> Object:
    """The job after somebody has changed the number of its workers and put a label on it."""
    made: Object = copy.deepcopy(job)
    spec = made["spec"]
    (worker,) = [
        *(one for one in spec.get("replicaSpecs", []) if one.get("tfReplicaType") == "WORKER"),
        *(replica for kind, replica in spec.get("tfReplicaSpecs", {}).items() if kind == "Worker"),
    ]
    worker["replicas"] = 7
    made["metadata"]["labels"] = {"edited": "yes"}
    return made


@pytest.mark.parametrize("older", OLDER)
def test_an_edit_in_an_older_version_changes_nothing_else_of_a_job(older: str) -> None:
    @thorough
    @given(objects(API_VERSION, odd=False, types=("PS", "Chief", "Evaluator")), replicas(odd=False))
    def stays(job: Object, worker: Object) -> None:
        job = with_worker(job, **worker)
        assert through(edited(through(job, older)), API_VERSION) == edited(job)

    stays()


@pytest.mark.parametrize("older", [*OLDER, TENSORFLOW])
def test_an_edit_in_v1_changes_nothing_else_of_an_older_job(older: str) -> None:
    @thorough
    @given(objects(older, odd=False, types=("PS", "MASTER")))
    def stays(job: Object) -> None:
        job = with_worker(job, replicas=2)
        assert through(edited(through(job, API_VERSION)), older) == edited(job)

    stays()


TEMPLATE = {"spec": {"containers": [{"name": "tensorflow", "image": "example.com/train:1"}], "restartPolicy": "Never"}}


def job(version: str, spec: Object, **others: Any) -> Object:
    kind = TF_JOB if version == TENSORFLOW else KIND
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "job", "uid": "1"}, "spec": spec, **others}


def test_a_job_of_v1alpha1_is_stored_as_v1_says_it() -> None:
    older = job(
        ALPHA1,
        {
            "RuntimeId": "76no",
            "replicaSpecs": [
                {"tfReplicaType": "MASTER", "replicas": 1, "tfPort": 3333, "template": TEMPLATE},
                {"tfReplicaType": "PS", "replicas": 2},
            ],
            "tensorboard": {"logDir": "/logs"},
        },
    )
    made = through(older, API_VERSION)
    port = {"name": "tfjob-port", "containerPort": 3333}
    container = {**TEMPLATE["spec"]["containers"][0], "ports": [port]}  # type: ignore[dict-item]
    assert made["spec"] == {
        "tfReplicaSpecs": {
            "Master": {"replicas": 1, "template": {"spec": {"containers": [container], "restartPolicy": "Never"}}},
            "PS": {"replicas": 2},
        },
        "tensorBoard": {"logDir": "/logs"},
        "terminationPolicy": {"chief": {"replicaName": "Master"}},
        "runPolicy": {"suspend": False},
    }
    annotations = made["metadata"]["annotations"]
    assert annotations[ORIGIN] == ALPHA1
    assert annotations[RUNTIME_ID] == "76no"
    assert len(annotations[UNSAID]) < 150, "only that there was no termination policy"


def test_a_job_of_v1beta1_has_its_policies_under_run_policy_and_needs_no_note() -> None:
    replicas = {"Worker": {"replicas": 2, "template": TEMPLATE}}
    made = through(job(BETA1, {"cleanPodPolicy": "All", "tfReplicaSpecs": replicas}), API_VERSION)
    assert made["spec"] == {"tfReplicaSpecs": replicas, "runPolicy": {"cleanPodPolicy": "All", "suspend": False}}
    assert made["metadata"]["annotations"] == {ORIGIN: BETA1}


def test_spellings_of_v1alpha1_are_understood_and_come_back() -> None:
    older = job(ALPHA1, {"runtimeId": "abcd", "replica_specs": [{"tf_port": 4444, "template": TEMPLATE}]})
    stored_job = through(older, API_VERSION)
    master = stored_job["spec"]["tfReplicaSpecs"]["Master"]
    assert master["template"]["spec"]["containers"][0]["ports"] == [{"name": "tfjob-port", "containerPort": 4444}]
    assert stored_job["metadata"]["annotations"][RUNTIME_ID] == "abcd"
    master["replicas"] = 3
    assert through(stored_job, ALPHA1)["spec"] == {
        "runtimeId": "abcd",
        "replica_specs": [{"tf_port": 4444, "template": TEMPLATE, "replicas": 3}],
    }


def test_replicas_keep_their_order() -> None:
    """An API server stores the keys of a mapping in alphabetical order."""
    older = job(ALPHA1, {"replicaSpecs": [{"tfReplicaType": kind} for kind in ("WORKER", "PS", "MASTER")]})
    made = through(older, API_VERSION)
    assert [one["tfReplicaType"] for one in through(made, ALPHA1)["spec"]["replicaSpecs"]] == ["WORKER", "PS", "MASTER"]


def test_a_chief_is_a_master_of_v1alpha1_and_stays_a_chief() -> None:
    """An evaluator, which v1alpha1 has not, is not shown there and stays too."""
    spec = {"tfReplicaSpecs": {"Chief": {"template": TEMPLATE}, "Evaluator": {}}, "successPolicy": "AllWorkers"}
    shown = through(job(API_VERSION, spec), ALPHA1)
    assert shown["spec"] == {"replicaSpecs": [{"tfReplicaType": "MASTER", "template": TEMPLATE}]}
    shown["spec"]["replicaSpecs"][0]["replicas"] = 1
    made = through(shown, API_VERSION)["spec"]
    assert made == {**spec, "tfReplicaSpecs": {"Chief": {"template": TEMPLATE, "replicas": 1}, "Evaluator": {}}}


def test_each_version_has_the_status_in_its_own_shape() -> None:
    status = {
        "state": "Running",
        "attempt": 1,
        "ready": "1/1",
        "conditions": [{"type": "Running", "status": "True"}],
        "replicaStatuses": {"Worker": {"active": 1}},
    }
    stored_job = job(API_VERSION, {"tfReplicaSpecs": {"Worker": {}}}, status=status)
    unsaid = {"state": "Running", "attempt": 1, "ready": "1/1"}
    shapes = {
        BETA1: {"conditions": status["conditions"], "replicaStatuses": status["replicaStatuses"], "details": unsaid},
        "kubeflow.org/v1alpha2": {
            "conditions": status["conditions"],
            "tfReplicaStatuses": status["replicaStatuses"],
            "details": unsaid,
        },
        ALPHA1: {
            "phase": "Running",
            "reason": "",
            "state": "Running",
            "conditions": None,
            "controlPaused": False,
            "replicaStatuses": [{"tf_replica_type": "WORKER", "state": "Running", "ReplicasStates": {"Running": 1}}],
            "details": status,
        },
    }
    assert {version: through(stored_job, version)["status"] for version in shapes} == shapes


@pytest.mark.parametrize("older", OLDER)
def test_a_client_that_drops_annotations_does_not_take_the_operators_memory(older: str) -> None:
    """An API server keeps the status of an object that is replaced; its annotations are the client's."""
    status = {"state": "Running", "attempt": 2, "completedIndexes": {"Worker": "0"}}
    stored_job = job(API_VERSION, {"tfReplicaSpecs": {"Worker": {}}, "successPolicy": "AllWorkers"}, status=status)
    shown = through(stored_job, older)
    del shown["metadata"]["annotations"]
    assert through(shown, API_VERSION)["status"] == status


def test_a_note_that_is_none_of_ours_is_left_alone() -> None:
    older = job(BETA1, {"tfReplicaSpecs": {}})
    older["metadata"]["annotations"] = {UNSAID: "not ours"}
    assert through(older, API_VERSION)["metadata"]["annotations"][UNSAID] == "not ours"


@pytest.mark.parametrize("alpha1", [ALPHA1, TENSORFLOW])
def test_the_port_of_a_default_parameter_server_is_an_annotation_of_v1(alpha1: str) -> None:
    older = job(alpha1, {"replicaSpecs": [{"tfReplicaType": "PS", "replicas": 1, "tfPort": 3333}]})
    stored_job = through(older, API_VERSION)
    assert stored_job["metadata"]["annotations"]["tfjob/ps-port"] == "3333"
    stored_job["metadata"]["annotations"]["tfjob/ps-port"] = "4444"
    shown = through(stored_job, alpha1)
    assert shown["spec"]["replicaSpecs"][0]["tfPort"] == 4444
    assert "tfjob/ps-port" not in shown["metadata"].get("annotations", {})


@pytest.mark.parametrize("alpha1", [ALPHA1, TENSORFLOW])
def test_the_chief_is_found_in_any_spelling(alpha1: str) -> None:
    older = job(alpha1, {"terminationPolicy": {"Chief": {"ReplicaName": "WORKER", "replicaindex": 1}}})
    made = through(older, API_VERSION)
    assert made["spec"]["terminationPolicy"] == {"chief": {"replicaName": "Worker", "replicaIndex": 1}}
    assert through(made, alpha1) == older


def test_what_was_applied_to_a_tf_job_goes_before_what_the_operator_wrote_into_it() -> None:
    """`kubectl apply` adds the user's spelling again; a manifest of kubeflow.org has only one of them."""
    worker = {"tfReplicaType": "WORKER", "template": TEMPLATE}
    spec = {
        "RuntimeId": "ab12",
        "replicaSpecs": [{**worker, "replicas": 1}],
        "replica_specs": [{**worker, "replicas": 3}],
        "tensorboard": {"logDir": "/old", "logdir": "/new", "serviceType": "ClusterIP"},
    }
    applied = job(TENSORFLOW, spec)
    made = through(applied, API_VERSION)
    assert made["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 3
    assert made["spec"]["tensorBoard"]["logDir"] == "/new"
    assert through(made, TENSORFLOW) == stored(applied)
    made["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = 5
    assert through(made, TENSORFLOW)["spec"]["replica_specs"] == [{**worker, "replicas": 5}]
    for other in (job(ALPHA1, spec), job(TENSORFLOW, {**spec, "RuntimeId": ""})):
        assert through(other, API_VERSION)["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 1


SERVER = {
    "name": "tensorflow",
    "image": "tf:1",
    "volumeMounts": [{"name": "ps-config-volume", "mountPath": "/ps-server"}],
}


@pytest.mark.parametrize("alpha1", [ALPHA1, TENSORFLOW])
@pytest.mark.parametrize(
    ("server", "pod", "kept"),
    [
        ({}, {}, False),
        ({"resources": {}, "ports": None}, {"volumes": []}, False),
        ({"image": "tf:2"}, {}, True),
        ({"env": [{"name": "A", "value": "1"}]}, {}, True),
        ({"resources": {"limits": {"cpu": "1"}}}, {}, True),
        ({}, {"nodeSelector": {"disk": "ssd"}}, True),
    ],
    ids=["as written", "with empty fields", "image", "env", "resources", "selector"],
)
def test_the_template_of_a_default_parameter_server_is_kept_once_it_is_edited(
    alpha1: str, server: Object, pod: Object, kept: bool
) -> None:
    template = {"spec": {"containers": [{**SERVER, **server}], "restartPolicy": "OnFailure", **pod}}
    replica = {"tfReplicaType": "PS", "replicas": 1, "IsDefaultPS": True, "template": template}
    older = job(alpha1, {"tfImage": "tf:1", "replicaSpecs": [replica]})
    made = through(older, API_VERSION)
    assert made["spec"]["tfReplicaSpecs"]["PS"] == {"replicas": 1, **({"template": template} if kept else {})}
    assert through(made, alpha1) == stored(older)


# --- a manifest that was read from a cluster in an older version runs as the job that the cluster had -----------------

SHORT_TEMPLATE = {"spec": {"containers": [{"name": "tensorflow", "image": "example.com/train:1"}]}}
STORED: dict[str, Any] = {
    "apiVersion": API_VERSION,
    "kind": "TFJob",
    "metadata": {"name": "old", "namespace": "team"},
    "spec": {
        "successPolicy": "AllWorkers",
        "restartScope": "Task",
        "tfReplicaSpecs": {
            "Master": {"replicas": 1, "template": SHORT_TEMPLATE},
            "Worker": {"replicas": 2, "template": SHORT_TEMPLATE},
        },
    },
}


@pytest.mark.parametrize("older", [*OLDER, TENSORFLOW])
def test_what_the_annotation_says_counts(older: str) -> None:
    shown = converted(STORED, older)
    assert "restartScope" not in shown["spec"]
    manifest = load(yaml.safe_dump(shown))
    assert manifest.errors == []
    (entry,) = manifest.entries
    assert (entry.written.spec.restart_scope, entry.written.spec.success_policy) == ("Task", "AllWorkers")
    assert entry.written.spec.tf_replica_specs["Worker"].replicas == 2
    sent, _ = to_version(entry.written, API_VERSION)
    assert sent["spec"]["restartScope"] == "Task"


def test_an_edit_wins_over_the_annotation_and_a_fault_has_its_place() -> None:
    shown = converted(STORED, "kubeflow.org/v1alpha1")
    worker = next(one for one in shown["spec"]["replicaSpecs"] if one["tfReplicaType"] == "WORKER")
    worker["replicas"] = 5
    assert load(yaml.safe_dump(shown)).jobs[0].spec.tf_replica_specs["Worker"].replicas == 5
    worker["replicas"] = -1
    (problem,) = load(yaml.safe_dump(shown)).errors
    assert problem.path == f"spec.replicaSpecs[{shown['spec']['replicaSpecs'].index(worker)}].replicas"
    assert problem.line > 1


def test_an_annotation_that_adds_nonsense_is_refused_by_its_name() -> None:
    shown = converted(STORED, "kubeflow.org/v1beta1")
    notes = shown["metadata"]["annotations"]
    assert '"Task"' in notes[UNSAID]
    notes[UNSAID] = notes[UNSAID].replace('"Task"', "7")
    (problem,) = load(yaml.safe_dump(shown)).errors
    assert problem.path == 'metadata.annotations["tfjob/unsaid"]'
    assert "spec.restartScope" in problem.message


def test_a_manifest_of_another_version_is_written_without_it() -> None:
    (entry,) = load(yaml.safe_dump(converted(STORED, "kubeflow.org/v1alpha1"))).entries
    written, left_out = to_version(entry.written, "kubeflow.org/v1beta1")
    assert UNSAID not in written["metadata"].get("annotations", {})
    assert "spec.restartScope" in {problem.path for problem in left_out}

"""The TensorBoard of a job: its objects, when they are made, and what leaves them alone."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from support.plan.builders import after, at, begun, deleted, job, pod, running, services, template
from tfjob.api.names import tensorboard_name
from tfjob.api.objects import NEEDED_MODULE, Deployment, Pod, Service
from tfjob.api.servers import TENSORBOARD_PROGRAM
from tfjob.api.types import RUNTIME_ID, TensorBoard, TFJob, TFJobStatus
from tfjob.controller.actions import Create
from tfjob.controller.kind import Observation
from tfjob.plan.build.settings import TENSORBOARD_IMAGE, Settings
from tfjob.plan.build.tensorboard import deployment, service
from tfjob.plan.plan import JobPlan, plan

DOCUMENT: dict[str, Any] = {"origin": "tensorflow.org/v1alpha1", "annotations": {RUNTIME_ID: "pj6i"}}
BOARD = TensorBoard(
    log_dir="/tmp/tensorflow/training_summaries",
    volumes=[{"name": "share", "persistentVolumeClaim": {"claimName": "results"}}],
    volume_mounts=[{"name": "share", "mountPath": "/tmp/tensorflow"}],
)


def with_board(board: TensorBoard = BOARD, **given: Any) -> TFJob:
    return job(tensor_board=board, **{"worker": 1, **given})


def container(owner: TFJob, settings: Settings | None = None) -> dict[str, Any]:
    (only,) = deployment(owner, settings or Settings()).spec["template"]["spec"]["containers"]
    return dict(only)


def standing(owner: TFJob) -> tuple[Deployment, Service]:
    """Both objects as a cluster shows them."""
    made = deployment(owner, Settings()), service(owner, Settings())
    return (
        replace(made[0], metadata=replace(made[0].metadata, uid="deployment-uid"), spec={}),
        replace(made[1], metadata=replace(made[1].metadata, uid="service-uid"), spec={}),
    )


def look(owner: TFJob, pods: Any = (), board: tuple[Deployment, Service] | None = None, second: float = 2) -> JobPlan:
    """A pass that sees the services of all replicas and, if given, the TensorBoard."""
    beside = [board[1]] if board else []
    seen = Observation(
        {
            Pod: [one.pod for one in pods],
            Service: [*services(owner), *beside],
            Deployment: [board[0]] if board else [],
        }
    )
    return plan(owner, seen, at(second))


def made(outcome: JobPlan) -> set[tuple[str, str]]:
    """What a pass creates in addition to the pods and Services of the replicas."""
    found = {(a.child.kind, a.child.metadata.name) for a in outcome.actions if isinstance(a, Create)}
    return {(kind, name) for kind, name in found if "tensorboard" in name}


def removed(outcome: JobPlan) -> list[str]:
    return [*deleted(outcome, "Deployment"), *(name for name in deleted(outcome, "Service") if "tensorboard" in name)]


# --- the objects ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "name", "labels"),
    [
        (with_board(), "mnist-tensorboard", {"kubeflow.org": "", "app": "tensorboard", "tf_job_name": "mnist"}),
        (
            with_board(origin="kubeflow.org/v1beta1"),
            "mnist-tensorboard",
            {"kubeflow.org": "", "app": "tensorboard", "tf_job_name": "mnist"},
        ),
        (
            with_board(master=1, **DOCUMENT),
            "tensorboard-pj6i",
            {"tensorflow.org": "", "app": "tensorboard", "tf_job_name": "mnist", "runtime_id": "pj6i"},
        ),
    ],
    ids=["v1", "v1beta1", "tensorflow.org"],
)
def test_names_and_labels_are_those_of_the_version(owner: TFJob, name: str, labels: dict[str, str]) -> None:
    server, address = deployment(owner, Settings()), service(owner, Settings())
    assert server.metadata.name == address.metadata.name == tensorboard_name(owner) == name
    assert server.spec["selector"]["matchLabels"] == server.spec["template"]["metadata"]["labels"] == labels
    assert address.spec["selector"] == labels
    assert labels.items() <= server.metadata.labels.items()
    assert labels.items() <= address.metadata.labels.items()
    for child in (server, address):
        (owned_by,) = child.metadata.owner_references
        assert (owned_by.uid, owned_by.controller) == ("job-uid", True)


def test_pods_do_not_carry_the_labels_by_which_replicas_are_found() -> None:
    labels = deployment(with_board(), Settings()).spec["template"]["metadata"]["labels"]
    assert not [name for name in labels if name.startswith("training.kubeflow.org/")]


def test_the_server_shows_the_log_folder_through_its_own_volumes() -> None:
    pod_spec = deployment(with_board(), Settings()).spec["template"]["spec"]
    assert pod_spec["volumes"] == BOARD.volumes
    assert container(with_board())["volumeMounts"] == BOARD.volume_mounts
    words = container(with_board())["command"]
    assert words[:3] == ["tensorboard", "--logdir", "/tmp/tensorflow/training_summaries"]


def test_the_image_is_ours_unless_the_job_names_one_and_tf_image_does_not_matter() -> None:
    assert container(with_board(tf_image="tensorflow/tensorflow:1.3.0"))["image"] == TENSORBOARD_IMAGE
    assert container(with_board(), Settings(tensorboard_image="example.com/tb:2"))["image"] == "example.com/tb:2"
    own = replace(BOARD, image="example.com/own:1")
    assert container(with_board(own), Settings(tensorboard_image="example.com/tb:2"))["image"] == "example.com/own:1"


@pytest.mark.parametrize("given", ["", "ClusterIP", "NodePort", "LoadBalancer"])
def test_port_80_leads_to_the_server_in_a_service_of_the_type_that_the_job_names(given: str) -> None:
    address = service(with_board(replace(BOARD, service_type=given)), Settings())
    assert address.spec["type"] == (given or "ClusterIP")
    assert address.spec["ports"] == [{"name": "tb-port", "port": 80, "targetPort": 6006}]
    assert container(with_board())["ports"] == [{"name": "tb-port", "containerPort": 6006}]


def test_the_pod_fits_the_restricted_standard_and_is_watched() -> None:
    pod_spec, only = deployment(with_board(), Settings()).spec["template"]["spec"], container(with_board())
    context = {**pod_spec["securityContext"], **only["securityContext"]}
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] != 0
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= only.keys()
    assert pod_spec.get("restartPolicy", "Always") == "Always"


def test_it_reads_an_object_store_as_the_replica_that_speaks_for_the_job() -> None:
    env = [
        {"name": "AWS_ACCESS_KEY_ID", "valueFrom": {"secretKeyRef": {"name": "s3", "key": "id"}}},
        {"name": "S3_ENDPOINT", "value": "minio:9000"},
        {"name": "BATCH_SIZE", "value": "32"},
    ]
    trainer = template(env=env, envFrom=[{"secretRef": {"name": "store"}}])
    trainer["spec"] |= {"serviceAccountName": "reader", "imagePullSecrets": [{"name": "registry"}]}
    stored = with_board(TensorBoard(log_dir="s3://bucket/runs"), pod_template=trainer)
    pod_spec = deployment(stored, Settings()).spec["template"]["spec"]
    assert pod_spec["serviceAccountName"] == "reader"
    assert pod_spec["imagePullSecrets"] == [{"name": "registry"}]
    assert container(stored)["env"] == env[:2]
    assert container(stored)["envFrom"] == [{"secretRef": {"name": "store"}}]

    on_a_volume = container(with_board(pod_template=trainer))
    assert not {"env", "envFrom"} & on_a_volume.keys(), "a folder of a volume needs no credentials"


# --- when -------------------------------------------------------------------------------------------------------------


BOTH = {("Deployment", "mnist-tensorboard"), ("Service", "mnist-tensorboard")}


def test_it_is_made_in_the_first_pass_once() -> None:
    owner = with_board()
    first = plan(owner, Observation(), at(0))
    assert made(first) == BOTH
    second = look(after(owner, first), running(after(owner, first)), standing(owner))
    assert made(second) == set()
    assert removed(second) == []


def test_a_job_without_one_gets_none() -> None:
    assert made(plan(job(worker=1), Observation(), at(0))) == set()


def test_a_job_that_is_refused_gets_none() -> None:
    assert made(plan(with_board(TensorBoard()), Observation(), at(0))) == set()


@pytest.mark.parametrize("policy", ["All", "Running", "None"])
@pytest.mark.parametrize("code", [0, 1])
def test_it_runs_on_when_the_job_ends_whatever_is_cleaned_up(policy: str, code: int) -> None:
    owner = begun(with_board(run={"clean_pod_policy": policy}))
    board = standing(owner)
    ended = look(owner, [pod(owner, "worker-0").running().exited(code, at=5)], board, second=30)
    assert ended.status.state in ("Succeeded", "Failed")
    later = look(after(owner, ended), board=board, second=60)
    for outcome in (ended, later):
        assert removed(outcome) == []


def test_what_somebody_deleted_comes_back_also_after_the_end() -> None:
    owner = begun(with_board())
    assert made(look(owner, running(owner))) == BOTH
    ended = after(owner, look(owner, [pod(owner, "worker-0").running().exited(0, at=5)], second=30))
    assert ended.status.state == "Succeeded"
    assert made(look(ended, second=60)) == BOTH


def test_suspending_a_job_leaves_it_alone_and_one_that_never_started_has_none() -> None:
    waiting = with_board(run={"suspend": True})
    assert made(plan(waiting, Observation(), at(0))) == set()
    owner = begun(with_board())
    stopped = replace(owner, spec=replace(owner.spec, run_policy=replace(owner.spec.run_policy, suspend=True)))
    outcome = look(stopped, running(owner), standing(owner))
    assert deleted(outcome) == ["mnist-worker-0"]
    assert removed(outcome) == []


def test_an_edit_replaces_what_it_changes_and_nothing_else() -> None:
    owner = begun(with_board())
    edited = replace(owner, spec=replace(owner.spec, tensor_board=replace(BOARD, log_dir="/tmp/tensorflow/other")))
    outcome = look(edited, running(owner), standing(owner))
    assert removed(outcome) == ["mnist-tensorboard"]
    assert deleted(outcome, "Deployment") == ["mnist-tensorboard"]
    assert made(outcome) == set(), "its name is not free yet"


@pytest.mark.parametrize(
    ("change", "replaced"),
    [
        ({"image": "example.com/own:1"}, "Deployment"),
        ({"volumes": []}, "Deployment"),
        ({"volume_mounts": []}, "Deployment"),
        ({"service_type": "NodePort"}, "Service"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_edit_of_any_field_replaces_the_object_that_it_is_about(change: dict[str, Any], replaced: str) -> None:
    owner = begun(with_board())
    edited = replace(owner, spec=replace(owner.spec, tensor_board=replace(BOARD, **change)))
    outcome = look(edited, running(owner), standing(owner))
    assert deleted(outcome, replaced) == ["mnist-tensorboard"]
    assert len(removed(outcome)) == 1


def test_another_identity_of_the_training_replaces_it_and_a_variable_only_if_it_reads_a_store_with_that() -> None:
    def edited(board: TensorBoard, given: dict[str, Any]) -> list[str]:
        trainer = template(env=given.pop("env", []))
        trainer["spec"] |= given
        before, after_it = begun(with_board(board)), begun(with_board(board, pod_template=trainer))
        return removed(look(after_it, running(after_it), standing(before)))

    key = [{"name": "AWS_ACCESS_KEY_ID", "value": "other"}]
    assert edited(BOARD, {"serviceAccountName": "reader"}) == ["mnist-tensorboard"]
    assert edited(TensorBoard(log_dir="s3://bucket/runs"), {"env": key}) == ["mnist-tensorboard"]
    assert edited(BOARD, {"env": key}) == []


def test_an_operator_with_another_default_image_leaves_it_alone_and_makes_new_ones_with_that() -> None:
    newer = Settings(tensorboard_image="example.com/tb:2")
    owner = begun(with_board())
    server, address = standing(owner)
    seen = Observation(
        {
            Pod: [one.pod for one in running(owner)],
            Service: [*services(owner), address],
            Deployment: [server],
        }
    )
    outcome = plan(owner, seen, at(2), newer)
    assert removed(outcome) == []
    assert made(outcome) == set()
    assert container(owner, newer)["image"] == "example.com/tb:2"


def test_an_image_of_the_job_is_started_with_what_every_tensorboard_understands() -> None:
    """`--bind_all` came with 1.15."""
    assert "--bind_all" in container(with_board())["command"]
    words = container(with_board(replace(BOARD, image="tensorflow/tensorflow:1.3.0")))["command"]
    assert "--bind_all" not in words
    assert words[words.index("--host") + 1] == "0.0.0.0"


def test_a_job_that_no_longer_asks_for_it_loses_it() -> None:
    owner = begun(with_board())
    edited = replace(owner, spec=replace(owner.spec, tensor_board=None))
    assert removed(look(edited, running(owner), standing(owner))) == ["mnist-tensorboard", "mnist-tensorboard"]


def test_a_job_that_is_being_deleted_is_left_to_the_garbage_collector() -> None:
    owner = begun(with_board())
    going = replace(owner, metadata=replace(owner.metadata, deletion_timestamp=at(1)))
    assert look(going, running(owner)).actions == ()
    assert look(replace(going, status=TFJobStatus())).actions == ()


# --- on this machine --------------------------------------------------------------------------------------------------

HERE = Settings(local_tensorboard=True)


def here(owner: TFJob, pods: Any = ()) -> JobPlan:
    """A pass on this machine that sees its TensorBoard."""
    server, address = deployment(owner, HERE), service(owner, HERE)
    seen = Observation({Pod: [one.pod for one in pods], Service: [*services(owner), address], Deployment: [server]})
    return plan(owner, seen, at(30), HERE)


def test_on_this_machine_it_is_a_program_of_an_interpreter_that_has_it() -> None:
    template = deployment(with_board(), HERE).spec["template"]
    assert template["metadata"]["annotations"] == {NEEDED_MODULE: "tensorboard"}
    only = container(with_board(replace(BOARD, image="tensorflow/tensorflow:1.3.0")), HERE)
    assert only["command"][:3] == ["python", "-c", TENSORBOARD_PROGRAM]
    assert only["volumeMounts"] == BOARD.volume_mounts
    assert service(with_board(), HERE).spec["ports"][0]["port"] >= 1024


def test_on_this_machine_it_ends_with_its_job() -> None:
    owner = begun(with_board())
    assert removed(here(owner, running(owner))) == []
    done = here(owner, [pod(owner, "worker-0").running().exited(0, at=5)])
    assert done.status.state == "Succeeded"
    assert removed(done) == ["mnist-tensorboard"] * 2
    stopped = replace(owner, spec=replace(owner.spec, run_policy=replace(owner.spec.run_policy, suspend=True)))
    assert removed(here(stopped)) == ["mnist-tensorboard"] * 2
    assert made(plan(after(owner, done), Observation({Service: services(owner)}), at(60), HERE)) == set()

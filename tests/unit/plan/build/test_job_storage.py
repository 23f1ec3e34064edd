from __future__ import annotations

import copy
from typing import Any

import pytest
from msgspec.structs import replace

from support.plan.builders import job, task, template
from tfjob.api.objects import JOB_FOLDERS
from tfjob.api.types import ReplicaSpec
from tfjob.plan.build.pods import pod
from tfjob.plan.build.settings import Settings

CLUSTER, LAPTOP = Settings(), Settings(storage_for_all=True)
CLAIM = {"name": "tfjob-data", "persistentVolumeClaim": {"claimName": "big-disk"}}
MOUNT = {"name": "tfjob-data", "mountPath": "/data"}
ON_DATA = {
    "TFJOB_CHECKPOINT_DIR": "/data/checkpoints",
    "TFJOB_OUTPUT_DIR": "/data/output",
    "TFJOB_SCRATCH_DIR": "/data/scratch/worker-1",
}
ADDED = {name: value.replace("/data/", "/tfjob-data/") for name, value in ON_DATA.items()}


def stored(**container: Any) -> dict[str, Any]:
    """A template that names the volume and mounts it at /data."""
    made = template(**{"volumeMounts": [MOUNT], **container})
    made["spec"]["volumes"] = [CLAIM]
    return made


def spec_of(own: dict[str, Any], settings: Settings, name: str = "worker-1", **shape: Any) -> dict[str, Any]:
    before = copy.deepcopy(own)
    made = pod(job(**{"worker": 2, **shape}, pod_template=own), task(name), 1, settings).spec
    assert own == before, "the template is the user's: it is never changed"
    return made


def told(container: dict[str, Any]) -> dict[str, str]:
    """The variables of a container that are ours, those with a plain value."""
    return {
        one["name"]: one["value"] for one in container.get("env") or () if one["name"] in JOB_FOLDERS and "value" in one
    }


@pytest.mark.parametrize("settings", [CLUSTER, LAPTOP])
@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({}, ON_DATA),
        ({"volumeMounts": [{**MOUNT, "mountPath": "/data/"}]}, ON_DATA),
        ({"volumeMounts": [{**MOUNT, "subPath": "mnist"}]}, ON_DATA),
        (
            {"volumeMounts": [{**MOUNT, "readOnly": True}]},
            {name: value for name, value in ON_DATA.items() if name != "TFJOB_SCRATCH_DIR"},
        ),
        ({"volumeMounts": [MOUNT, {**MOUNT, "mountPath": "/again"}]}, ON_DATA),
        ({"env": [{"name": "TFJOB_OUTPUT_DIR", "value": "/mine"}]}, {**ON_DATA, "TFJOB_OUTPUT_DIR": "/mine"}),
        (
            {"env": [{"name": "TFJOB_OUTPUT_DIR", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]},
            {name: value for name, value in ON_DATA.items() if name != "TFJOB_OUTPUT_DIR"},
        ),
    ],
)
def test_where_the_volume_is_mounted_a_replica_finds_its_folders(
    settings: Settings, container: dict[str, Any], expected: dict[str, str]
) -> None:
    """The same on both backends, and what the manifest sets itself counts more."""
    made = spec_of(stored(**container), settings)
    assert told(made["containers"][0]) == expected
    assert made["volumes"] == [CLAIM]


def test_the_manifests_variables_can_refer_to_ours() -> None:
    own = [{"name": "MODEL", "value": "$(TFJOB_OUTPUT_DIR)/model"}]
    env = spec_of(stored(env=own), CLUSTER)["containers"][0]["env"]
    assert [one["name"] for one in env] == [*JOB_FOLDERS, "MODEL", "TF_CONFIG"]


def test_what_env_from_brings_counts_more() -> None:
    """Each source is asked for the variable, behind our value; where it has none, ours stays."""
    sources = [
        {"configMapRef": {"name": "plain"}},
        {"prefix": "TFJOB_", "secretRef": {"name": "short"}},
        {"prefix": "OTHER_", "configMapRef": {"name": "unlike"}},
    ]
    env = spec_of(stored(envFrom=sources), CLUSTER)["containers"][0]["env"]
    assert env[:3] == [
        {"name": "TFJOB_CHECKPOINT_DIR", "value": "/data/checkpoints"},
        {
            "name": "TFJOB_CHECKPOINT_DIR",
            "valueFrom": {"configMapKeyRef": {"name": "plain", "key": "TFJOB_CHECKPOINT_DIR", "optional": True}},
        },
        {
            "name": "TFJOB_CHECKPOINT_DIR",
            "valueFrom": {"secretKeyRef": {"name": "short", "key": "CHECKPOINT_DIR", "optional": True}},
        },
    ]
    assert len(env) == 10


@pytest.mark.parametrize(
    "own",
    [
        template(),
        template(volumeMounts=[{"name": "other", "mountPath": "/data"}]),
        {"spec": {**template()["spec"], "volumes": [CLAIM]}},
    ],
    ids=["no volume", "another volume", "a volume that nobody mounts"],
)
def test_on_a_cluster_a_job_without_the_volume_gets_nothing(own: dict[str, Any]) -> None:
    """Its pods are what they were before there was such a volume."""
    made = spec_of(own, CLUSTER)
    assert told(made["containers"][0]) == {}
    assert made.get("volumes") == own["spec"].get("volumes")
    assert made["containers"][0].get("volumeMounts") == own["spec"]["containers"][0].get("volumeMounts")


def test_on_a_laptop_a_job_without_the_volume_has_a_claim_of_its_own() -> None:
    made = spec_of(template(), LAPTOP)
    assert told(made["containers"][0]) == ADDED
    assert made["containers"][0]["volumeMounts"] == [{"name": "tfjob-data", "mountPath": "/tfjob-data"}]
    assert made["volumes"] == [{"name": "tfjob-data", "persistentVolumeClaim": {"claimName": "mnist-tfjob-data"}}]


def test_an_added_mount_takes_nobodys_place() -> None:
    other = {"name": "other", "mountPath": "/tfjob-data/"}
    made = spec_of(template(volumeMounts=[other]), LAPTOP)["containers"][0]
    assert made["volumeMounts"] == [other, {"name": "tfjob-data", "mountPath": "/tfjob-data-2"}]
    assert told(made)["TFJOB_OUTPUT_DIR"] == "/tfjob-data-2/output"


def test_a_volume_that_nobody_mounts_is_mounted_on_a_laptop() -> None:
    made = spec_of({"spec": {**template()["spec"], "volumes": [CLAIM]}}, LAPTOP)
    assert made["volumes"] == [CLAIM]
    assert told(made["containers"][0]) == ADDED


@pytest.mark.parametrize("own", [None, template()], ids=["a default parameter server", "a server of the user's"])
def test_on_a_laptop_a_replica_without_the_volume_shares_that_of_the_others(own: dict[str, Any] | None) -> None:
    owner = job(chief=1, ps=1, pod_template=stored(volumeMounts=[{**MOUNT, "readOnly": True}]))
    replicas = {**owner.spec.tf_replica_specs, "PS": ReplicaSpec(replicas=1, template=own)}
    owner = replace(owner, spec=replace(owner.spec, tf_replica_specs=replicas))
    made = pod(owner, task("ps-0"), 1, LAPTOP).spec
    assert CLAIM in made["volumes"]
    assert MOUNT in made["containers"][0]["volumeMounts"]
    assert told(made["containers"][0])["TFJOB_SCRATCH_DIR"] == "/data/scratch/ps-0"
    assert told(pod(owner, task("ps-0"), 1, CLUSTER).spec["containers"][0]) == {}


def test_containers_beside_the_program_are_told_where_they_mount_it() -> None:
    own = stored()
    own["spec"]["initContainers"] = [{"name": "prepare", "volumeMounts": [{**MOUNT, "mountPath": "/put"}]}]
    own["spec"]["containers"].append({"name": "sidecar"})
    made = spec_of(own, LAPTOP)
    assert told(made["initContainers"][0])["TFJOB_CHECKPOINT_DIR"] == "/put/checkpoints"
    assert told(made["containers"][1]) == {}

"""What a pod gets that asks for an accelerator."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from support.golden import Wording
from support.plan.builders import after, job, see, task, template
from tfjob.controller.actions import Event
from tfjob.plan.build.accelerators import Accelerator, HostVolume, equipped
from tfjob.plan.build.pods import pod
from tfjob.plan.build.settings import Settings

OLD, NEW = "alpha.kubernetes.io/nvidia-gpu", "nvidia.com/gpu"
LIB = HostVolume("lib", "/usr/lib/driver", "/usr/lib/nvidia")
PATH = "LD_LIBRARY_PATH"
CONFIG = {OLD: Accelerator([LIB], {PATH: "/usr/lib/nvidia"})}
INJECTED_VOLUME = {"name": "lib", "hostPath": {"path": "/usr/lib/driver"}}
INJECTED_MOUNT = {"name": "lib", "mountPath": "/usr/lib/nvidia"}
INJECTED_VARIABLE = {"name": PATH, "value": "/usr/lib/nvidia"}

Object = dict[str, Any]


def spec(resources: Object | None = None, *, volumes: list[Object] | None = None, **container: Any) -> Object:
    """A pod with a sidecar that stands first."""
    own = {"name": "tensorflow", "resources": {"limits": {OLD: 1}} if resources is None else resources, **container}
    return {"containers": [{"name": "sidecar"}, own], **({"volumes": volumes} if volumes is not None else {})}


@pytest.mark.parametrize(
    "resources",
    [
        {"limits": {OLD: 1}},
        {"requests": {OLD: 1}},
        {"limits": {OLD: 2, "cpu": 1}, "requests": {OLD: 2}},
        {"limits": {OLD: 0}},
    ],
    ids=["limits", "requests", "both", "none of it"],
)
def test_a_resource_in_limits_or_requests_brings_its_volumes_mounts_and_variables_once(resources: Object) -> None:
    made, kept = equipped(spec(resources), CONFIG)
    sidecar, training = made["containers"]
    assert made["volumes"] == [INJECTED_VOLUME]
    assert (training["volumeMounts"], training["env"]) == ([INJECTED_MOUNT], [INJECTED_VARIABLE])
    assert training["resources"] == resources
    assert sidecar == {"name": "sidecar"}
    assert kept == []


@pytest.mark.parametrize("resources", [{}, {"limits": {NEW: 1}}, {"limits": None}])
def test_a_pod_that_asks_for_nothing_in_the_configuration_stays_as_it_is(resources: Object) -> None:
    given = spec(resources)
    assert equipped(given, CONFIG) == (given, [])
    assert equipped({}, CONFIG) == ({}, [])


def test_only_the_training_container_counts() -> None:
    given = spec({})
    given["containers"][0]["resources"] = {"limits": {OLD: 1}}
    assert equipped(given, CONFIG) == (given, [])
    alone = {"containers": [{"name": "main", "resources": {"limits": {OLD: 1}}}]}
    assert equipped(alone, CONFIG)[0]["containers"][0]["env"] == [INJECTED_VARIABLE]


def test_what_was_given_is_not_changed_and_twice_is_as_good_as_once() -> None:
    given = spec(volumes=[{"name": "data", "emptyDir": {}}], env=[{"name": "A", "value": "1"}])
    before = copy.deepcopy(given)
    made, _ = equipped(given, CONFIG)
    assert given == before
    assert equipped(made, CONFIG) == (made, [])


@pytest.mark.parametrize(
    ("volumes", "mounts", "all_volumes", "all_mounts", "kept_path"),
    [
        (  # the whole of it by hand, as before there was an operator
            [INJECTED_VOLUME],
            [{"name": "lib", "mountPath": "/usr/lib/nvidia/"}],
            [INJECTED_VOLUME],
            [{"name": "lib", "mountPath": "/usr/lib/nvidia/"}],
            "",
        ),
        (  # the volume is there, but mounted elsewhere
            [INJECTED_VOLUME],
            [{"name": "lib", "mountPath": "/opt"}],
            [INJECTED_VOLUME],
            [{"name": "lib", "mountPath": "/opt"}, INJECTED_MOUNT],
            "",
        ),
        (  # the name is that of something else
            [{"name": "lib", "emptyDir": {}}],
            [{"name": "lib", "mountPath": "/lib"}],
            [{"name": "lib", "emptyDir": {}}, {"name": "lib-2", "hostPath": {"path": "/usr/lib/driver"}}],
            [{"name": "lib", "mountPath": "/lib"}, {"name": "lib-2", "mountPath": "/usr/lib/nvidia"}],
            "",
        ),
        (
            [{"name": "lib", "emptyDir": {}}, {"name": "lib-2", "hostPath": {"path": "/other"}}],
            [],
            [
                {"name": "lib", "emptyDir": {}},
                {"name": "lib-2", "hostPath": {"path": "/other"}},
                {"name": "lib-3", "hostPath": {"path": "/usr/lib/driver"}},
            ],
            [{"name": "lib-3", "mountPath": "/usr/lib/nvidia"}],
            "",
        ),
        (  # the user mounts something else there
            [{"name": "own", "emptyDir": {}}],
            [{"name": "own", "mountPath": "/usr/lib/nvidia"}],
            [{"name": "own", "emptyDir": {}}],
            [{"name": "own", "mountPath": "/usr/lib/nvidia"}],
            "/usr/lib/nvidia",
        ),
    ],
)
def test_a_volume_name_is_never_used_twice_and_the_users_mount_stays(
    volumes: list[Object],
    mounts: list[Object],
    all_volumes: list[Object],
    all_mounts: list[Object],
    kept_path: str,
    wording: Wording,
) -> None:
    made, kept = equipped(spec(volumes=volumes, volumeMounts=mounts), CONFIG)
    assert (made["volumes"], made["containers"][1]["volumeMounts"]) == (all_volumes, all_mounts)
    assert len(kept) == bool(kept_path)
    assert kept_path in "".join(kept)
    wording(*kept)


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ({"name": PATH, "value": "/mine"}, True),
        ({"name": PATH, "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}, True),
        ({"name": PATH, "value": "/usr/lib/nvidia"}, False),
    ],
)
def test_the_users_own_variable_wins(own: Object, told: bool, wording: Wording) -> None:
    made, kept = equipped(spec(env=[own]), CONFIG)
    assert made["containers"][1]["env"] == [own]
    assert [PATH in one for one in kept] == [True] * told
    wording(*kept)


def test_a_long_volume_name_leaves_room_for_its_number() -> None:
    name = "v" * 63
    config = {OLD: Accelerator([HostVolume(name, "/a", "/b")])}
    made, _ = equipped(spec(volumes=[{"name": name, "emptyDir": {}}]), config)
    assert made["volumes"][1]["name"] == "v" * 61 + "-2"


@pytest.mark.parametrize(
    ("asked", "requested"),
    [
        ({"limits": {OLD: 1}}, {"limits": {NEW: 1}}),
        ({"requests": {OLD: 1}}, {"limits": {NEW: 1}}),
        ({"limits": {OLD: 2}, "requests": {OLD: 2}}, {"limits": {NEW: 2}}),
        ({"requests": {OLD: 1, "cpu": 1}}, {"limits": {NEW: 1}, "requests": {"cpu": 1}}),
        ({"limits": {OLD: 1, NEW: 2}}, {"limits": {NEW: 2}}),
        ({"limits": {OLD: 1}, "requests": {NEW: 2}}, {"limits": {NEW: 2}}),
        (
            {"limits": {OLD: 1, NEW: 2}, "requests": {NEW: 2}, "claims": []},
            {"limits": {NEW: 2}, "requests": {NEW: 2}, "claims": []},
        ),
    ],
)
def test_the_resource_of_today_is_requested_instead_as_a_limit(asked: Object, requested: Object) -> None:
    made, _ = equipped(spec(asked), {OLD: Accelerator(resource=NEW)})
    assert made["containers"][1]["resources"] == requested


def test_a_device_that_is_only_requested_becomes_a_limit_because_kubernetes_takes_nothing_else() -> None:
    made, _ = equipped(spec({"requests": {NEW: 1}}), {NEW: Accelerator()})
    assert made["containers"][1]["resources"] == {"limits": {NEW: 1}}


def test_the_pods_of_a_job_are_equipped_and_its_template_stays() -> None:
    owner = job(worker=1, pod_template=template(resources={"limits": {OLD: 1}}))
    before = copy.deepcopy(owner)
    made = pod(owner, task("worker-0"), 1, Settings(accelerators=CONFIG)).spec
    assert made["volumes"] == [INJECTED_VOLUME]
    assert INJECTED_VARIABLE in made["containers"][0]["env"]
    assert owner == before


def test_that_the_users_value_wins_is_told_once_a_job() -> None:
    own = template(resources={"limits": {OLD: 1}}, env=[{"name": PATH, "value": "/mine"}])
    owner, settings = job(worker=2, pod_template=own), Settings(accelerators=CONFIG)
    first = see(owner, settings=settings)
    told = Event(
        "AcceleratorOverridden",
        f"Worker: the template sets {PATH}; the value configured for {OLD}, '/usr/lib/nvidia', is ignored",
        warning=True,
    )
    assert [one for one in first.events if one.reason == told.reason] == [told]
    assert see(after(owner, first), settings=settings).events == []

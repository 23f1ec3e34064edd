from __future__ import annotations

import pytest

from tfjob.api import resources
from tfjob.api.resources import CLUSTER_ROLES, NODES, PODS, Resource
from tfjob.api.types import TFJOBS


@pytest.mark.parametrize(
    ("resource", "arguments", "path"),
    [
        (PODS, (), "/api/v1/pods"),
        (PODS, ("team",), "/api/v1/namespaces/team/pods"),
        (PODS, ("team", "a"), "/api/v1/namespaces/team/pods/a"),
        (PODS, ("team", "a", "status"), "/api/v1/namespaces/team/pods/a/status"),
        (TFJOBS, ("team", "a"), "/apis/kubeflow.org/v1/namespaces/team/tfjobs/a"),
        (NODES, ("", "n1"), "/api/v1/nodes/n1"),
        (NODES, ("ignored", "n1"), "/api/v1/nodes/n1"),
        (
            CLUSTER_ROLES,
            ("", "system:kube-dns"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:kube-dns",
        ),
    ],
)
def test_where_objects_are(resource: Resource, arguments: tuple[str, ...], path: str) -> None:
    assert resource.path(*arguments) == path


@pytest.mark.parametrize("name", ["a/../b", "a?b", "a#b", "a b", "..", ".", "a%2fb"])
def test_an_odd_name_never_reaches_another_object(name: str) -> None:
    segment = PODS.path("team", name).removeprefix("/api/v1/namespaces/team/pods/")
    assert segment
    assert not set(segment) & set("/?# ")
    assert segment not in (".", "..")


@pytest.mark.parametrize(("namespace", "name"), [("team", ""), ("", "a"), ("", "")])
def test_a_name_left_out_never_means_all_objects(namespace: str, name: str) -> None:
    with pytest.raises(ValueError, match="Pod"):
        PODS.object_path(namespace, name)


def test_no_two_constants_mean_the_same_objects() -> None:
    known = [value for value in vars(resources).values() if isinstance(value, Resource)]
    assert len({resource.path() for resource in known}) == len(known)

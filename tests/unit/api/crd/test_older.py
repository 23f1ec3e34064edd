"""The CRD with older versions obeys the rules of structural schemas, and v1 in it is the same as alone."""

from __future__ import annotations

import msgspec
import pytest

from support.api.structural_schemas import KEEPS, nodes, violations
from tfjob.api.crd.older import OLDER_NAMES, crd_with
from tfjob.api.crd.tfjob import crd, crd_problem

WEBHOOK = {"service": {"name": "tf-job-operator", "namespace": "team", "path": "/convert", "port": 443}}


def test_without_older_versions_it_is_the_plain_one() -> None:
    assert crd_with((), WEBHOOK) == crd()
    assert "conversion" not in crd()["spec"]


def test_v1_is_stored_and_the_same_beside_any_other() -> None:
    made = crd_with(("v1alpha1", "v1beta1"), WEBHOOK)
    assert [(one["name"], one["storage"]) for one in made["spec"]["versions"]] == [
        ("v1", True),
        ("v1beta1", False),
        ("v1alpha1", False),
    ]
    assert made["spec"]["versions"][0] == crd()["spec"]["versions"][0]
    assert made["spec"]["conversion"]["webhook"]["clientConfig"] == WEBHOOK
    assert crd_problem(made) is None


@pytest.mark.parametrize("number", range(len(OLDER_NAMES)), ids=OLDER_NAMES)
def test_an_older_schema_is_structural_and_keeps_templates_and_details(number: int) -> None:
    version = crd_with(OLDER_NAMES, WEBHOOK)["spec"]["versions"][number + 1]
    found = dict(nodes(version["schema"]["openAPIV3Schema"]))
    broken = {path: violations(node) for path, node in found.items() if path != ".metadata"}
    # v1alpha1's operator wrote null where nothing was given; only fields with no default may be so.
    assert {path: faults for path, faults in broken.items() if set(faults) - {"has nullable"}} == {}
    template = ".spec.replicaSpecs[].template" if version["name"] == "v1alpha1" else ".spec.tfReplicaSpecs{}.template"
    assert found[template][KEEPS]
    assert found[".status.details"][KEEPS]
    assert found[template]["description"]


def test_plain_kubectl_apply_can_carry_all_versions() -> None:
    assert len(msgspec.json.encode(crd_with(OLDER_NAMES, WEBHOOK))) < 150_000

"""Which Kubernetes versions are too old."""

from __future__ import annotations

import pytest

from support.golden import Wording
from tfjob.kube.client.version import OLDEST, ServerVersion, version_problem

OLD = f"v{OLDEST[0]}.{OLDEST[1] - 1}.9"


@pytest.mark.parametrize(
    ("version", "keyword"),
    [
        (ServerVersion("1", "34", "v1.34.4"), None),
        (ServerVersion("1", f"{OLDEST[1]}+", "v1.x-gke.1"), None),
        (ServerVersion("2", "0", "v2.0.0"), None),
        (ServerVersion(), None),
        (
            ServerVersion("1", str(OLDEST[1] - 1), OLD),
            f"{OLDEST[0]}.{OLDEST[1]}",
        ),
    ],
)
def test_an_old_kubernetes_is_rejected_and_an_unknown_one_is_tried(
    version: ServerVersion, keyword: str | None, wording: Wording
) -> None:
    problem = version_problem(version)
    assert (problem is None) == (keyword is None)
    assert (keyword or "") in (problem or "")
    wording(problem or "")

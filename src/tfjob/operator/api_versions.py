"""Which API versions an installation serves: one setting for both groups."""

from __future__ import annotations

from dataclasses import dataclass

from tfjob.api.crd.older import OLDER_NAMES
from tfjob.api.dialect import TENSORFLOW

V1 = "v1"
KNOWN = (V1, *OLDER_NAMES, TENSORFLOW)
DEFAULT = (V1, "v1beta1", "v1alpha1", TENSORFLOW)
"""The versions of manifests for the latest operators and in the documents."""


@dataclass(frozen=True)
class ApiVersions:
    """The versions of kubeflow.org, of which v1 is stored, and whether tensorflow.org is served."""

    kubeflow: tuple[str, ...] = tuple(name for name in DEFAULT if name != TENSORFLOW)
    tensorflow: bool = True

    @classmethod
    def read(cls, text: str) -> ApiVersions:
        """Read `v1,v1beta1,tensorflow.org/v1alpha1`. Raises ValueError with the problem."""
        given = [word.strip() for word in text.split(",")]
        for name in given:
            if name not in KNOWN:
                raise ValueError(f"unknown API version {name!r}: use {', '.join(KNOWN)}")
        kubeflow = tuple(name for name in (V1, *OLDER_NAMES) if name in given)
        if kubeflow and V1 not in kubeflow:
            raise ValueError(f"{kubeflow[0]} needs v1 in the list, because jobs are stored as v1")
        return cls(kubeflow, TENSORFLOW in given)

    @property
    def older(self) -> tuple[str, ...]:
        return tuple(name for name in self.kubeflow if name != V1)

    @property
    def groups(self) -> list[str]:
        return [*(["kubeflow.org"] if self.kubeflow else []), *([TENSORFLOW.split("/")[0]] if self.tensorflow else [])]

    @property
    def stored(self) -> ApiVersions:
        """These groups without the versions that need conversion."""
        return ApiVersions(self.kubeflow[:1], self.tensorflow)

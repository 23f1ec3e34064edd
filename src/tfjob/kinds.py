"""Every kind of owner, for the operator and for the driver of a run."""

from __future__ import annotations

from tfjob.plan.build.pods import Settings
from tfjob.plan.kind import TFJobKind, TfJobKind


def cluster_kinds(settings: Settings) -> list[TFJobKind]:
    """Return the kinds that an operator reconciles."""
    return [TFJobKind(settings), TfJobKind(settings)]

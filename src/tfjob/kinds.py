"""All kinds of owners, for the operator and for the driver of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tfjob.controller.kind import Kind
from tfjob.durations import USUAL, Durations
from tfjob.plan.build.settings import Settings
from tfjob.plan.kind import MachineTFJobKind, TFJobKind, TfJobKind

MACHINE_SETTINGS = Settings(storage_for_all=True, local_tensorboard=True, reports_every_exit=True)
"""The settings on this machine: each job has storage, whether its manifest names the volume or not."""


def cluster_kinds(settings: Settings) -> list[TFJobKind]:
    return [TFJobKind(settings), TfJobKind(settings)]


def machine_kinds(durations: Durations = USUAL) -> list[Kind[Any]]:
    """Return the kinds that the driver of a run reconciles; on a cluster, Kubernetes runs the Deployments."""
    from tfjob.local.run.deployments import DeploymentKind  # the operator does not need it

    return [MachineTFJobKind(replace(MACHINE_SETTINGS, durations=durations)), DeploymentKind()]

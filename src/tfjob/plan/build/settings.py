"""The settings of an operator or a driver, and the input of one pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tfjob import __version__
from tfjob.api.types import TFJob
from tfjob.controller.kind import Observation
from tfjob.durations import USUAL, Durations
from tfjob.plan.build.accelerators import Accelerator

TENSORBOARD_IMAGE = f"localhost/tf-job-tensorboard:{__version__}"
"""The image that tools/image.py builds; an installation names the one in its registry."""


@dataclass(frozen=True)
class Settings:
    """What the operator decides, not the job.

    `gang_scheduler` names the scheduler that starts the pods of a job together: `volcano` (case-insensitive), or a
    scheduler with the coscheduling plugin of scheduler-plugins; empty for none. `accelerators` is keyed by resource
    name. Default parameter servers run in `tf_image` if a job names no image, and run `server_program` instead of ours
    if it is set. With `storage_for_all`, a job has storage even if it does not name the volume. With
    `local_tensorboard`, a TensorBoard is a Python program on this machine instead of an image, and ends with its job.
    With `reports_every_exit`, a pass sees how each deleted pod has ended before the pod is gone. Only tests change
    `durations`.
    """

    cluster_domain: str = ""
    pending_grace: timedelta = timedelta(minutes=5)
    last_lines: bool = True
    gang_scheduler: str = ""
    accelerators: Mapping[str, Accelerator] = field(default_factory=dict)
    tf_image: str = ""
    server_program: str = ""
    tensorboard_image: str = TENSORBOARD_IMAGE
    storage_for_all: bool = False
    local_tensorboard: bool = False
    reports_every_exit: bool = False
    durations: Durations = USUAL


@dataclass(frozen=True)
class Pass:
    """The input of one pass over a job."""

    job: TFJob
    observed: Observation
    now: datetime
    settings: Settings = field(default_factory=Settings)

    @property
    def durations(self) -> Durations:
        return self.settings.durations

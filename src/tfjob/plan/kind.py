"""TFJob, and the 2017 TfJob, as kinds of the loop."""

from __future__ import annotations

from collections.abc import Sequence, Set
from datetime import datetime
from typing import Any

import msgspec

from tfjob.api.defaults import with_defaults
from tfjob.api.dialect import JOB_NAME_LABEL, TF_JOB_NAME_LABEL, TF_JOBS
from tfjob.api.names import child_name
from tfjob.api.objects import ConfigMap, Deployment, Pod, PodGroup, Service
from tfjob.api.problems import Problem
from tfjob.api.types import TFJOBS, TFJob, TFJobSpec, TFJobStatus
from tfjob.controller.kind import Invalid, Observation, Stored
from tfjob.plan.build.settings import Settings
from tfjob.plan.facts.conditions import is_finished
from tfjob.plan.facts.tasks import members
from tfjob.plan.plan import JobPlan, plan, reject
from tfjob.plan.policy.run_policy import suspended


class TFJobKind:
    """TFJobs of kubeflow.org; `settings` may be replaced while the loop runs."""

    resource = TFJOBS
    owner_type = TFJob
    name_label = JOB_NAME_LABEL

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()

    @property
    def children(self) -> tuple[type[Any], ...]:
        groups = (PodGroup,) if self.settings.gang_scheduler else ()
        return (Pod, Service, ConfigMap, Deployment, *groups)

    def decode(self, stored: Stored) -> TFJob:
        job, problems = self.read(stored)
        if problems:
            raise Invalid(job, problems)
        return job

    def plan(self, owner: TFJob, observed: Observation, now: datetime) -> JobPlan:
        return plan(owner, observed, now, self.settings)

    def reject(self, owner: TFJob, observed: Observation, problems: Sequence[Problem], now: datetime) -> JobPlan:
        return reject(owner, observed, problems, now, self.settings)

    def is_finished(self, owner: TFJob) -> bool:
        return is_finished(owner.status)

    def encode_status(self, owner: TFJob) -> Any:
        return owner.status

    def expected(self, owner: TFJob) -> Set[str]:
        if is_finished(owner.status) or not owner.status.started:
            return frozenset()
        running = members(owner.status.started) - members(owner.status.completed_indexes)
        return {child_name(owner, task.type, task.index) for task in running}

    def suspended(self, owner: TFJob, reason: str) -> TFJob:
        return owner if owner.spec.run_policy.suspend else suspended(owner, reason)

    def read(self, stored: Stored) -> tuple[TFJob, list[Problem]]:
        """Return the job, or as much of it as can be read, and its problems."""
        # Imported here: commands on this machine store the hub type, and the reader of other versions is slow to load.
        from tfjob.api.versions.registry import read_tfjob

        return read_tfjob(stored.metadata, stored.spec, stored.status)


class MachineTFJobKind(TFJobKind):
    """TFJobs on this machine, which stores every version as the hub type."""

    def read(self, stored: Stored) -> tuple[TFJob, list[Problem]]:
        job = TFJob(
            metadata=stored.metadata,
            spec=msgspec.json.decode(stored.spec, type=TFJobSpec),
            status=msgspec.json.decode(stored.status, type=TFJobStatus),
        )
        return with_defaults(job), []


class TfJobKind(TFJobKind):
    """TfJobs of tensorflow.org (2017)."""

    resource = TF_JOBS
    name_label = TF_JOB_NAME_LABEL

    def encode_status(self, owner: TFJob) -> Any:
        from tfjob.api.versions.status import v1alpha1_status
        from tfjob.api.versions.v1beta import DETAILS

        return {**v1alpha1_status(owner), DETAILS: owner.status}

    def read(self, stored: Stored) -> tuple[TFJob, list[Problem]]:
        from tfjob.api.versions.registry import read_tf_job

        return read_tf_job(stored.metadata, stored.spec, stored.status)

"""TFJob, and the 2017 TfJob, as kinds of the loop."""

from __future__ import annotations

from collections.abc import Sequence, Set
from datetime import datetime
from typing import Any

from tfjob.api.dialect import JOB_NAME_LABEL, TF_JOB_NAME_LABEL, TF_JOBS
from tfjob.api.names import child_name
from tfjob.api.objects import ConfigMap, Deployment, Pod, PodGroup, Service
from tfjob.api.problems import Problem
from tfjob.api.types import TFJOBS, TFJob
from tfjob.controller.kind import Invalid, Observation, Stored
from tfjob.plan.build.pods import Settings
from tfjob.plan.facts.conditions import is_finished
from tfjob.plan.facts.tasks import Observed, members
from tfjob.plan.plan import JobPlan, plan, reject


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
        return plan(owner, _observed(observed), now, self.settings)

    def reject(self, owner: TFJob, observed: Observation, problems: Sequence[Problem], now: datetime) -> JobPlan:
        return reject(owner, _observed(observed), problems, now, self.settings)

    def is_finished(self, owner: TFJob) -> bool:
        return is_finished(owner.status)

    def encode_status(self, owner: TFJob) -> Any:
        return owner.status

    def expected(self, owner: TFJob) -> Set[str]:
        if is_finished(owner.status) or not owner.status.started:
            return frozenset()
        running = members(owner.status.started) - members(owner.status.completed_indexes)
        return {child_name(owner, task.type, task.index) for task in running}

    def read(self, stored: Stored) -> tuple[TFJob, list[Problem]]:
        """Return the job, or as much of it as can be read, and what is wrong with it."""
        # Imported here: commands on this machine store the hub type, and reading other versions is slow to load.
        from tfjob.api.versions.stored import read_tfjob

        return read_tfjob(stored.metadata, stored.spec, stored.status)


class TfJobKind(TFJobKind):
    """TfJobs of tensorflow.org (2017)."""

    resource = TF_JOBS
    name_label = TF_JOB_NAME_LABEL

    def encode_status(self, owner: TFJob) -> Any:
        from tfjob.api.versions.status import v1alpha1_status
        from tfjob.api.versions.v1beta import DETAILS

        return {**v1alpha1_status(owner), DETAILS: owner.status}

    def read(self, stored: Stored) -> tuple[TFJob, list[Problem]]:
        from tfjob.api.versions.stored import read_tf_job

        return read_tf_job(stored.metadata, stored.spec, stored.status)


def _observed(given: Observation) -> Observed:
    return Observed(
        pods=given.of(Pod),
        services=given.of(Service),
        pod_groups=given.of(PodGroup),
        config_maps=given.of(ConfigMap),
        deployments=given.of(Deployment),
        rejections=given.rejections,
        repeated_deletions=given.repeated_deletions,
        lost_nodes=given.lost_nodes,
    )

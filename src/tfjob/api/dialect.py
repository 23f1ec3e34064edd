"""What differs by the API version that a job was written for: names of children, restarts, the shape of TF_CONFIG."""

from __future__ import annotations

from dataclasses import dataclass

from tfjob.api.resources import Resource
from tfjob.api.types import API_VERSION, ORIGIN, TFJOBS, TFJob

BATCH = "batch/v1"
JOB_NAME_LABEL, TF_JOB_NAME_LABEL = "training.kubeflow.org/job-name", "tf_job_name"
TENSORFLOW = "tensorflow.org/v1alpha1"
TF_JOB, TF_JOB_SHORT_NAME = "TfJob", "tfja"
"""The kind in that group, and its short name for kubectl; kubeflow.org has TFJob."""
TF_JOBS = Resource("tensorflow.org", "v1alpha1", "tfjobs", TF_JOB)
JOB_KINDS = {one.kind: one for one in (TFJOBS, TF_JOBS)}
"""The resources of jobs by kind; a cluster has one of them, or both."""


@dataclass(frozen=True)
class Dialect:
    """How jobs of one API version differ from those of v1.

    `child_name` is a format over job, type (lower case), index and runtime (the random id of v1alpha1);
    `tensorboard_name` and `server_program_name` are formats over job and runtime.
    `host` is a format over name and namespace; `{domain}` is the operator's cluster domain with its leading dot.
    """

    api_version: str
    resource: Resource = TFJOBS
    """Where a cluster keeps such a job."""
    child_name: str = "{job}-{type}-{index}"
    tensorboard_name: str = "{job}-tensorboard"
    server_program_name: str = "{job}-ps-server"
    """The ConfigMap with the program of default parameter servers."""
    host: str = "{name}.{namespace}.svc{domain}"
    name_label: str = JOB_NAME_LABEL
    """The label of children that holds the job's name; each kind has its own, because both may have one name."""
    tf_config: bool = True
    tf_config_for_one_replica: bool = False
    tf_config_in_every_container: bool = False
    has_runtime_id: bool = False
    """Children carry a random id in their names and labels."""
    restarts_by_role: bool = False
    """The role of a replica decides when it restarts, and each restarts alone; its pod has no say."""
    wraps_pods: bool = False
    """A cluster keeps each pod in a batch/v1 Job."""
    headless_services: bool = True
    accepts_any_edit: bool = False
    """The CRD checks nothing, so an edit that cannot be read must not cost a running job its pods."""
    suspends_by_annotation: bool = False
    """The spec has no `suspend`: stopping a job changes no generation."""
    id_prefix: str = ""
    """What precedes a job's name if a TFJob has the same one."""

    @property
    def is_v1alpha1(self) -> bool:
        """Whether the rules of v1alpha1 hold: three types, containers called `tensorflow`, phases in the status."""
        return self.api_version.endswith("/v1alpha1")


DIALECTS = {
    dialect.api_version: dialect
    for dialect in (
        Dialect(API_VERSION),
        Dialect("kubeflow.org/v1beta2", tf_config_for_one_replica=True, tf_config_in_every_container=True),
        Dialect("kubeflow.org/v1beta1", tf_config_for_one_replica=True, tf_config_in_every_container=True),
        Dialect(
            "kubeflow.org/v1alpha2",
            host="{name}",
            tf_config_for_one_replica=True,
            tf_config_in_every_container=True,
        ),
        Dialect(
            "kubeflow.org/v1alpha1",
            host="{name}",
            tf_config_for_one_replica=True,
        ),
        Dialect(
            TENSORFLOW,
            resource=TF_JOBS,
            child_name="{type}-{runtime}-{index}",
            tensorboard_name="tensorboard-{runtime}",
            server_program_name="cm-ps-{runtime}",
            host="{name}",
            name_label=TF_JOB_NAME_LABEL,
            tf_config_for_one_replica=True,
            has_runtime_id=True,
            restarts_by_role=True,
            wraps_pods=True,
            headless_services=False,
            accepts_any_edit=True,
            suspends_by_annotation=True,
            id_prefix=f"{TF_JOB_SHORT_NAME}/",
        ),
        Dialect(BATCH, tf_config=False),
    )
}


def origin(job: TFJob) -> Dialect:
    """Return the dialect of the version that `job` was written for; v1 if none is recorded."""
    return DIALECTS.get(job.metadata.annotations.get(ORIGIN, API_VERSION), DIALECTS[API_VERSION])

"""What a job keeps of the API version that it was written for: its children, their restarts, the shape of TF_CONFIG."""

from __future__ import annotations

from dataclasses import dataclass

from tfjob.api.resources import Resource
from tfjob.api.types import API_VERSION, KIND, ORIGIN, TFJOBS, TFJob

BATCH = "batch/v1"
TENSORFLOW = "tensorflow.org/v1alpha1"
TF_JOB = "TfJob"
"""The kind in that group; kubeflow.org has TFJob."""
TF_JOBS = Resource("tensorflow.org", "v1alpha1", "tfjobs", TF_JOB)
JOB_KINDS = {one.kind: one for one in (TFJOBS, TF_JOBS)}
"""The resources of jobs by kind; a cluster has one of them, or both."""


@dataclass(frozen=True)
class Origin:
    """The habits of one API version.

    `child_name` is a format over job, type (lower case), index and runtime (the random id of v1alpha1),
    `tensorboard_name` one over job and runtime.
    `host` is a format over name and namespace; `{domain}` is the operator's cluster domain with its leading dot.
    """

    api_version: str
    child_name: str = "{job}-{type}-{index}"
    tensorboard_name: str = "{job}-tensorboard"
    host: str = "{name}.{namespace}.svc{domain}"
    tf_config: bool = True
    tf_config_for_one_replica: bool = False
    tf_config_in_every_container: bool = False

    @property
    def is_v1alpha1(self) -> bool:
        """Whether the rules of v1alpha1 hold: three types, containers called `tensorflow`, phases in the status."""
        return self.api_version.endswith("/v1alpha1")

    @property
    def is_tensorflow_org(self) -> bool:
        """Whether the job is one of the first operator, of 2017.

        Its children are named with a random id and labelled in its way, each pod is wrapped in a batch/v1 Job, and a
        task's type, not its pod, says when it runs again.
        """
        return self.api_version == TENSORFLOW

    @property
    def owner(self) -> tuple[str, str]:
        """The apiVersion and kind under which a cluster keeps such a job."""
        return (TENSORFLOW, TF_JOB) if self.is_tensorflow_org else (API_VERSION, KIND)


ORIGINS = {
    origin.api_version: origin
    for origin in (
        Origin(API_VERSION),
        Origin("kubeflow.org/v1beta2", tf_config_for_one_replica=True, tf_config_in_every_container=True),
        Origin("kubeflow.org/v1beta1", tf_config_for_one_replica=True, tf_config_in_every_container=True),
        Origin(
            "kubeflow.org/v1alpha2",
            host="{name}",
            tf_config_for_one_replica=True,
            tf_config_in_every_container=True,
        ),
        Origin(
            "kubeflow.org/v1alpha1",
            host="{name}",
            tf_config_for_one_replica=True,
        ),
        Origin(
            TENSORFLOW,
            child_name="{type}-{runtime}-{index}",
            tensorboard_name="tensorboard-{runtime}",
            host="{name}",
            tf_config_for_one_replica=True,
        ),
        Origin(BATCH, tf_config=False),
    )
}


def origin(job: TFJob) -> Origin:
    """The habits of the version that `job` was written for; v1 when nothing else is recorded."""
    return ORIGINS.get(job.metadata.annotations.get(ORIGIN, API_VERSION), ORIGINS[API_VERSION])

"""How a job behaves by the API version that it was written for: child names, restarts, the format of TF_CONFIG."""

from __future__ import annotations

from dataclasses import dataclass

from tfjob.api.resources import Resource
from tfjob.api.types import API_VERSION, ORIGIN, TFJOBS, TFJob

BATCH = "batch/v1"
JOB_NAME_LABEL, TF_JOB_NAME_LABEL = "training.kubeflow.org/job-name", "tf_job_name"
TENSORFLOW = "tensorflow.org/v1alpha1"
TF_JOB, TF_JOB_SHORT_NAME = "TfJob", "tfja"
"""The kind in tensorflow.org and its short name for kubectl. The kind in kubeflow.org is TFJob."""
TF_JOBS = Resource("tensorflow.org", "v1alpha1", "tfjobs", TF_JOB)
JOB_KINDS = {one.kind: one for one in (TFJOBS, TF_JOBS)}
"""The resources of jobs by kind. A cluster has one of them or both."""


@dataclass(frozen=True)
class Dialect:
    """How jobs of one API version differ from those of v1.

    `child_name` is a format over job, type (lower case), index and runtime (the random id of v1alpha1);
    `tensorboard_name` and `server_program_name` are formats over job and runtime.
    `host` is a format over name and namespace; `{domain}` is the operator's cluster domain with its leading dot.
    """

    api_version: str
    resource: Resource = TFJOBS
    """The resource of such a job on a cluster."""
    child_name: str = "{job}-{type}-{index}"
    tensorboard_name: str = "{job}-tensorboard"
    server_program_name: str = "{job}-ps-server"
    """The ConfigMap with the program of default parameter servers."""
    host: str = "{name}.{namespace}.svc{domain}"
    name_label: str = JOB_NAME_LABEL
    """The label of children with the name of the job. It differs by kind, because a name may be used for both kinds."""
    tf_config: bool = True
    tf_config_for_one_replica: bool = False
    tf_config_in_every_container: bool = False
    has_runtime_id: bool = False
    """Children carry a random id in their names and labels."""
    restarts_by_role: bool = False
    """The role of a replica decides whether it restarts, not the pod's `restartPolicy`, and each restarts alone."""
    wraps_pods: bool = False
    """On a cluster, each pod belongs to a batch/v1 Job."""
    headless_services: bool = True
    accepts_any_edit: bool = False
    """The CRD checks nothing, so a running job keeps its pods after an invalid edit."""
    suspends_by_annotation: bool = False
    """The spec has no `suspend`, so stopping a job does not change its generation."""
    id_prefix: str = ""
    """The prefix of a job's name if a TFJob has the same name."""

    @property
    def is_v1alpha1(self) -> bool:
        """Whether the rules of v1alpha1 apply: three types, containers named `tensorflow`, phases in the status."""
        return self.api_version.endswith("/v1alpha1")


DIALECTS = {
    dialect.api_version: dialect
    for dialect in (
        Dialect(API_VERSION),
        Dialect("kubeflow.org/v1beta2", tf_config_for_one_replica=True, tf_config_in_every_container=True),
        Dialect("kubeflow.org/v1beta1", tf_config_for_one_replica=True, tf_config_in_every_container=True),
        Dialect(
            "kubeflow.org/v1alpha2", host="{name}", tf_config_for_one_replica=True, tf_config_in_every_container=True
        ),
        Dialect("kubeflow.org/v1alpha1", host="{name}", tf_config_for_one_replica=True),
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
    """Return the dialect of the version that `job` was written for: v1 if none is recorded."""
    return DIALECTS.get(job.metadata.annotations.get(ORIGIN, API_VERSION), DIALECTS[API_VERSION])

"""From a manifest to jobs of a cluster: what is sent, and how they start."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import click
from msgspec.structs import replace

from tfjob.api.conversion import canonical_type
from tfjob.api.dialect import origin
from tfjob.api.types import TFJob
from tfjob.kube.access import config
from tfjob.kube.access.errors import KubeError
from tfjob.kube.jobs.backend import SyncKubeBackend
from tfjob.kube.submit.submission import Submission, as_kept, as_kept_with_tf_jobs
from tfjob.launch.errors import InvalidRequest
from tfjob.launch.starting import Request, jobs_of, report_problems, with_namespace, written

ONLY_HERE = {
    "python": "--python",
    "volumes": "--volume",
    "level": "--level",
    "no_limits": "--no-limits",
    "cpu": "--cpu",
}
"""What a request may say of this machine alone; and whether replicas start warm."""
OpenBackend = Callable[[str], AbstractContextManager[SyncKubeBackend]]
"""Opens the jobs of one namespace of a cluster."""


class ClusterLaunch:
    """The jobs of a manifest for a cluster."""

    def __init__(self, context: str, request: Request, open_backend: OpenBackend) -> None:
        given = [option for name, option in ONLY_HERE.items() if getattr(request, name)]
        if request.warm is not None:
            given.append("--warm" if request.warm else "--cold")
        if given:
            raise InvalidRequest(f"{given[0]} is about this machine, and the job is for a cluster", "Leave it out.")
        data, manifest = jobs_of(request, cluster=True)
        report_problems(manifest.problems)
        self.written = partial(written, request, data, manifest)
        self.open_backend = partial(open_backend, request.namespace)
        default = config.load(context or None).namespace
        jobs = [
            with_namespace(entry, canonical(entry.written), request.namespace, default) for entry in manifest.entries
        ]
        self.submission = Submission(jobs, manifest.objects)

    def show(self, output: str) -> None:
        """Prints the objects."""
        from tfjob.launch.cluster_dry_run import show

        show(self.submission.objects, self._kept(), output)

    def detach(self, output: str, *, quiet: bool) -> bool:
        """Creates the jobs."""
        from tfjob.jobs.output import job_shape, print_list
        from tfjob.jobs.report import next_commands
        from tfjob.launch.cluster_creation import create_jobs

        with self.open_backend() as backend:
            records, interrupted = create_jobs(backend, self.submission)
        if output != "text":
            print_list("Job", [job_shape(record) for record in records], output)
        for record in records if output == "text" else ():
            click.echo(record.name if quiet else next_commands(record))
        return interrupted

    def _kept(self) -> list[dict[str, Any]]:
        """The jobs as the cluster would keep them; only one written for tensorflow.org makes it worth asking."""
        manifests = self.submission.manifests
        if not any(origin(job).is_tensorflow_org for job in self.submission.jobs):
            return manifests
        try:
            with self.open_backend() as backend:
                return [backend.run(as_kept(backend.client, manifest)) for manifest in manifests]
        except KubeError as error:
            click.echo(f"shown as for a cluster with TfJobs of tensorflow.org; it cannot be asked: {error}", err=True)
            return [as_kept_with_tf_jobs(manifest) for manifest in manifests]


def canonical(job: TFJob) -> TFJob:
    """The job with the names of its replica types as the CRD has them."""
    specs = {canonical_type(name): spec for name, spec in job.spec.tf_replica_specs.items()}
    return replace(job, spec=replace(job.spec, tf_replica_specs=specs))

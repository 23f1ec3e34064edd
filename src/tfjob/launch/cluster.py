"""From a manifest to jobs of a cluster: what is sent, and how they start."""

from __future__ import annotations

from functools import partial
from typing import Any

import click
from msgspec.structs import replace

from tfjob.api.conversion import canonical_type
from tfjob.api.dialect import origin
from tfjob.api.types import TFJob
from tfjob.cli import exit_codes
from tfjob.cli.context import On, cluster_console, is_quiet
from tfjob.kube.access import config
from tfjob.kube.access.errors import KubeError
from tfjob.kube.submit.submission import Submission, as_kept, as_kept_with_tf_jobs
from tfjob.launch.starting import Request, jobs_of, placed, tell, written

ONLY_HERE = {
    "python": "--python",
    "volumes": "--volume",
    "level": "--level",
    "no_limits": "--no-limits",
    "cpu": "--cpu",
}
"""What a request may say of this machine alone; and whether replicas start warm."""


class ClusterLaunch:
    """The jobs of a manifest for a cluster."""

    def __init__(self, on: On, request: Request) -> None:
        given = [option for name, option in ONLY_HERE.items() if getattr(request, name)]
        if request.warm is not None:
            given.append("--warm" if request.warm else "--cold")
        if given:
            raise exit_codes.Stop(
                exit_codes.BAD_INPUT, f"{given[0]} is about this machine, and the job is for a cluster", "Leave it out."
            )
        data, manifest = jobs_of(request, cluster=True)
        tell(manifest.problems)
        self.written = partial(written, request, data, manifest)
        self.on = on
        self.namespace = request.namespace
        default = config.load(on.context or None).namespace
        jobs = [placed(entry, canonical(entry.written), request.namespace, default) for entry in manifest.entries]
        self.submission = Submission(jobs, manifest.objects)

    def show(self, output: str) -> int:
        """Prints the objects."""
        from tfjob.launch.cluster_dry_run import show

        show(self.submission.objects, self._kept(), output)
        return exit_codes.SUCCEEDED

    def detach(self, output: str) -> int:
        """Creates the jobs."""
        from tfjob.jobs.output import job_shape, print_list
        from tfjob.jobs.report import next_commands
        from tfjob.launch.cluster_creation import created

        with cluster_console(self.on, self.namespace) as console:
            records, interrupted = created(console, self.submission)
        if output != "text":
            print_list("Job", [job_shape(record) for record in records], output)
        for record in records if output == "text" else ():
            click.echo(record.name if is_quiet() else next_commands(record))
        return exit_codes.INTERRUPTED if interrupted else exit_codes.SUCCEEDED

    def attach(self, output: str, *, plain: bool) -> int:
        """Creates the jobs and follows them."""
        from tfjob.cli.terminal.cluster_attach import attach

        with cluster_console(self.on, self.namespace) as console:
            return attach(console, self.submission, output, plain=plain)

    def _kept(self) -> list[dict[str, Any]]:
        """The jobs as the cluster would keep them; only one written for tensorflow.org makes it worth asking."""
        manifests = self.submission.manifests
        if not any(origin(job).is_first for job in self.submission.jobs):
            return manifests
        try:
            with cluster_console(self.on, self.namespace) as console:
                return [console.run(as_kept(console.client, manifest)) for manifest in manifests]
        except KubeError as error:
            click.echo(f"shown as for a cluster with TfJobs of tensorflow.org; it cannot be asked: {error}", err=True)
            return [as_kept_with_tf_jobs(manifest) for manifest in manifests]


def canonical(job: TFJob) -> TFJob:
    """The job with the names of its replica types as the CRD has them."""
    specs = {canonical_type(name): spec for name, spec in job.spec.tf_replica_specs.items()}
    return replace(job, spec=replace(job.spec, tf_replica_specs=specs))

"""`tfjob operator`: install the operator on a cluster, remove it, or print its manifests."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from tfjob.cli import exit_codes
from tfjob.cli.commands.operator_options import options_of, parsed
from tfjob.cli.commands.operator_run import run
from tfjob.cli.commands.operator_self_test import self_test
from tfjob.cli.context import time_span
from tfjob.operator.options import Settings

if TYPE_CHECKING:
    from tfjob.operator.api_versions import ApiVersions
    from tfjob.operator.install.installation import Installation


@click.group()
def operator() -> None:
    """Install, remove or run the operator, which runs TFJobs on Kubernetes."""


operator.add_command(run)
operator.add_command(self_test)


def _read_versions(text: str) -> ApiVersions | None:
    from tfjob.operator.api_versions import ApiVersions

    return ApiVersions.read(text) if text else None


_API_VERSIONS = click.option(
    "--api-versions",
    default="",
    metavar="LIST",
    callback=parsed(_read_versions),
    help="API versions to serve, separated by commas: v1, v1beta2, v1beta1, v1alpha2 and v1alpha1 of kubeflow.org, and "
    "tensorflow.org/v1alpha1; default: v1,v1beta1,v1alpha1,tensorflow.org/v1alpha1.",
)
_CONTEXT = click.option(
    "--context", default=None, metavar="NAME", help="Context of the kubeconfig; default: the current context."
)


@operator.command()
@click.option("--crd-only", is_flag=True, help="Print only the CustomResourceDefinitions.")
@options_of(Settings)
@_API_VERSIONS
@click.option(
    "-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="Output format."
)
def manifests(settings: Settings, crd_only: bool, api_versions: ApiVersions | None, output: str) -> None:
    """Print all objects of an installation, for `kubectl apply -f -`."""
    from tfjob.operator.install import manifests as made

    settings = _serving(settings, api_versions)
    objects = made.crds(settings.namespace, settings.api_versions) if crd_only else made.manifests(_checked(settings))
    click.echo(made.written(objects, output), nl=False)


@operator.command()
@options_of(Settings)
@_API_VERSIONS
@_CONTEXT
@click.option("--take-over", is_flag=True, help="Take over TFJobs from another operator.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the operator is ready.")
@click.option(
    "--timeout", default="2m", show_default=True, metavar="DURATION", callback=time_span, help="How long to wait."
)
def install(
    settings: Settings,
    api_versions: ApiVersions | None,
    context: str | None,
    take_over: bool,
    wait: bool,
    timeout: timedelta,
) -> None:
    """Install the operator on a cluster, or upgrade it.

    Refuses to install while another operator handles TFJobs, and prints the commands that hand over.
    """
    from tfjob.operator.install.installation import on_cluster

    settings = _checked(_serving(settings, api_versions))

    async def work(installation: Installation) -> None:
        await installation.install(take_over=take_over)
        if wait:
            await installation.wait_until_ready(timeout)
            click.echo("the operator is ready")

    on_cluster(context, settings, click.echo, work)


@operator.command()
@options_of(Settings, "namespace", "namespace_only")
@_CONTEXT
@click.option(
    "--purge",
    is_flag=True,
    help="Also delete the CRD with all TFJobs of the cluster, the namespace and the user roles.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation; required for --purge without a terminal.")
def uninstall(settings: Settings, context: str | None, purge: bool, yes: bool) -> None:
    """Remove the operator. Jobs, their pods and the CRD are kept; --purge deletes them too, after asking."""
    from tfjob.operator.install.installation import on_cluster

    async def work(installation: Installation) -> None:
        objects: list[dict[str, Any]] = []
        if purge:
            objects, jobs = await installation.purged()
            _confirm_purge(objects, jobs, yes)
        await installation.uninstall()
        await installation.purge(objects)

    on_cluster(context, settings, click.echo, work)


def _confirm_purge(objects: list[dict[str, Any]], jobs: list[str], yes: bool) -> None:
    names = [f"{one['kind']} {one['metadata']['name']}" for one in objects] + jobs
    click.echo(
        "\n  ".join(("--purge also deletes these objects and everything in them:", *names))
        if names
        else "nothing to purge"
    )
    if not names or yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise exit_codes.Stop(
            exit_codes.BAD_INPUT,
            f"--purge permanently deletes these objects{f' and {len(jobs)} jobs' if jobs else ''}",
            "To confirm: tfjob operator uninstall --purge --yes",
        )
    click.confirm("Delete all of these?", abort=True, err=True)


def _serving(settings: Settings, versions: ApiVersions | None) -> Settings:
    """Set the versions to serve: the requested ones, else all. An operator of one namespace cannot convert."""
    if versions is None:
        return replace(settings, api_versions=settings.api_versions.stored) if settings.namespace_only else settings
    if settings.namespace_only and versions.older:
        raise exit_codes.Stop(
            exit_codes.BAD_INPUT,
            f"--api-versions: {', '.join(versions.older)} cannot be served with --namespace-only",
            "A webhook, which belongs to the whole cluster, converts them: leave out one of the two options.",
        )
    return replace(settings, api_versions=versions)


def _checked(settings: Settings) -> Settings:
    """Return the settings. Raises Stop if an image is missing or invalid."""
    from tfjob.operator.install.manifests import image_problem

    problem, fix = image_problem(settings)
    if problem:
        raise exit_codes.Stop(exit_codes.BAD_INPUT, problem, fix)
    return settings

"""`tfjob operator`: install the operator on a cluster, remove it, print its manifests, run it, or test it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from tfjob.cli import exit_codes
from tfjob.cli.context import WholeNumber, output_choice, time_span, valid_namespace
from tfjob.errors import InvalidRequest
from tfjob.operator.options import OPTION, Options, SelfTestOptions, Settings

if TYPE_CHECKING:
    from tfjob.operator.api_versions import ApiVersions
    from tfjob.operator.install.installation import Installation

Function = Callable[..., Any]
"""The options of a self-test that describe its images."""
PULL_HINT = (
    "Set test_image, tfImage or tensorboardImage in the chart's values, or test.training=false to need none of them."
)


def options_of(kind: type[Any], *only: str) -> Callable[[Function], Function]:
    """Add an option for each `option` field, or only for those named; the command gets the object as first argument."""
    fields = [one for one in dataclasses.fields(kind) if OPTION in one.metadata and (not only or one.name in only)]

    def add(command: Function) -> Function:
        @wraps(command)
        def called(**given: Any) -> Any:
            made = kind(**{one.name: given.pop(one.name) for one in fields})
            return command(made, **given)

        result: Function = called
        for one in reversed(fields):
            result = _option(one)(result)
        return result

    return add


def _option(field: dataclasses.Field[Any]) -> Callable[[Function], Function]:
    settings = dict(field.metadata[OPTION])
    flag = f"--{field.name.replace('_', '-')}"
    names = sorted((flag, *settings.pop("names")), key=lambda name: name.startswith("--"))
    if settings.get("required"):
        return click.option(*names, field.name, **settings)
    default: Any = field.default
    if default is dataclasses.MISSING:
        factory: Any = field.default_factory
        default = lambda: str(factory())  # noqa: E731
    if default is False:
        settings["is_flag"] = True
    elif default is True:
        names = [f"{flag}/--no-{field.name.replace('_', '-')}"]
    if isinstance(default, timedelta):
        default, settings["type"] = f"{default // timedelta(minutes=1)}m", time_span
    elif field.name.endswith("namespace"):
        settings["type"] = valid_namespace
    elif parse := settings.pop("parse", None):
        settings["type"] = _parsed(parse)
        default = default if callable(default) else str(default or "")
    if limits := settings.pop("range", None):
        settings["type"] = WholeNumber(*limits)
    if choices := settings.pop("choices", None):
        settings["type"] = click.Choice(choices)
    settings.setdefault("show_default", bool(default))
    return click.option(*names, field.name, default=default, **settings)


def _parsed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def convert(value: str) -> Any:
        try:
            return parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return convert


def _read_versions(text: str) -> ApiVersions | None:
    from tfjob.operator.api_versions import ApiVersions

    return ApiVersions.read(text) if text else None


def _context(text: str) -> Callable[[Function], Function]:
    return click.option("--context", default="", metavar="NAME", help=f"Context of the kubeconfig; {text}.")


_API_VERSIONS = click.option(
    "--api-versions",
    default="",
    metavar="LIST",
    type=_parsed(_read_versions),
    help="API versions to serve, separated by commas: v1, v1beta2, v1beta1, v1alpha2 and v1alpha1 of kubeflow.org, and "
    "tensorflow.org/v1alpha1; default: v1,v1beta1,v1alpha1,tensorflow.org/v1alpha1.",
)
_CONTEXT, _POD_CONTEXT = _context("default: the current context"), _context("not needed in a pod")


@click.group()
def operator() -> None:
    """Install, remove or run the operator, which runs TFJobs on Kubernetes."""


@operator.command()
@_POD_CONTEXT
@options_of(Options)
def run(options: Options, context: str) -> int:
    """Run the operator in the foreground until SIGTERM.

    Requires the CRD (`tfjob operator manifests --crd-only`), and a kubeconfig or the service account of a pod.
    """
    import logging
    import os

    from tfjob.durations import durations_from

    with exit_codes.needs("operator"):
        from tfjob.operator.process import logs, manager

    logs.configure(json=options.log_format == "json", level=logging.getLevelNamesMapping()[options.log_level.upper()])
    return manager.main(context, replace(options, durations=durations_from(os.environ)))


@operator.command("self-test")
@options_of(SelfTestOptions)
@_POD_CONTEXT
def self_test(options: SelfTestOptions, context: str) -> None:
    """Run a test job, delete it and print PASSED.

    The job has a master, a worker, a parameter server and a TensorBoard. The exit code is 1 if the job fails or an
    image cannot be pulled, and 4 if the job does not end in time.
    """
    from tfjob.operator.install.rollout import NotReady
    from tfjob.operator.selftest.self_test import Failed, NotPulled, run_self_test

    try:
        run_self_test(context or None, options, click.echo)
    except NotPulled as error:
        raise exit_codes.Stop(exit_codes.FAILED, error.message, PULL_HINT) from None
    except Failed as error:
        raise exit_codes.Stop(exit_codes.FAILED, error.message) from None
    except NotReady as error:
        hint = "To check whether the operator is running: tfjob doctor --on k8s"
        raise exit_codes.Stop(exit_codes.TIMEOUT, error.message, hint) from None
    click.echo("PASSED")


@operator.command()
@click.option(
    "--crd-only",
    is_flag=True,
    help="Print only the CRDs; with --namespace-only, those that must be installed first.",
)
@options_of(Settings)
@_API_VERSIONS
@output_choice("yaml", "json")
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
@click.option("--take-over", is_flag=True, help="Make other operators leave TFJobs alone, then install.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the operator is ready.")
@click.option(
    "--timeout", default="2m", show_default=True, metavar="DURATION", type=time_span, help="How long to wait."
)
def install(
    settings: Settings,
    api_versions: ApiVersions | None,
    context: str,
    take_over: bool,
    wait: bool,
    timeout: timedelta,
) -> None:
    """Install the operator on a cluster, or upgrade it.

    If another operator manages the TFJobs of the cluster, such as training-operator, nothing is installed, and you see
    the commands that make it leave TFJobs alone. With --take-over, tfjob runs these commands and then installs.
    """
    from tfjob.operator.install.installation import on_cluster

    settings = _checked(_serving(settings, api_versions))

    async def work(installation: Installation) -> None:
        await installation.install(take_over=take_over)
        if wait:
            await installation.wait_until_ready(timeout)
            click.echo("the operator is ready")

    on_cluster(context or None, settings, click.echo, work)


@operator.command()
@options_of(Settings, "namespace")
@click.option("--namespace-only", is_flag=True, help="Remove an operator that was installed with --namespace-only.")
@_CONTEXT
@click.option(
    "--purge",
    is_flag=True,
    help="Also delete the CRDs with all TFJobs of the cluster, the namespace tf-job-operator, and the ClusterRoles "
    "that let users view and edit TFJobs.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation; required for --purge without a terminal.")
def uninstall(settings: Settings, namespace_only: bool, context: str, purge: bool, yes: bool) -> None:
    """Remove the operator. Jobs, their pods and the CRDs are kept, unless --purge deletes them."""
    from tfjob.operator.install.installation import on_cluster

    async def work(installation: Installation) -> None:
        objects: list[dict[str, Any]] = []
        if purge:
            objects, jobs = await installation.purged()
            _confirm_purge(objects, jobs, yes)
        await installation.uninstall()
        await installation.purge(objects)

    on_cluster(context or None, replace(settings, namespace_only=namespace_only), click.echo, work)


def _confirm_purge(objects: list[dict[str, Any]], jobs: list[str], yes: bool) -> None:
    names = [f"{one['kind']} {one['metadata']['name']}" for one in objects] + jobs
    title = "--purge also deletes these objects and everything in them:" if names else "nothing to purge"
    click.echo("\n  ".join([title, *names]))
    if not names or yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise InvalidRequest(
            "--purge permanently deletes these objects",
            "To confirm: tfjob operator uninstall --purge --yes",
        )
    click.confirm("Delete all of these?", abort=True, err=True)


def _serving(settings: Settings, versions: ApiVersions | None) -> Settings:
    """Set the versions to serve: the requested ones, else all. An operator of one namespace cannot convert."""
    if versions is None:
        return replace(settings, api_versions=settings.api_versions.stored) if settings.namespace_only else settings
    if settings.namespace_only and versions.older:
        raise InvalidRequest(
            f"--api-versions: {', '.join(versions.older)} cannot be served with --namespace-only",
            "Older versions need a webhook, which --namespace-only does not install: omit one of the two options.",
        )
    return replace(settings, api_versions=versions)


def _checked(settings: Settings) -> Settings:
    from tfjob.operator.install.manifests import image_problem

    problem, fix = image_problem(settings)
    if problem:
        raise InvalidRequest(problem, fix)
    return settings

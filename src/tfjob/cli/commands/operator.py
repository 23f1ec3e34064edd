"""`tfjob operator`: put the operator on a cluster, take it off, or print what that would be."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tfjob.cli import exit_codes
from tfjob.cli.commands.operator_run import run
from tfjob.cli.commands.operator_self_test import self_test
from tfjob.cli.context import time_span, valid_namespace

if TYPE_CHECKING:
    from tfjob.operator.api_versions import ApiVersions
    from tfjob.operator.install.installation import Installation
    from tfjob.operator.install.manifests import Settings

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group()
def operator() -> None:
    """Install, remove or run the operator, which runs TFJobs on Kubernetes."""


operator.add_command(run)
operator.add_command(self_test)


def _api_versions(ctx: click.Context, param: click.Parameter, value: str) -> ApiVersions | None:
    from tfjob.operator.api_versions import ApiVersions

    try:
        return ApiVersions.read(value) if value else None
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


_PLACE = (
    click.option(
        "-n",
        "--namespace",
        default="tf-job-operator",
        show_default=True,
        metavar="NAME",
        callback=valid_namespace,
        help="Where the operator runs.",
    ),
    click.option(
        "--namespace-only",
        is_flag=True,
        help="Look after that namespace alone: a Role instead of a ClusterRole, no webhook, no CRD.",
    ),
)
_API_VERSIONS = click.option(
    "--api-versions",
    default="",
    metavar="LIST",
    callback=_api_versions,
    help="Versions to serve, with commas between them: v1, v1beta2, v1beta1, v1alpha2, v1alpha1 of kubeflow.org, and "
    "tensorflow.org/v1alpha1; unset: v1,v1beta1,v1alpha1,tensorflow.org/v1alpha1.",
)
_SETTINGS = (
    click.option("--image", default="", metavar="IMAGE", help="The operator's image; none is published yet."),
    *_PLACE,
    _API_VERSIONS,
    click.option(
        "--replicas",
        type=click.IntRange(1, 5),
        default=1,
        show_default=True,
        help="Operator pods; one leads, the others stand by.",
    ),
    click.option(
        "--pull-policy",
        type=click.Choice(["IfNotPresent", "Always", "Never"]),
        default="IfNotPresent",
        show_default=True,
        help="When the image is pulled.",
    ),
    click.option("--pull-secret", default="", metavar="NAME", help="The Secret to pull the image with."),
    click.option(
        "--gang-scheduler-name",
        default="",
        metavar="NAME",
        help="volcano, or the name of a scheduler with the coscheduling plugin.",
    ),
    click.option(
        "--tensorboard-image",
        default="",
        metavar="IMAGE",
        help="The image of TensorBoards; unset: tf-job-tensorboard beside the operator's, with its tag.",
    ),
)
"""What an installation may choose."""
_CONTEXT = click.option(
    "--context", default=None, metavar="NAME", help="The context of the kubeconfig; unset: the current one."
)


def _with(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


@operator.command()
@click.option("--crd-only", is_flag=True, help="Only the CustomResourceDefinitions.")
@_with(*_SETTINGS)
@click.option(
    "-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="Output format."
)
def manifests(crd_only: bool, output: str, **options: Any) -> None:
    """Print everything that an installation consists of, for `kubectl apply -f -`."""
    import msgspec

    from tfjob.api.text.writer import plain_yaml
    from tfjob.operator.install import manifests as made

    crds = made.crds(options["namespace"], _versions(options["api_versions"], options["namespace_only"]))
    objects = crds if crd_only else made.manifests(_settings(**options))
    if output == "json":
        whole = objects[0] if len(objects) == 1 else {"apiVersion": "v1", "kind": "List", "items": objects}
        click.echo(msgspec.json.format(msgspec.json.encode(whole)).decode())
        return
    click.echo(plain_yaml(objects), nl=False)


@operator.command()
@_with(*_SETTINGS, _CONTEXT)
@click.option("--take-over", is_flag=True, help="Make an operator that handles TFJobs leave them to this one.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the operator is ready.")
@click.option(
    "--timeout", default="2m", show_default=True, metavar="SPAN", callback=time_span, help="How long to wait."
)
def install(context: str | None, take_over: bool, wait: bool, timeout: timedelta, **options: Any) -> None:
    """Put the operator on a cluster, or bring it up to date.

    It is refused while another operator handles TFJobs; the message has the commands that hand over.
    """
    settings = _settings(**options)

    async def work(installation: Installation) -> None:
        await installation.install(take_over=take_over)
        if wait:
            await installation.wait_until_ready(timeout.total_seconds())
            click.echo("the operator is ready")

    _on_cluster(context, settings, work)


@operator.command()
@_with(*_PLACE, _CONTEXT)
@click.option(
    "--purge", is_flag=True, help="Also the CRD with every TFJob of the cluster, the namespace, roles of users."
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask; needed for --purge where there is no terminal to ask on.")
def uninstall(context: str | None, purge: bool, yes: bool, namespace: str, namespace_only: bool) -> None:
    """Remove the operator. Jobs, their pods and the CRD stay; --purge lists what else goes before it asks."""
    from tfjob.operator.install.manifests import Settings

    async def work(installation: Installation) -> None:
        objects: list[dict[str, Any]] = []
        if purge:
            objects, jobs = await installation.purged()
            _confirm_purge(objects, jobs, yes)
        await installation.uninstall()
        await installation.purge(objects)

    _on_cluster(context, Settings(image="", namespace=namespace, one_namespace=namespace_only), work)


def _confirm_purge(objects: list[dict[str, Any]], jobs: list[str], yes: bool) -> None:
    names = [f"{one['kind']} {one['metadata']['name']}" for one in objects] + jobs
    click.echo("\n  ".join(("--purge also deletes, with everything in them:", *names)) if names else "nothing to purge")
    if not names or yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise exit_codes.Stop(
            exit_codes.BAD_INPUT,
            f"--purge deletes {len(jobs)} jobs for good" if jobs else "--purge deletes for good",
            "Say that you mean it: tfjob operator uninstall --purge --yes",
        )
    click.confirm("Delete all this?", abort=True, err=True)


def _on_cluster(
    context: str | None, settings: Settings, work: Callable[[Installation], Coroutine[Any, Any, None]]
) -> None:
    """Does the work on the cluster of a context, saying each step."""
    import asyncio

    from tfjob.kube.access import config
    from tfjob.kube.client.client import Client
    from tfjob.operator.install.installation import Installation

    access = config.load(context)

    async def connected() -> None:
        async with Client(access) as client:
            await work(Installation(client, settings, click.echo))

    asyncio.run(connected())


def _versions(given: ApiVersions | None, namespace_only: bool) -> ApiVersions:
    """Those that were asked for, else all that can be served: an operator of one namespace converts nothing."""
    from tfjob.operator.api_versions import ApiVersions

    return given or (ApiVersions().stored if namespace_only else ApiVersions())


def _settings(
    image: str,
    namespace: str,
    namespace_only: bool,
    replicas: int,
    pull_policy: str,
    pull_secret: str,
    gang_scheduler_name: str,
    tensorboard_image: str,
    api_versions: ApiVersions | None,
) -> Settings:
    """The choices of a command line; an image must be among them."""
    from tfjob.api.image_reference import image_fault
    from tfjob.operator.install.manifests import Settings

    if not image:
        raise exit_codes.Stop(
            exit_codes.BAD_INPUT,
            "--image is missing: no release of tfjob publishes an image of the operator yet",
            "Build and push one as docs/guides/operator.md shows, and name it: --image REGISTRY/tf-job-operator:TAG",
        )
    for option, name in (("--image", image), ("--tensorboard-image", tensorboard_image)):
        if name and any(fault := image_fault(name)):
            raise exit_codes.Stop(exit_codes.BAD_INPUT, f"{option} {name}: {fault[0]}", fault[1])
    if namespace_only and api_versions and api_versions.older:
        raise exit_codes.Stop(
            exit_codes.BAD_INPUT,
            f"--api-versions: {', '.join(api_versions.older)} cannot be served with --namespace-only",
            "They are converted by a webhook, which belongs to the whole cluster: leave out one of the two options.",
        )
    return Settings(
        image=image,
        namespace=namespace,
        one_namespace=namespace_only,
        replicas=replicas,
        pull_policy=pull_policy,
        pull_secret=pull_secret,
        gang_scheduler=gang_scheduler_name,
        tensorboard_image=tensorboard_image,
        api_versions=_versions(api_versions, namespace_only),
    )

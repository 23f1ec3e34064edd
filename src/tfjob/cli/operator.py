"""`tfjob operator`: put the operator on a cluster, take it off, or print what that would be."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tfjob.cli import outcome
from tfjob.cli.context import valid_namespace

if TYPE_CHECKING:
    from tfjob.operator.manifests import Settings

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group()
def operator() -> None:
    """Install, remove or run the operator, which runs TFJobs on Kubernetes."""


_SETTINGS = (
    click.option("--image", default="", metavar="IMAGE", help="The operator's image; none is published yet."),
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
)
"""What an installation may choose."""


def _settings_options(command: Command) -> Command:
    for option in reversed(_SETTINGS):
        command = option(command)
    return command


@operator.command()
@click.option("--crd-only", is_flag=True, help="Only the CustomResourceDefinition.")
@_settings_options
@click.option(
    "-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="Output format."
)
def manifests(crd_only: bool, output: str, **options: Any) -> None:
    """Print everything that an installation consists of, for `kubectl apply -f -`."""
    import msgspec
    import yaml

    from tfjob.api.crd import crd
    from tfjob.operator.manifests import manifests as all_manifests

    objects = [crd()] if crd_only else all_manifests(_settings(**options))
    if output == "json":
        whole = objects[0] if crd_only else {"apiVersion": "v1", "kind": "List", "items": objects}
        click.echo(msgspec.json.format(msgspec.json.encode(whole)).decode())
        return

    class Plain(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        """Writes what two places of the schema share twice, not as an anchor and an alias."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    click.echo(yaml.dump_all(objects, Dumper=Plain, sort_keys=False, width=120), nl=False)


def _settings(
    image: str,
    namespace: str,
    namespace_only: bool,
    replicas: int,
    pull_policy: str,
    pull_secret: str,
    gang_scheduler_name: str,
) -> Settings:
    """The choices of a command line; an image must be among them."""
    from tfjob.api.image_reference import image_fault
    from tfjob.operator.manifests import Settings

    if not image:
        raise outcome.Stop(
            outcome.BAD_INPUT,
            "--image is missing: no release of tfjob publishes an image of the operator yet",
            "Build and push one as docs/guides/operator.md shows, and name it: --image REGISTRY/tf-job-operator:TAG",
        )
    if any(fault := image_fault(image)):
        raise outcome.Stop(outcome.BAD_INPUT, f"--image {image}: {fault[0]}", fault[1])
    return Settings(
        image=image,
        namespace=namespace,
        one_namespace=namespace_only,
        replicas=replicas,
        pull_policy=pull_policy,
        pull_secret=pull_secret,
        gang_scheduler=gang_scheduler_name,
    )

"""`tfjob operator run`: the operator itself, in a pod or on any machine that reaches the API server."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from tfjob.cli.context import time_span, valid_namespace

if TYPE_CHECKING:
    from tfjob.operator.options import Address


def _port(number: int) -> Callable[[], str]:
    """Where a port is served unless the command line says it: on a machine of somebody's, to that machine alone."""
    return lambda: f"{'' if os.environ.get('KUBERNETES_SERVICE_HOST') else '127.0.0.1'}:{number}"


def _address(ctx: click.Context, param: click.Parameter, value: str) -> Address:
    from tfjob.operator.options import Address

    try:
        return Address.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def _groups(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    from tfjob.api.dialect import JOB_KINDS

    known, given = [one.group for one in JOB_KINDS.values()], [word.strip() for word in value.split(",") if value]
    for name in given:
        if name not in known:
            said = f"{name or 'an empty name'} is no group of jobs, known are {', '.join(known)}"
            raise click.BadParameter(said, ctx, param)
    return tuple(given)


@click.command()
@click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig; inside a pod none is needed.")
@click.option(
    "-n",
    "--namespace",
    default="",
    envvar="KUBEFLOW_NAMESPACE",
    metavar="NAME",
    callback=valid_namespace,
    help="Look after one namespace alone; a Role is enough for that.",
)
@click.option(
    "--api-groups",
    default="",
    metavar="LIST",
    callback=_groups,
    help="Groups of jobs to look after, kubeflow.org and tensorflow.org; unset: those that the cluster has.",
)
@click.option(
    "--workers",
    "--controller-threads",
    default=8,
    show_default=True,
    type=click.IntRange(1, 64),
    help="Jobs looked at at once.",
)
@click.option("--leader-elect", is_flag=True, help="Work only while holding the Lease tf-operator.")
@click.option(
    "--lease-namespace",
    default="",
    envvar="POD_NAMESPACE",
    metavar="NAME",
    callback=valid_namespace,
    help="Namespace of the Lease; by default the operator's own.",
)
@click.option(
    "--metrics-bind-address",
    default=_port(8080),
    show_default="127.0.0.1:8080; in a pod :8080",
    metavar="ADDRESS",
    callback=_address,
    help="Where /metrics is served; 0 for nowhere.",
)
@click.option(
    "--health-probe-bind-address",
    default=_port(8081),
    show_default="127.0.0.1:8081; in a pod :8081",
    metavar="ADDRESS",
    callback=_address,
    help="Where /healthz and /readyz are served; 0 for nowhere.",
)
@click.option(
    "--webhook-bind-address",
    default="0",
    show_default=True,
    metavar="ADDRESS",
    callback=_address,
    help="Where the admission webhook is served; 0 for nowhere.",
)
@click.option(
    "--gang-scheduler-name",
    default="",
    metavar="NAME",
    help="volcano, or the name of a scheduler with the coscheduling plugin.",
)
@click.option(
    "--tensorboard-image",
    default="",
    metavar="IMAGE",
    help="The image of TensorBoards whose jobs name none; unset: the one that tools/image.py makes.",
)
@click.option(
    "--cluster-domain",
    default="",
    envvar="CUSTOM_CLUSTER_DOMAIN",
    metavar="DOMAIN",
    help="Appended to the hosts in TF_CONFIG.",
)
@click.option(
    "--pending-grace",
    default="5m",
    show_default=True,
    metavar="AGE",
    callback=time_span,
    help="How long a missing Secret, image or the like may be missing.",
)
@click.option(
    "--last-lines/--no-last-lines",
    default=True,
    show_default=True,
    help="Keep the last lines of a failed replica in the status.",
)
@click.option(
    "--tf-image",
    default="",
    metavar="IMAGE",
    help="Image of default parameter servers for jobs that name none.",
)
@click.option(
    "--config-map",
    default="tf-job-operator-config",
    show_default=True,
    metavar="NAME",
    help="ConfigMap of the operator's namespace with its configuration: accelerators and the like.",
)
@click.option(
    "--config-key",
    default="controller_config_file.yaml",
    show_default=True,
    metavar="KEY",
    help="Key of that ConfigMap; where it has none of that name, those of earlier releases count, and a single one.",
)
@click.option(
    "--controller-config-file",
    "--controller_config_file",
    default="",
    metavar="FILE",
    help="Read the configuration from a file and from no ConfigMap.",
)
@click.option(
    "--log-format",
    type=click.Choice(["json", "text"]),
    default="json",
    show_default=True,
    help="How the log is written.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="What is logged.",
)
def run(
    context: str,
    namespace: str,
    api_groups: tuple[str, ...],
    workers: int,
    leader_elect: bool,
    lease_namespace: str,
    metrics_bind_address: Address,
    health_probe_bind_address: Address,
    webhook_bind_address: Address,
    gang_scheduler_name: str,
    tensorboard_image: str,
    cluster_domain: str,
    pending_grace: timedelta,
    last_lines: bool,
    tf_image: str,
    config_map: str,
    config_key: str,
    controller_config_file: str,
    log_format: str,
    log_level: str,
) -> int:
    """Run the operator in the foreground until SIGTERM.

    It needs the CRD (`tfjob operator manifests --crd-only`) and a kubeconfig, or the service account of its pod.
    """
    import logging
    import os

    from tfjob.cli import exit_codes
    from tfjob.durations import durations_from

    with exit_codes.needs("operator"):
        from tfjob.kube.access import config
        from tfjob.operator.options import Options
        from tfjob.operator.process import logs, manager
        from tfjob.plan.build.pods import TENSORBOARD_IMAGE

    access = config.load(context or None)
    logs.configure(json=log_format == "json", level=logging.getLevelNamesMapping()[log_level.upper()])
    options = Options(
        namespace=namespace,
        groups=api_groups,
        workers=workers,
        leader_elect=leader_elect,
        lease_namespace=lease_namespace,
        metrics=metrics_bind_address,
        health=health_probe_bind_address,
        webhook=webhook_bind_address,
        gang_scheduler=gang_scheduler_name,
        tensorboard_image=tensorboard_image or TENSORBOARD_IMAGE,
        cluster_domain=cluster_domain,
        pending_grace=pending_grace,
        last_lines=last_lines,
        tf_image=tf_image,
        config_map=config_map,
        config_key=config_key,
        config_file=controller_config_file,
        durations=durations_from(os.environ),
    )
    return manager.main(access, options)

"""`tfjob operator self-test`: test that an installation runs a job, for `helm test` and for people."""

from __future__ import annotations

from datetime import timedelta

import click

from tfjob.cli.context import time_span, valid_namespace
from tfjob.operator.options import PULL_POLICIES

PULL_HINT = (
    "Set test_image, tfImage or tensorboardImage in the chart's values, or test.training=false to need none of them."
)


@click.command("self-test")
@click.option("--image", required=True, metavar="IMAGE", help="Image of the operator.")
@click.option(
    "--test-image",
    default="",
    metavar="IMAGE",
    help="Image that trains with TensorFlow; default: the operator's image, whose replicas only connect to each other.",
)
@click.option(
    "--tf-image",
    default="",
    metavar="IMAGE",
    help="Image of the parameter server (with --test-image only; default: the same image).",
)
@click.option(
    "--api-version",
    type=click.Choice(["kubeflow.org/v1", "tensorflow.org/v1alpha1"]),
    default=None,
    help="API version of the job; default: tensorflow.org/v1alpha1 if the cluster serves it.",
)
@click.option(
    "-n",
    "--namespace",
    default="",
    metavar="NAME",
    callback=valid_namespace,
    help="Namespace of the job; default: that of the context or pod.",
)
@click.option(
    "--pull-policy",
    type=click.Choice(PULL_POLICIES),
    default="IfNotPresent",
    show_default=True,
    help="When to pull the images.",
)
@click.option("--pull-secret", default="", metavar="NAME", help="Secret to pull the images with.")
@click.option("--context", default=None, metavar="NAME", help="Context of the kubeconfig; not needed in a pod.")
@click.option(
    "--timeout",
    default="3m",
    show_default=True,
    metavar="DURATION",
    callback=time_span,
    help="Time limit for the job, including the pull of its images.",
)
def self_test(namespace: str, api_version: str | None, context: str | None, timeout: timedelta, **images: str) -> None:
    """Run a job with a master, a worker, a parameter server and a TensorBoard, delete it and print PASSED.

    The exit code is 1 if the job fails or an image cannot be pulled, and 4 if the job does not end in time.
    """
    from tfjob.cli import exit_codes
    from tfjob.operator.install.rollout import NotReady
    from tfjob.operator.selftest.self_test import Failed, NotPulled, run_self_test

    try:
        run_self_test(context, namespace, api_version, timeout, click.echo, **images)
    except NotPulled as error:
        raise exit_codes.Stop(exit_codes.FAILED, error.message, PULL_HINT) from None
    except Failed as error:
        raise exit_codes.Stop(exit_codes.FAILED, error.message) from None
    except NotReady as error:
        raise exit_codes.Stop(
            exit_codes.TIMEOUT, error.message, "To check whether the operator is running: tfjob doctor --on k8s"
        ) from None
    click.echo("PASSED")

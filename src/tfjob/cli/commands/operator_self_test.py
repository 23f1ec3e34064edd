"""`tfjob operator self-test`: whether an installation runs a job, for `helm test` and for people."""

from __future__ import annotations

from datetime import timedelta

import click

from tfjob.cli.context import time_span, valid_namespace
from tfjob.operator.options import PULL_POLICIES

PULL_HINT = "The chart's values test_image, tfImage and tensorboardImage name others; test.training=false needs none."


@click.command("self-test")
@click.option("--image", required=True, metavar="IMAGE", help="The operator's image.")
@click.option(
    "--test-image",
    default="",
    metavar="IMAGE",
    help="An image with TensorFlow whose program trains; unset: the operator's, with which the replicas only meet.",
)
@click.option(
    "--tf-image",
    default="",
    metavar="IMAGE",
    help="With --test-image, the image of the parameter server; unset: the same.",
)
@click.option(
    "--api-version",
    type=click.Choice(["kubeflow.org/v1", "tensorflow.org/v1alpha1"]),
    default=None,
    help="Of the job; unset: tensorflow.org/v1alpha1 where the cluster has it.",
)
@click.option(
    "-n", "--namespace", default="", metavar="NAME", callback=valid_namespace, help="Where the job runs; unset: here."
)
@click.option(
    "--pull-policy",
    type=click.Choice(PULL_POLICIES),
    default="IfNotPresent",
    show_default=True,
    help="When the images are pulled.",
)
@click.option("--pull-secret", default="", metavar="NAME", help="The Secret to pull the images with.")
@click.option("--context", default=None, metavar="NAME", help="The context of the kubeconfig; none is needed in a pod.")
@click.option(
    "--timeout",
    default="3m",
    show_default=True,
    metavar="SPAN",
    callback=time_span,
    help="How long the job may take, with the pull of its images.",
)
def self_test(namespace: str, api_version: str | None, context: str | None, timeout: timedelta, **images: str) -> None:
    """Run a job with a master, a worker, a parameter server and a TensorBoard to its end, remove it, say PASSED.

    The exit code is 1 if the job fails or an image cannot be pulled, and 4 if it does not end in time.
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
            exit_codes.TIMEOUT, error.message, "Is the operator running? tfjob doctor --on k8s"
        ) from None
    click.echo("PASSED")

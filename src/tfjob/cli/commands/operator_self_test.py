"""`tfjob operator self-test`: whether an installation runs a job, for `helm test` and for people."""

from __future__ import annotations

from datetime import timedelta

import click

from tfjob.cli.context import time_span, valid_namespace

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
    type=click.Choice(["IfNotPresent", "Always", "Never"]),
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
def self_test(
    image: str,
    test_image: str,
    tf_image: str,
    api_version: str | None,
    namespace: str,
    pull_policy: str,
    pull_secret: str,
    context: str | None,
    timeout: timedelta,
) -> None:
    """Run a job with a master, a worker, a parameter server and a TensorBoard to its end, remove it, say PASSED.

    The exit code is 1 if the job fails or an image cannot be pulled, and 4 if it does not end in time.
    """
    import asyncio
    import secrets

    from tfjob.api.dialect import JOB_KINDS, TF_JOBS
    from tfjob.api.types import TFJOBS
    from tfjob.cli import exit_codes
    from tfjob.kube.access import config
    from tfjob.kube.client.client import Client
    from tfjob.kube.jobs.jobs import serves
    from tfjob.operator.install.rollout import NotReady
    from tfjob.operator.selftest.self_test import Failed, NotPulled, SelfTest, Trial

    access = config.load(context)
    trial = Trial(
        name=f"tfjob-test-{secrets.token_hex(3)}",
        namespace=namespace or access.namespace,
        image=image,
        test_image=test_image,
        tf_image=tf_image,
        pull_policy=pull_policy,
        pull_secret=pull_secret,
    )

    async def connected() -> None:
        async with Client(access) as client:
            known = {one.api_version: one for one in JOB_KINDS.values()}
            resource = known[api_version] if api_version else TF_JOBS if await serves(client, TF_JOBS) else TFJOBS
            await SelfTest(client, trial, click.echo).run(resource, int(timeout.total_seconds()))

    try:
        asyncio.run(connected())
    except NotPulled as error:
        raise exit_codes.Stop(exit_codes.FAILED, error.message, PULL_HINT) from None
    except Failed as error:
        raise exit_codes.Stop(exit_codes.FAILED, error.message) from None
    except NotReady as error:
        raise exit_codes.Stop(
            exit_codes.TIMEOUT, error.message, "Is the operator running? tfjob doctor --on k8s"
        ) from None
    click.echo("PASSED")

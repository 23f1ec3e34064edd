"""Admission on a real API server: refusals, warnings, trust, and a cluster that goes on without the operator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from devcluster.client import Client as Kubernetes
from support.last_callers import forget_last_callers
from support.ports import free_port
from support.served import serve_tfjobs
from tfjob.durations import Durations
from tfjob.kube.access import config
from tfjob.kube.client.client import Client
from tfjob.operator.api_versions import ApiVersions
from tfjob.operator.install import rbac
from tfjob.operator.install.manifests import own_namespace, service_account, webhook
from tfjob.operator.options import NAME, NAMESPACE, Address, Settings
from tfjob.operator.webhook.certificates import LIFETIME, RENEW_BEFORE
from tfjob.operator.webhook.server import Webhook
from tfjob.operator.webhook.server import logger as webhook_logger

Object = dict[str, Any]
OPERATOR = f"system:serviceaccount:{NAMESPACE}:{NAME}"


@pytest.fixture(autouse=True)
def webhook_ends() -> Iterator[None]:
    """The API server may call it once more while it ends."""
    yield
    forget_last_callers()


@pytest.fixture(scope="module")
def server(own_cluster: Kubernetes) -> Kubernetes:
    """An API server with the CRD and the operator's rights."""
    serve_tfjobs(own_cluster)
    own_cluster.apply(own_namespace(), service_account(Settings(image="")), *rbac.for_cluster(NAMESPACE, ApiVersions()))
    return own_cluster


def job(name: str, **worker: Any) -> str:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "python:3", **worker.pop("container", {})}]}}
    spec = {"tfReplicaSpecs": {"Worker": {"template": template, **worker}}}
    return json.dumps(
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "metadata": {"name": name, "namespace": "default"},
            "spec": spec,
        }
    )


def configured(server: Kubernetes, port: int, *, required: bool = True) -> None:
    """The webhook at a port of this machine. `required` shows whether it was really asked and believed."""
    configuration = webhook(NAMESPACE, ApiVersions(), url=f"https://127.0.0.1:{port}/validate")
    if required:
        configuration["webhooks"][0]["failurePolicy"] = "Fail"
    server.kubectl("delete", "validatingwebhookconfiguration", NAME, "--ignore-not-found")
    server.apply(configuration)


@asynccontextmanager
async def serving(server: Kubernetes, port: int, **options: Any) -> AsyncIterator[Webhook]:
    """A webhook of this process with the rights of the operator, and no others."""
    access = config.load(environ=server.environment())
    as_operator = replace(access, impersonation=(("Impersonate-User", OPERATOR),))
    soon = timedelta(seconds=0.2)
    durations = Durations(trust_check=soon, trust_retry=soon, trust_spread=timedelta(seconds=2))
    async with Client(as_operator, durations=durations) as client:
        one = Webhook(client, Address("127.0.0.1", port), ["127.0.0.1"], **options)
        task = asyncio.create_task(one.run())
        try:
            await until(lambda: bool(not one.fault()))
            yield one
        finally:
            task.cancel()
            await asyncio.wait([task])


async def until(met: Callable[[], bool | Awaitable[bool]], seconds: float = 90) -> None:
    async with asyncio.timeout(seconds):
        while True:
            found = met()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.sleep(0.1)


async def create(server: Kubernetes, text: str) -> str:
    """Creates it as a dry run; what kubectl said, its errors and warnings included."""
    process = await asyncio.create_subprocess_exec(
        str(server.programs / "kubectl"),
        *("create", "--dry-run=server", "-f", "-"),
        env=server.environment(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate(text.encode())
    return printed.decode()


async def trusted(server: Kubernetes) -> bool:
    return "created" in await create(server, job("probe"))


@pytest.mark.faults
def test_an_invalid_job_is_refused_with_every_fault_and_a_misspelt_field_is_warned_about(server: Kubernetes) -> None:
    async def case() -> None:
        port = free_port()
        configured(server, port)
        async with serving(server, port):
            await until(lambda: trusted(server))
            bad = await create(server, job("bad.name", replicas=-1, restartPolicy="Sometimes"))
            for path in (
                "metadata.name",
                "spec.tfReplicaSpecs.Worker.replicas",
                "spec.tfReplicaSpecs.Worker.restartPolicy",
            ):
                assert path in bad, bad
            misspelt = await create(server, job("good", container={"imagePullPolice": "Never"}))
            assert "Warning: spec.tfReplicaSpecs.Worker.template.spec.containers[0].imagePullPolice" in misspelt
            assert "imagePullPolicy" in misspelt
            assert "good created" in misspelt
            generated = json.loads(job("x"))
            generated["metadata"] = {"generateName": "swept-", "namespace": "default"}
            assert "created" in await create(server, json.dumps(generated))

    asyncio.run(case())


def test_without_an_answer_nothing_is_blocked(server: Kubernetes) -> None:
    """The operator is down: even a job that it would refuse is stored, and judged when it is back."""
    configured(server, free_port(), required=False)
    server.kubectl("create", "-f", "-", stdin=job("unjudged", restartPolicy="Sometimes"))
    server.kubectl("delete", "tfjob", "unjudged", "-n", "default")


@pytest.mark.faults
def test_two_replicas_are_trusted_at_once_and_a_certificate_is_replaced_without_a_gap(server: Kubernetes) -> None:
    """The API server is sent to each in turn, and must believe both; then one certificate comes to its end."""
    now = [datetime.now(UTC)]

    async def case() -> None:
        one, two = free_port(), free_port()
        configured(server, one)
        async with serving(server, one, clock=lambda: now[0]), serving(server, two):
            await until(lambda: trusted(server))
            patch = [
                {"op": "replace", "path": "/webhooks/0/clientConfig/url", "value": f"https://127.0.0.1:{two}/validate"}
            ]
            server.kubectl("patch", "validatingwebhookconfiguration", NAME, "--type=json", "-p", json.dumps(patch))
            await until(lambda: trusted(server))
            patch[0]["value"] = f"https://127.0.0.1:{one}/validate"
            server.kubectl("patch", "validatingwebhookconfiguration", NAME, "--type=json", "-p", json.dumps(patch))
            await until(lambda: trusted(server))
            before = await shown(one)
            now[0] += LIFETIME - RENEW_BEFORE + timedelta(minutes=1)
            while await shown(one) == before:
                assert await trusted(server)
            assert await trusted(server)

    asyncio.run(case())


@pytest.mark.faults
def test_a_configuration_that_comes_later_gets_the_certificate_and_is_not_missed_before(
    server: Kubernetes, caplog: pytest.LogCaptureFixture
) -> None:
    async def case() -> None:
        server.kubectl("delete", "validatingwebhookconfiguration", NAME, "--ignore-not-found")
        port = free_port()
        async with serving(server, port):
            assert "cannot publish" not in caplog.text
            configured(server, port)
            await until(lambda: trusted(server))

    with caplog.at_level("WARNING", webhook_logger.name):
        asyncio.run(case())


async def shown(port: int) -> bytes:
    """The certificate that a server shows."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    seen: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return seen

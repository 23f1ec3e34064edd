"""The client, the reflector and the lease on a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from devcluster.client import Client as Cluster
from tfjob.api.objects import Pod
from tfjob.api.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    PODS,
    SERVICE_ACCOUNTS,
    Resource,
)
from tfjob.durations import USUAL, Durations
from tfjob.kube.access import config
from tfjob.kube.access.config import Access
from tfjob.kube.access.credentials import Credential, bearer
from tfjob.kube.access.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, Unauthorized
from tfjob.kube.cache.reflector import Reflector
from tfjob.kube.cache.store import ObjectStore
from tfjob.kube.client.client import Client
from tfjob.kube.cluster.lease import Lease

decode = msgspec.json.Decoder(Pod).decode


@pytest.fixture
def access(control_plane: Cluster, control_plane_namespace: str) -> Access:
    return replace(config.load(None, {"KUBECONFIG": str(control_plane.kubeconfig)}), namespace=control_plane_namespace)


def with_client(access: Access, test: Callable[[Client, str], Awaitable[None]], durations: Durations = USUAL) -> None:
    async def run() -> None:
        async with Client(access, durations=durations) as client:
            await asyncio.wait_for(test(client, access.namespace), timeout=60)

    asyncio.run(run())


def pod(name: str, **labels: str) -> dict[str, Any]:
    # No scheduler places it, so a deletion takes effect at once.
    spec = {"schedulerName": "none", "containers": [{"name": "tensorflow", "image": "example.com/x:1"}]}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def settings(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


async def until(condition: Callable[[], Any]) -> None:
    while not condition():
        await asyncio.sleep(0.02)


def test_an_object_from_its_creation_to_its_deletion(access: Access) -> None:
    async def test(client: Client, namespace: str) -> None:
        made = decode(await client.create(PODS, namespace, pod("a", app="x")))
        assert (await client.get(PODS, namespace, "a"))["metadata"]["uid"] == made.metadata.uid
        with pytest.raises(AlreadyExists):
            await client.create(PODS, namespace, pod("a"))
        status = {"status": {"phase": "Running"}}
        assert decode(await client.patch(PODS, namespace, "a", status, subresource="status")).status.phase == "Running"
        with pytest.raises(Conflict):
            await client.delete(PODS, namespace, "a", uid="another")
        await client.delete(PODS, namespace, "a", uid=made.metadata.uid)
        with pytest.raises(NotFound):
            await client.get(PODS, namespace, "a")

    with_client(access, test)


def test_every_kind_of_patch(access: Access) -> None:
    async def test(client: Client, namespace: str) -> None:
        async def data() -> dict[str, str]:
            found: dict[str, str] = (await client.get(CONFIG_MAPS, namespace, "c"))["data"]
            return found

        await client.patch(CONFIG_MAPS, namespace, "c", settings(a="1", b="2"), "apply")
        await client.patch(CONFIG_MAPS, namespace, "c", {"data": {"b": None, "c": "3"}})
        assert await data() == {"a": "1", "c": "3"}
        await client.patch(CONFIG_MAPS, namespace, "c", [{"op": "replace", "path": "/data/c", "value": "4"}], "json")
        await client.patch(CONFIG_MAPS, namespace, "c", {"data": {"d": "5"}})
        assert await data() == {"a": "1", "c": "4", "d": "5"}
        with pytest.raises(Conflict):
            await client.patch(CONFIG_MAPS, namespace, "c", settings(c="9"), "apply", params={"fieldManager": "other"})
        forced = {"fieldManager": "other", "force": "true"}
        await client.patch(CONFIG_MAPS, namespace, "c", settings(c="9"), "apply", params=forced)
        assert (await data())["c"] == "9"

    with_client(access, test)


def test_a_write_over_an_old_version_is_rejected(access: Access) -> None:
    async def test(client: Client, namespace: str) -> None:
        first = msgspec.json.decode(await client.create(CONFIG_MAPS, namespace, settings(a="1")))
        path = CONFIG_MAPS.object_path(namespace, "c")
        await client.request("PUT", path, body={**first, "data": {"a": "2"}})
        with pytest.raises(Conflict):
            await client.request("PUT", path, body={**first, "data": {"a": "3"}})

    with_client(access, test)


def test_a_rejection_has_its_causes(access: Access) -> None:
    async def test(client: Client, namespace: str) -> None:
        with pytest.raises(Invalid) as invalid:
            await client.create(PODS, namespace, {"metadata": {"name": "a"}, "spec": {"containers": []}})
        assert [cause.field for cause in invalid.value.details.causes or ()] == ["spec.containers"]
        with pytest.raises(NotFound):
            await client.list(Resource("unknown.example", "v1", "things", "Thing"), type=dict)
        with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
            await client.create(PODS, "nowhere", pod("a"))
        assert await client.create(PODS, namespace, pod("a"), {"dryRun": "All"})
        with pytest.raises(NotFound):
            await client.get(PODS, namespace, "..")

    with_client(access, test)


def test_a_list_in_pages_is_the_whole_list(access: Access) -> None:
    async def test(client: Client, namespace: str) -> None:
        await asyncio.gather(*(client.create(PODS, namespace, pod(f"p{i}", odd=str(i % 2))) for i in range(7)))
        names, page = [], await client.page(PODS, namespace, size=3, type=Pod)
        while True:
            names += [item.metadata.name for item in page.items]
            if not page.metadata.continue_:
                break
            page = await client.page(PODS, namespace, {}, page.metadata.continue_, size=3, type=Pod)
        assert names == [f"p{i}" for i in range(7)]
        odd = await client.list(PODS, namespace, label_selector="odd in (1)", type=Pod)
        assert [item.metadata.name for item in odd.items] == ["p1", "p3", "p5"]
        one = await client.list(PODS, namespace, field_selector="metadata.name=p4", type=dict)
        assert [item["metadata"]["name"] for item in one.items] == ["p4"]

    with_client(access, test)


def test_the_answer_depends_on_the_user(access: Access) -> None:
    async def token(client: Client, namespace: str) -> str:
        await client.create(SERVICE_ACCOUNTS, namespace, {"metadata": {"name": "robot"}})
        path = SERVICE_ACCOUNTS.object_path(namespace, "robot", "token")
        answer = await client.request("POST", path, body={"spec": {"expirationSeconds": 600}})
        return str(msgspec.json.decode(answer)["status"]["token"])

    async def test(client: Client, namespace: str) -> None:
        robot = replace(access, credential=Credential(bearer(await token(client, namespace))))
        async with Client(robot) as limited:
            with pytest.raises(Forbidden, match=r"system:serviceaccount:.*:robot"):
                await limited.list(PODS, namespace, type=dict)
        async with Client(replace(access, impersonation=(("Impersonate-User", "jane"),))) as jane:
            with pytest.raises(Forbidden, match='User "jane"'):
                await jane.create(PODS, namespace, pod("a"))
        async with Client(replace(access, credential=Credential("Bearer nonsense"))) as nobody:
            with pytest.raises(Unauthorized):
                await nobody.list(PODS, namespace, type=dict)

    with_client(access, test)


def test_a_store_follows_all_changes(access: Access) -> None:
    async def test(client: Client, namespace: str) -> None:
        await client.create(PODS, namespace, pod("before", app="x"))
        store = ObjectStore[Pod](lambda item: item.metadata.labels.get("app"))
        reflector = Reflector(client, PODS, decode, store, namespace)
        task = asyncio.create_task(reflector.run())
        await reflector.synced.wait()
        assert [item.metadata.name for item in store.by_index("x")] == ["before"]
        await client.create(PODS, namespace, pod("after", app="x"))
        await until(lambda: len(store) == 2)
        await client.delete(PODS, namespace, "before")
        await until(lambda: store.get(namespace, "before") is None)
        await client.patch(PODS, namespace, "after", {"metadata": {"labels": {"app": "y"}}})
        await until(lambda: store.by_index("y"))
        assert store.by_index("x") == []
        assert reflector.restarts == {}
        task.cancel()

    with_client(access, test)


def test_the_lease_is_one_that_the_api_server_accepts(access: Access) -> None:
    async def test(client: Client, namespace: str) -> None:
        first, second = (Lease(client, namespace, "leader", name) for name in "ab")
        await first.acquire()
        client.before_write = first.check
        holding = asyncio.create_task(first.hold())
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(1.5)
        assert (first.held, second.held) == (True, False)
        holding.cancel()
        await first.release()
        await asyncio.wait_for(waiting, 35.0)
        spec = (await client.get(LEASES, namespace, "leader"))["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 1)

    lease, renewal, retry = (timedelta(seconds=seconds) for seconds in (40, 30, 0.5))
    with_client(access, test, Durations(lease=lease, lease_renewal=renewal, lease_retry=retry))


def test_objects_of_other_groups_and_of_the_whole_cluster(access: Access) -> None:
    async def test(client: Client, namespace: str) -> None:
        labels = {"app": "x"}
        template = {"metadata": {"labels": labels}, "spec": pod("a")["spec"]}
        spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
        await client.create(DEPLOYMENTS, namespace, {"metadata": {"name": "d"}, "spec": spec})
        await client.delete(DEPLOYMENTS, namespace, "d", propagation="Foreground")
        assert (await client.get(NAMESPACES, "", namespace))["status"]["phase"] == "Active"

    with_client(access, test)

"""Which pods and ports a forwarded port leads to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from support.plan.builders import job
from tfjob.api.objects import Deployment, ObjectMeta, OwnerReference, Pod, PodCondition, PodStatus, Service
from tfjob.api.types import TFJob
from tfjob.errors import InvalidRequest, UserError
from tfjob.jobs.backend import NotFound, Record
from tfjob.jobs.port_forward import (
    LOCALHOST,
    Forward,
    ForwardRequest,
    PortPair,
    Target,
    forward,
    parse_pair,
    resolve,
)


def pod(name: str, *, ready: bool = True, phase: str = "Running") -> Pod:
    ports = [{"name": "http", "containerPort": 8501}]
    return Pod(
        metadata=ObjectMeta(name=name, uid=name, labels={"app": "web"}),
        spec={"containers": [{"name": "web", "ports": ports}]},
        status=PodStatus(phase=phase, conditions=[PodCondition(type="Ready", status=str(ready))]),
    )


def service(**spec: Any) -> Service:
    ports = [{"name": "web", "port": 80, "targetPort": "http"}, {"port": 81, "targetPort": 9000}, {"port": 82}]
    return Service(metadata=ObjectMeta(name="web"), spec={"selector": {"app": "web"}, "ports": ports, **spec})


DEPLOYMENT = Deployment(metadata=ObjectMeta(name="web", uid="d"), spec={"selector": {"matchLabels": {"app": "web"}}})


def record(owner: Deployment | TFJob, state: str = "Running") -> Record:
    return Record(object=owner, id="web.1", state=state, reason="", created=datetime(2030, 1, 1, tzinfo=UTC))


async def found(known: Record, name: str) -> Record:
    return known


async def no_job(name: str) -> Record:
    raise NotFound(f"there is no job {name}")


class Toy:
    """A target with some objects and no jobs; every connection gets the name and port of the pod."""

    namespace = "default"

    def __init__(self, *objects: Any) -> None:
        self.kept = list(objects)
        self.find: Callable[[str], Awaitable[Record]] = no_job

    async def objects(self, kind: type[Any], labels: Mapping[str, str]) -> list[Any]:
        found = [one for one in self.kept if isinstance(one, kind)]
        return [one for one in found if labels.items() <= one.metadata.labels.items()]

    async def pods_of(self, owner: Deployment | Service) -> list[Pod]:
        return await self.objects(Pod, {"app": owner.metadata.name})

    async def connect(self, pod: Pod, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"{pod.metadata.name}:{port}".encode())


def leads_to(place: Toy, name: str, remote: str) -> str:
    async def work() -> str:
        target = await resolve(place, name)
        found = await target.pod()
        return f"{found.metadata.name}:{target.pod_port(found, remote)}"

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("8080:6006", PortPair(8080, "6006")),
        ("6006", PortPair(6006, "6006")),
        (":6006", PortPair(0, "6006")),
        ("0:6006", PortPair(0, "6006")),
        ("8080:http", PortPair(8080, "http")),
    ],
)
def test_pairs_of_ports_are_read_as_kubectl_reads_them(text: str, pair: PortPair) -> None:
    assert parse_pair(text) == pair


@pytest.mark.parametrize("text", ["", ":", "http", "8080:", "8080:0", "70000:80", "80:70000", "a:80", "1:2:3", "-1"])
def test_what_is_not_a_pair_of_ports_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="port"):
        parse_pair(text)


@pytest.mark.parametrize(
    ("remote", "port"), [("80", 8501), ("web", 8501), ("81", 9000), ("82", 82)], ids=["80", "web", "81", "82"]
)
def test_a_port_of_a_service_leads_to_its_target_port(remote: str, port: int) -> None:
    assert leads_to(Toy(service(), pod("one")), "svc/web", remote) == f"one:{port}"


def test_a_port_of_a_headless_service_leads_to_the_same_port_of_the_pod() -> None:
    assert leads_to(Toy(service(clusterIP="None"), pod("one")), "service/web", "81") == "one:81"


def test_a_service_is_reached_by_those_who_may_not_see_jobs() -> None:
    async def forbidden(name: str) -> Record:
        raise UserError("you may not")

    place = Toy(service(), pod("one"))
    place.find = forbidden
    assert leads_to(place, "service/web", "80") == "one:8501"


def test_only_pods_that_are_ready_are_chosen() -> None:
    leaving = pod("leaving", ready=False, phase="Failed")
    assert leads_to(Toy(service(), pod("slow", ready=False), leaving, pod("two")), "service/web", "80") == "two:8501"


def test_a_name_alone_is_a_deployment_if_there_is_no_such_job() -> None:
    place = Toy(DEPLOYMENT, pod("one"), pod("two"))
    assert leads_to(place, "web", "http") == "one:8501"
    assert leads_to(place, "deploy/web", "9") == "one:9"
    assert leads_to(place, "web/two", "http") == "two:8501"
    with pytest.raises(NotFound, match="deployment web has no pod 'worker-0'"):
        leads_to(place, "web/worker-0", "http")


def test_a_job_has_replicas_and_no_other_parts() -> None:
    place = Toy()
    place.find = partial(found, record(job("web", worker=1)))
    with pytest.raises(NotFound, match="has no replica 'zzz'"):
        leads_to(place, "web/zzz", "80")


@pytest.mark.parametrize("name", ["web", "deployment/web", "service/web"])
def test_a_run_that_is_stopped_is_named_with_the_command_that_continues_it(name: str) -> None:
    owned = replace(service(), metadata=ObjectMeta(name="web", owner_references=[OwnerReference(name="web", uid="d")]))
    place = Toy(DEPLOYMENT, owned)
    place.find = partial(found, record(DEPLOYMENT, "Suspended"))
    with pytest.raises(NotFound, match="no ready pod") as raised:
        leads_to(place, name, "80")
    assert raised.value.hint == "It is suspended. To continue it: tfjob resume web"


@pytest.mark.parametrize(
    ("name", "remote", "keyword"),
    [
        ("service/webb", "80", "no service 'webb' in namespace 'default'"),
        ("service/web", "83", "no port 83"),
        ("pod/one", "grpc", "no port named grpc"),
        ("pod/slow", "80", "running"),
        ("nothing", "80", "no job nothing"),
    ],
)
def test_what_is_not_there_is_named(name: str, remote: str, keyword: str) -> None:
    place = Toy(service(), pod("one"), pod("slow", phase="Pending"))
    with pytest.raises(NotFound, match=keyword):
        leads_to(place, name, remote)


def test_a_misspelt_name_has_a_suggestion() -> None:
    with pytest.raises(NotFound) as raised:
        leads_to(Toy(service()), "service/webb", "80")
    assert "web" in raised.value.hint


async def read(port: int) -> bytes:
    reader, writer = await asyncio.open_connection(LOCALHOST, port)
    try:
        return await asyncio.wait_for(reader.read(), 60)
    finally:
        writer.close()


def test_a_connection_that_fails_is_reported_once_and_the_next_pod_is_found() -> None:
    pods: list[Pod] = []
    warnings: list[str] = []

    async def find() -> list[Pod]:
        return list(pods)

    async def work() -> None:
        opened = Forward(Toy().connect, Target("service web", find), warnings.append)
        async with await opened.listen(LOCALHOST, PortPair(0, "80")) as server:
            port = server.sockets[0].getsockname()[1]
            pods[:] = [pod("one")]
            assert await read(port) == b"one:80"
            pods.clear()
            assert [await read(port), await read(port)] == [b"", b""]
            pods[:] = [pod("two")]
            assert [await read(port), await read(port)] == [b"two:80", b"two:80"]

    asyncio.run(work())
    assert len(warnings) == 2, warnings
    assert "no ready pod" in warnings[0]
    assert "two" in warnings[1]


def test_an_end_with_an_open_connection_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    class Silent(Toy):
        async def connect(self, *_: Any) -> None:
            reached.set()
            await asyncio.get_running_loop().create_future()

    reached = asyncio.Event()

    async def work() -> None:
        request = ForwardRequest("service/web", [PortPair(0, "80")])
        opened: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        place = Silent(service(), pod("one"))
        forwarding = forward(place, request, lambda ports: opened.set_result(ports[0].port), lambda _: None)
        task = asyncio.create_task(forwarding)
        _, writer = await asyncio.open_connection(LOCALHOST, await opened)
        await reached.wait()
        task.cancel()
        writer.close()

    asyncio.run(work())
    assert not caplog.records


def test_a_port_that_is_in_use_is_refused() -> None:
    async def work() -> None:
        async with await asyncio.start_server(lambda *_: None, LOCALHOST, 0) as server:
            taken = server.sockets[0].getsockname()[1]
            request = ForwardRequest("service/web", [PortPair(taken, "80")])
            with pytest.raises(InvalidRequest, match=str(taken)):
                await forward(Toy(service(), pod("one")), request, lambda _: None, lambda _: None)

    asyncio.run(work())

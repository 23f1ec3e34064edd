"""Forward local ports to pods: which pods a name means, and the connections to them.

    forward = Forward(place.connect, await resolve(place, "service/web"), warn=print)
    server = await forward.listen("127.0.0.1", PortPair(8080, "80"))

Each new connection goes to a pod that is ready at that moment, so a forwarded port outlives the pods behind it. A
`Place` is this machine or a cluster.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from tfjob.api.names import task_labels
from tfjob.api.objects import Deployment, Object, Pod, Service
from tfjob.api.suggest import did_you_mean
from tfjob.api.types import TFJob
from tfjob.errors import InvalidRequest, UserError
from tfjob.jobs.backend import NotFound, Record
from tfjob.plan.facts.tasks import CANONICAL_TYPE, Task, desired, representative

KINDS: dict[str, type[Any]] = {
    **dict.fromkeys(("pod", "pods", "po"), Pod),
    **dict.fromkeys(("deployment", "deployments", "deploy"), Deployment),
    **dict.fromkeys(("service", "services", "svc"), Service),
}
"""Prefixes for the name of an object, as with kubectl."""
LOCALHOST = "127.0.0.1"
LAST_PORT = 65535
_REPLICA = re.compile(rf"({'|'.join(CANONICAL_TYPE)})-(\d+)")
_PAIR = re.compile(r"(?:(\d*):)?([a-z0-9-]+)")

Kept = TypeVar("Kept", bound=Object)
Connect = Callable[[Pod, int, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class PortPair(NamedTuple):
    """A local port (0 for any), and the port of a pod or Service that it leads to, by number or name."""

    local: int
    remote: str


class Forwarded(NamedTuple):
    """A local port that leads to a port of a pod."""

    address: str
    port: int
    pod_port: int


@dataclass(frozen=True)
class ForwardRequest:
    """What to forward: a name for `resolve`, and ports of the local `address`."""

    name: str
    ports: Sequence[PortPair]
    address: str = LOCALHOST


class Place(Protocol):
    """A target that runs pods, in one namespace."""

    namespace: str
    find: Callable[[str], Awaitable[Record]]
    """Find a job by name. Raises NotFound."""

    async def objects(self, kind: type[Kept], labels: Mapping[str, str]) -> list[Kept]:
        """Return the objects of a kind that have all of these labels."""

    async def pods_of(self, owner: Deployment | Service) -> list[Pod]:
        """Return the pods of a Deployment, or those that a Service selects."""

    async def connect(self, pod: Pod, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Copy data both ways until both sides end. If the pod refuses, raise an exception with a message for users."""


@dataclass(frozen=True)
class Target:
    """What a name means: its label for messages, a function that returns its present pods, and its Service, if any.

    A connection needs a ready pod or, with `only_running`, a running one; `advice` is the hint if there is none.
    """

    label: str
    pods: Callable[[], Awaitable[list[Pod]]]
    only_running: bool = False
    service: Service | None = None
    advice: str = ""

    async def pod(self) -> Pod:
        for pod in await self.pods():
            is_running = pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
            if is_running if self.only_running else pod.is_ready:
                return pod
        raise NotFound(f"{self.label} has no {'running' if self.only_running else 'ready'} pod", self.advice)

    def pod_port(self, pod: Pod, remote: str) -> int:
        if self.service is None:
            return self._container_port(pod, remote)
        ports = self.service.spec.get("ports") or []
        for port in ports:
            if remote in (str(port.get("port")), port.get("name")):
                is_headless = self.service.spec.get("clusterIP") == "None"
                return self._container_port(pod, port["port"] if is_headless else port.get("targetPort", port["port"]))
        known = ", ".join(str(port.get("port")) for port in ports) or "none"
        raise NotFound(f"{self.label} has no port {remote}", f"Its ports: {known}.")

    def _container_port(self, pod: Pod, target: int | str) -> int:
        if (number := pod.port(target)) is None:
            raise NotFound(f"pod {pod.metadata.name} of {self.label} has no port named {target}")
        return number


class Forward:
    """Connections to a target; `warn` is called when they go to another pod, or fail."""

    def __init__(self, connect: Connect, target: Target, warn: Callable[[str], None]) -> None:
        self._connect_to = connect
        self._target = target
        self._warn = warn
        self._failed = ""
        self._last = ""

    async def listen(self, address: str, pair: PortPair) -> asyncio.Server:
        """Start to accept connections. Raises OSError."""

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await self._connect(pair.remote, reader, writer)
                self._failed = ""
            except Exception as error:  # one connection must not end the others
                if str(error) != self._failed:  # a browser retries many times
                    self._failed = str(error)
                    self._warn(self._failed)
            except asyncio.CancelledError:
                pass  # at the end of this process, asyncio would report it as an error
            finally:
                writer.close()

        return await asyncio.start_server(connected, address, pair.local)

    async def _connect(self, remote: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pod = await self._target.pod()
        name = pod.metadata.name
        if self._last not in ("", pod.metadata.uid):
            self._warn(f"{self._target.label}: the pod is gone; new connections go to {name}")
        self._last = pod.metadata.uid
        await self._connect_to(pod, self._target.pod_port(pod, remote), reader, writer)


async def forward(
    place: Place,
    request: ForwardRequest,
    ready: Callable[[Sequence[Forwarded]], None],
    warn: Callable[[str], None],
) -> None:
    target = await resolve(place, request.name)
    pod = await target.pod()
    forwarding = Forward(place.connect, target, warn)
    found = []
    async with AsyncExitStack() as servers:
        for pair in request.ports:
            pod_port = target.pod_port(pod, pair.remote)
            try:
                server = await forwarding.listen(request.address, pair)
            except OSError as error:
                why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
                hint = f"Choose another local port, or :{pair.remote} for any free one."
                raise InvalidRequest(f"cannot listen on port {pair.local} of {request.address}: {why}", hint) from None
            servers.callback(server.close)
            names = [socket.getsockname() for socket in server.sockets]
            found += [Forwarded(name[0], name[1], pod_port) for name in names]
        ready(found)
        await asyncio.get_running_loop().create_future()


async def resolve(place: Place, name: str) -> Target:
    """Find what a name means: `JOB`, `JOB/worker-0`, `deployment/NAME`, `service/NAME` or `pod/NAME`.

    A name without a kind means a job or, if there is none, a Deployment; `NAME/POD` is a pod of it. Raises NotFound.
    """
    first, _, rest = name.partition("/")
    if rest and first in KINDS:
        kind = KINDS[first]
        found = await _object(place, kind, rest)
        return _pod_target(place, rest) if kind is Pod else await _owner_target(place, found)
    try:
        record = await place.find(first)
    except NotFound:
        deployments = await place.objects(Deployment, {})
        owner = next((one for one in deployments if one.metadata.name == first), None)
        if owner is None:
            raise
    else:
        if isinstance(record.object, TFJob):
            return _job_target(place, record, rest)
        owner = record.object
    return await _owner_target(place, owner, rest)


def _job_target(place: Place, record: Record, replica: str) -> Target:
    match = _REPLICA.fullmatch(replica)
    if replica and match is None:
        raise NotFound(f"{record.id} has no replica '{replica}'", "Use TYPE-INDEX, such as worker-0.")
    task = Task(CANONICAL_TYPE[match[1]], int(match[2])) if match else representative(record.job)
    if match and task not in (known := desired(record.job)):
        raise NotFound(
            f"{record.id} has no replica '{replica}'", f"Its replicas: {', '.join(one.name for one in known)}."
        )
    if task is None or not record.current:
        raise NotFound(f"{record.id} has no running replica")
    labels = task_labels(record.job, task.type, task.index)
    pods = partial(place.objects, Pod, labels)
    return Target(f"{task.name} of {record.id}", pods, only_running=True, advice=_advice(record))


async def _owner_target(place: Place, owner: Deployment | Service, pod: str = "") -> Target:
    """Return the pods of a Deployment or Service as a target, or only the named pod."""
    label = f"{owner.kind.lower()} {owner.metadata.name}"
    if not owner.spec.get("selector"):
        raise NotFound(f"{label} has no selector")
    if pod:
        known = [one.metadata.name for one in await place.pods_of(owner)]
        if pod not in known:
            hint = did_you_mean(pod, known).capitalize() or f"Its pods: {', '.join(known) or 'none'}."
            raise NotFound(f"{label} has no pod '{pod}'", hint)
        return _pod_target(place, pod)
    advice = ""
    owners = {owner.metadata.uid: owner.metadata.name, **{one.uid: one.name for one in owner.metadata.owner_references}}
    for uid, name in owners.items():
        with suppress(UserError):  # users without access to jobs can still reach their pods
            record = await place.find(name)
            advice = _advice(record) if record.uid == uid else advice
    service = owner if isinstance(owner, Service) else None
    return Target(label, partial(place.pods_of, owner), service=service, advice=advice)


def _pod_target(place: Place, name: str) -> Target:
    async def this() -> list[Pod]:
        return [pod for pod in await place.objects(Pod, {}) if pod.metadata.name == name]

    return Target(f"pod {name}", this, only_running=True)


async def _object(place: Place, kind: type[Any], name: str) -> Any:
    known = {one.metadata.name: one for one in await place.objects(kind, {})}
    if name not in known:
        what = kind.__name__.lower()
        hint = did_you_mean(name, known).capitalize() or f"Existing {what}s: {', '.join(known) or 'none'}."
        raise NotFound(f"no {what} '{name}' in namespace '{place.namespace}'", hint)
    return known[name]


def _advice(record: Record) -> str:
    if record.state == "Suspended":
        return f"It is suspended. To continue it: tfjob resume {record.name}{record.options}"
    return f"The job has ended: its state is {record.state}." if record.is_finished else ""


def parse_pair(text: str) -> PortPair:
    """Read `LOCAL:REMOTE`, `PORT` or `:REMOTE`, as kubectl does. Raises InvalidRequest."""
    match = _PAIR.fullmatch(text)
    if match is None or (match[1] is None and not match[2].isdigit()):
        raise InvalidRequest(f"invalid ports {text!r}: use LOCAL:REMOTE, PORT or :REMOTE")
    remote = match[2]
    local = int(match[1] or 0) if match[1] is not None else int(remote)
    if local > LAST_PORT or (remote.isdigit() and not 0 < int(remote) <= LAST_PORT):
        raise InvalidRequest(f"invalid port in {text!r}: use a number from 1 to {LAST_PORT}")
    return PortPair(local, remote)

"""The model servers of a target: Deployments with the annotation of a model, on this machine or on a cluster.

for server in cluster_servers(backend, namespace): print(server.name, server.ready, server.versions)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

from tfjob.api.objects import Deployment, Service
from tfjob.api.resources import DEPLOYMENTS, SERVICES
from tfjob.api.suggest import did_you_mean
from tfjob.errors import InvalidRequest, NotFound, UserError
from tfjob.serve.deploy import GRPC, MANAGED_BY, MODEL, REST

if TYPE_CHECKING:
    from tfjob.jobs.sync_backend import SyncBackend
    from tfjob.kube.client.client import Client
    from tfjob.kube.jobs.backend import SyncKubeBackend

HOST = "127.0.0.1"
ANSWER_SECONDS = 3.0
"""How long a listing waits for the versions of a server."""
RESOURCES = {one.kind: one for one in (DEPLOYMENTS, SERVICES)}
SELECTOR = ",".join(f"{name}={value}" for name, value in MANAGED_BY.items())


@dataclass(frozen=True, kw_only=True)
class ModelServer:
    """A Deployment that serves a model; `versions` are those that are available, empty if it did not answer."""

    name: str
    namespace: str
    model: str
    state: str
    ready: str
    image: str
    grpc: str
    rest: str
    versions: Sequence[str] = ()


def status_path(model: str) -> str:
    return f"/v1/models/{quote(model, safe='')}"


def available_versions(answer: bytes) -> list[str]:
    """Return the available versions in a server's answer about the status of a model, the newest first."""
    try:
        rows = json.loads(answer)["model_version_status"]
        return [str(one["version"]) for one in rows if one["state"] == "AVAILABLE"]
    except (ValueError, KeyError, TypeError):
        return []


def ports_of(container: Mapping[str, Any]) -> dict[str, int]:
    """Return the ports of a server's container by name."""
    return {one.get("name", ""): one["containerPort"] for one in container.get("ports") or ()}


def named(servers: Sequence[ModelServer], name: str, namespace: str) -> ModelServer:
    """Return the server with a name, or else the only one that serves a model of this name. Raises NotFound."""
    known = {one.name: one for one in servers}
    return known[_server_name(name, {one.name: one.model for one in servers}, namespace)]


# --- this machine -----------------------------------------------------------------------------------------------------


def local_servers(there: SyncBackend[Any]) -> list[ModelServer]:
    records = [one for one in there.jobs() if one.is_server and MODEL in one.object.metadata.annotations]
    return [_server(one.object, one.state, HOST) for one in records if isinstance(one.object, Deployment)]


def ask(server: ModelServer) -> list[str]:
    """Return the available versions of a server of this machine; none if it does not answer or is stopped."""
    if server.state == "Suspended":  # another program may have its port
        return []
    try:
        with urlopen(f"http://{server.rest}{status_path(server.model)}", timeout=ANSWER_SECONDS) as answer:
            return available_versions(answer.read())
    except (URLError, OSError, ValueError):
        return []


def _server(deployment: Deployment, state: str, host: str) -> ModelServer:
    container = deployment.spec["template"]["spec"]["containers"][0]
    ports, metadata = ports_of(container), deployment.metadata
    return ModelServer(
        name=metadata.name,
        namespace=metadata.namespace,
        model=metadata.annotations.get(MODEL, ""),
        state=state,
        ready=f"{deployment.status.ready_replicas}/{deployment.wanted_replicas}",
        image=container.get("image") or "",
        grpc=f"{host}:{ports.get(GRPC, 0)}",
        rest=f"{host}:{ports.get(REST, 0)}",
    )


# --- a cluster --------------------------------------------------------------------------------------------------------


def cluster_servers(there: SyncKubeBackend) -> list[ModelServer]:
    """Return the model servers of a namespace, with the versions that the API server can ask them for."""
    return there.run(_cluster_servers(there.client, there.namespace))


async def _cluster_servers(client: Client, namespace: str) -> list[ModelServer]:
    found = await client.list(DEPLOYMENTS, namespace, label_selector=SELECTOR, type=Deployment)
    listed = [_server(one, _state(one), f"{one.metadata.name}.{namespace}") for one in found.items]
    versions = await asyncio.gather(*(_ask_through_api_server(client, one) for one in listed))
    return [ModelServer(**{**vars(one), "versions": known}) for one, known in zip(listed, versions, strict=True)]


def _state(deployment: Deployment) -> str:
    if not deployment.wanted_replicas:
        return "Suspended"
    return "Running" if deployment.status.ready_replicas else "Pending"


async def _ask_through_api_server(client: Client, server: ModelServer) -> list[str]:
    if server.state != "Running":
        return []
    path = SERVICES.object_path(server.namespace, f"{server.name}:{REST}", f"proxy{status_path(server.model)}")
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return available_versions(await client.request("GET", path))
    except (UserError, TimeoutError):  # users need no permission for the proxy of Services
        return []


def apply(there: SyncKubeBackend, documents: Sequence[dict[str, Any]]) -> None:
    """Create or update the objects of a model server; first check all of them in a dry run.

    Raises InvalidRequest if other objects have their names.
    """
    there.run(_apply(there.client, documents, there.namespace))


async def _apply(client: Client, documents: Sequence[dict[str, Any]], namespace: str) -> None:
    for document in documents:
        await _refuse_foreign(client, document, namespace)
    for extra in ({"dryRun": "All"}, {}):
        for document in documents:
            resource, name = RESOURCES[document["kind"]], document["metadata"]["name"]
            # Forced, because `update` changes fields too.
            params = {"force": "true", **extra}
            await client.patch(resource, namespace, name, document, kind="apply", params=params)


async def _refuse_foreign(client: Client, document: dict[str, Any], namespace: str) -> None:
    from tfjob.kube.access import errors

    kind, name = document["kind"], document["metadata"]["name"]
    try:
        found = await client.get(RESOURCES[kind], namespace, name)
    except errors.NotFound:
        return
    if not MANAGED_BY.items() <= (found["metadata"].get("labels") or {}).items():
        text = f"the {kind} {name} in namespace '{namespace}' is not a model server of tfjob"
        raise InvalidRequest(text, "Choose another name with --server-name.")


async def _find(client: Client, namespace: str, name: str) -> Deployment:
    found = await client.list(DEPLOYMENTS, namespace, label_selector=SELECTOR, type=Deployment)
    known = {one.metadata.name: one for one in found.items}
    models = {name: one.metadata.annotations.get(MODEL, "") for name, one in known.items()}
    return known[_server_name(name, models, namespace)]


def _server_name(name: str, models: Mapping[str, str], namespace: str) -> str:
    """Find a server by its name or by its model; `models` maps the names of servers to their models."""
    if name in models:
        return name
    of_model = [server for server, model in models.items() if model == name]
    if len(of_model) == 1:
        return of_model[0]
    hint = did_you_mean(name, models).capitalize() or f"Existing ones: {', '.join(of_model or models) or 'none'}."
    raise NotFound(f"no model server '{name}' in namespace '{namespace}'", hint)


def remove(there: SyncKubeBackend, name: str) -> str:
    """Delete the Deployment and the Service of a model server, and return their name. Raises NotFound."""
    return there.run(_remove(there.client, there.namespace, name))


async def _remove(client: Client, namespace: str, wanted: str) -> str:
    deployment = await _find(client, namespace, wanted)
    name = deployment.metadata.name
    await client.delete(DEPLOYMENTS, namespace, name, uid=deployment.metadata.uid)
    services = await client.list(SERVICES, namespace, label_selector=SELECTOR, type=Service)
    for one in services.items:
        if one.metadata.name == name:
            await client.delete(SERVICES, namespace, name, uid=one.metadata.uid)
    return name


def change(there: SyncKubeBackend, name: str, replicas: int | None, image: str) -> str:
    """Change the replicas or the image of a model server; return its name. A new image replaces pods one by one."""
    if replicas is None and not image:
        raise InvalidRequest("nothing to update", "Add --replicas or --image.")
    return there.run(_change(there.client, there.namespace, name, replicas, image))


async def _change(client: Client, namespace: str, wanted: str, replicas: int | None, image: str) -> str:
    deployment = await _find(client, namespace, wanted)
    name = deployment.metadata.name
    changes: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": deployment.metadata.uid}]
    if replicas is not None:
        changes.append({"op": "add", "path": "/spec/replicas", "value": replicas})
    if image:
        path = "/spec/template/spec/containers/0/image"
        changes.append({"op": "replace", "path": path, "value": image})
    await client.patch(DEPLOYMENTS, namespace, name, changes, kind="json")
    return name

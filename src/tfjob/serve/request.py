"""A request to serve a model, and what it becomes on this machine and on a cluster.

serving, note = serving_here(ServeRequest(source="mnist"))
prepared = local.prepare(launch_request(serving))
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfjob.api.servers import MODEL_SERVER, command_of
from tfjob.api.text.writer import plain_yaml
from tfjob.api.types import TFJob
from tfjob.errors import InvalidRequest, NotFound
from tfjob.launch.request import Request
from tfjob.serve.deploy import GRPC_PORT, IMAGES, REST_PORT, Serving, documents, name_for
from tfjob.serve.sources import Source, cluster_source, find_job, folder_source, is_path, job_source

if TYPE_CHECKING:
    from tfjob.kube.jobs.backend import SyncKubeBackend

MANIFEST = "the generated manifest"


@dataclass(frozen=True, kw_only=True)
class ServeRequest:
    """What to serve and how; empty fields have defaults. `server`, `image` and `replicas` are for a cluster."""

    source: str
    name: str = ""
    server_name: str = ""
    model_path: str = ""
    port: int = GRPC_PORT
    rest_port: int = REST_PORT
    server: str = ""
    image: str = ""
    replicas: int | None = None
    namespace: str = ""

    def check(self, *, cluster: bool) -> None:
        """Raise InvalidRequest for options that contradict each other or the target."""
        if self.port == self.rest_port:
            raise InvalidRequest(f"--port and --rest-port are both {self.port}", "Choose two different ports.")
        given = {"--server": self.server, "--image": self.image, "--replicas": self.replicas}
        if not cluster and (only_there := next((name for name, value in given.items() if value), "")):
            raise InvalidRequest(f"{only_there} only applies to a cluster, not to this machine", "Leave it out.")


def serving_here(request: ServeRequest) -> tuple[Serving, str]:
    """Return what to serve on this machine, and a note about it. Raises UserError."""
    from tfjob.local.inputs.images import serving_interpreter

    command = command_of(MODEL_SERVER, str(serving_interpreter()))
    source = _local_source(request)
    model = request.name or source.model
    serving = Serving(
        name=request.server_name or name_for(model),
        model=model,
        base_path=source.base_path,
        namespace=request.namespace or "default",
        port=request.port,
        rest_port=request.rest_port,
        command=command,
        is_local=True,
    )
    return serving, source.note


def _local_source(request: ServeRequest) -> Source:
    from tfjob.launch.local import open_machine

    name, namespace = request.source, request.namespace
    with open_machine(write=False) as (home, store):
        if found := find_job(home, store, name, namespace or "default", latest_of_all=not namespace):
            return job_source(found.places, found.run.name, request.model_path, home.path)
        if request.model_path:
            raise InvalidRequest(f"--model-path only applies to jobs, but {name} is a folder", "Leave it out.")
        # Not resolved, because a link may later lead to another folder.
        return folder_source(Path(os.path.normpath(Path(name).expanduser().absolute())), home.path)


def launch_request(serving: Serving) -> Request:
    return Request(file=MANIFEST, namespace=serving.namespace, text=manifest(serving))


def manifest(serving: Serving) -> str:
    return plain_yaml(documents(serving))


def serving_there(request: ServeRequest, there: SyncKubeBackend) -> Serving:
    """Return what to serve on a cluster. Raises UserError."""
    source = cluster_source(_cluster_job(request.source, there), request.model_path)
    model = request.name or source.model
    return Serving(
        name=request.server_name or name_for(model),
        model=model,
        base_path=source.base_path,
        namespace=there.namespace,
        port=request.port,
        rest_port=request.rest_port,
        replicas=request.replicas,
        image=request.image or IMAGES[request.server or "tensorflow"],
        volume=source.volume,
    )


def _cluster_job(name: str, there: SyncKubeBackend) -> TFJob:
    try:
        if not is_path(name):
            return there.find(name).job
    except NotFound:
        if not Path(name).is_dir():
            raise
    text = f"{name} is a folder of this machine, which the pods of a cluster cannot read"
    raise InvalidRequest(text, "Name a job of the cluster, or leave out --on to serve the folder on this machine.")

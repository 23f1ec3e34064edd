"""`tfjob serve`: serve the model of a job or a folder, with the API of TensorFlow Serving."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from tfjob.cli import exit_codes
from tfjob.cli.completion import JOB, SERVER, JobGroup
from tfjob.cli.context import (
    On,
    WholeNumber,
    find_job,
    is_quiet,
    job_options,
    open_backend,
    open_cluster_backend,
    place_options,
)
from tfjob.cli.output import print_document, print_list
from tfjob.errors import InvalidRequest
from tfjob.launch.target import probe_machine

if TYPE_CHECKING:
    from tfjob.jobs.backend import Record
    from tfjob.jobs.sync_backend import SyncBackend
    from tfjob.launch.local import LocalJobs
    from tfjob.serve.deploy import Serving
    from tfjob.serve.request import ServeRequest

START = "start"
HOST = "127.0.0.1"
METRICS = "/monitoring/prometheus/metrics"
PORT = WholeNumber(min=1, max=65535)


@click.group(cls=JobGroup, of_job=START, subcommand_metavar="JOB|FOLDER [OPTIONS] | COMMAND [ARGS]...")
def serve() -> None:
    """Serve a model over gRPC and REST, with the API of TensorFlow Serving.

    `tfjob serve JOB` is short for `tfjob serve start JOB`; `tfjob serve start --help` lists the options.
    """


@serve.command(START)
@click.argument("source", type=JOB, metavar="JOB|FOLDER")
@click.option("--name", default="", metavar="NAME", help="Name of the model (default: that of the job or folder).")
@click.option("--server-name", default="", metavar="NAME", help="Name of the Deployment (default: MODEL-serving).")
@click.option(
    "--model-path", default="", metavar="PATH", help="Folder of the versions in the job's storage (jobs only)."
)
@click.option("--port", type=PORT, default=9000, show_default=True, metavar="PORT", help="Port for gRPC.")
@click.option("--rest-port", type=PORT, default=8501, show_default=True, metavar="PORT", help="Port for REST.")
@click.option("--replicas", type=WholeNumber(min=1), metavar="N", help="Number of pods (on a cluster only, default 1).")
@click.option(
    "--server",
    type=click.Choice(["", "tensorflow", "tfjob"]),
    default="",
    metavar="tensorflow|tfjob",
    help="TensorFlow Serving or tfjob's server (on a cluster only, default tensorflow).",
)
@click.option("--image", default="", metavar="IMAGE", help="Image of the server (on a cluster only).")
@click.option("--dry-run", is_flag=True, help="Start nothing; print what would run (-o yaml: the objects).")
@click.option("-d", "--detach", is_flag=True, help="Run in the background (this machine only).")
@click.option("--plain", is_flag=True, help="Print prefixed lines instead of the live view in a terminal.")
@job_options
def start(on: On, output: str, dry_run: bool, detach: bool, plain: bool, **options: Any) -> int:
    """Serve the model of a job, or of a folder that contains versions of a model.

    The server runs as a Deployment with a Service of the same name. It follows the job or the folder: a new version is
    served without a restart. On this machine, `tfjob ps`, `logs` and `stop` work as for jobs, and the ports are those
    of 127.0.0.1. Ctrl-C stops the server, and `tfjob resume` continues it. On a cluster, the server keeps running.
    """
    from tfjob.serve.request import ServeRequest

    request = ServeRequest(**options)
    request.check(cluster=on.cluster)
    mode = "dry-run" if dry_run else "detach" if detach else "plain" if plain else "attach"
    return _start_there(request, on, mode, output) if on.cluster else _start_here(request, mode, output)


def _start_here(request: ServeRequest, mode: str, output: str) -> int:
    probe_machine()
    from tfjob.launch import local
    from tfjob.serve.request import launch_request, serving_here

    serving, note = serving_here(request)
    prepared = local.prepare(launch_request(serving))
    exit_codes.print_warnings(prepared.warnings)
    for text in filter(None, (*prepared.notes, note)):
        click.echo(text, err=True)
    if mode == "dry-run":
        from tfjob.cli.terminal.preview import print_processes

        print_processes(prepared, output)
        return exit_codes.SUCCEEDED
    with _names(serving):
        return _detach(prepared, serving, output) if mode == "detach" else _attach(prepared, serving, mode, output)


def _attach(prepared: LocalJobs, serving: Serving, mode: str, output: str) -> int:
    from tfjob.cli.terminal.attach import attach
    from tfjob.launch import drive

    with drive.attach(prepared) as driven:
        if mode == "plain" or output != "text" or is_quiet() or not sys.stdout.isatty():
            return attach(driven, output, plain=mode == "plain")
        live = LiveLine(serving)
        threading.Thread(target=live.follow, name="metrics", daemon=True).start()
        return attach(driven, output, plain=False, status=lambda: live.text)


def _detach(prepared: LocalJobs, serving: Serving, output: str) -> int:
    from tfjob.cli.output import print_jobs
    from tfjob.cli.terminal.result import next_commands
    from tfjob.launch import local

    (submitted,) = local.start(prepared)
    record = submitted.record
    if output != "text":
        print_jobs([record], output)
    elif is_quiet():
        click.echo(record.name)
    else:
        if submitted.is_updated is not None:
            click.echo(f"{record.id} {'was updated' if submitted.is_updated else 'is unchanged'}")
        click.echo("\n".join(_addresses(serving, f"{HOST}:{serving.port}", f"http://{HOST}:{serving.rest_port}")))
        click.echo(next_commands(record))
    return exit_codes.SUCCEEDED


def _addresses(serving: Serving, grpc: str, rest: str) -> Iterator[str]:
    from tfjob.serve.rollouts import status_path

    yield f"model {serving.model} of {serving.base_path}"
    yield f"  gRPC  {grpc}"
    yield f"  REST  {rest}{status_path(serving.model)}:predict"


class LiveLine:
    """The version of a model, its requests per second and their latencies, read from its server every second.

    The rates are those of the last `window` readings, so that numbers stay long enough to be read.
    """

    period = 1.0
    window = 5

    def __init__(self, serving: Serving) -> None:
        self.text = ""
        self._serving = serving
        self._url = f"http://{HOST}:{serving.rest_port}"

    def follow(self) -> None:
        from tfjob.serve.rates import Counts, rates, read
        from tfjob.serve.rollouts import available_versions, status_path

        readings = deque([(Counts(), time.monotonic())], self.window)
        while True:
            time.sleep(self.period)
            try:
                versions = available_versions(self._get(status_path(self._serving.model)))
                counts, now = read(self._get(METRICS).decode(), self._serving.model), time.monotonic()
            except (OSError, ValueError):  # it starts or restarts
                self.text = ""
                continue
            version = f"version {versions[0]}" if versions else "no version yet"
            before, then = readings[0]
            self.text = f"{self._serving.model} {version} · {rates(before, counts, now - then)}"
            readings.append((counts, now))

    def _get(self, path: str) -> bytes:
        from urllib.request import urlopen

        with urlopen(self._url + path, timeout=self.period) as answer:  # noqa: S310 - our own server
            body: bytes = answer.read()
            return body


def _start_there(request: ServeRequest, on: On, mode: str, output: str) -> int:
    from tfjob.serve.deploy import documents
    from tfjob.serve.request import serving_there
    from tfjob.serve.rollouts import apply

    with open_cluster_backend(on, request.namespace) as there:
        serving = serving_there(request, there)
        if mode == "dry-run":
            _print_objects(serving, output)
            return exit_codes.SUCCEEDED
        apply(there, documents(serving))
        options = there.options
    if output != "text":
        _print_objects(serving, output)
    elif is_quiet():
        click.echo(serving.name)
    else:
        from tfjob.cli.examples import listed

        host = f"{serving.name}.{serving.namespace}"
        click.echo(f"{click.style(serving.name, bold=True)} was created or updated on the cluster")
        click.echo("\n".join(_addresses(serving, f"{host}:{serving.port}", f"http://{host}:{serving.rest_port}")))
        commands = {
            f"tfjob serve status {serving.name}{options}": "show its state",
            f"tfjob port-forward service/{serving.name} {serving.port} {serving.rest_port}{options}": "connect to it",
            f"tfjob serve stop {serving.name}{options}": "delete it",
        }
        click.echo("\n".join(listed(commands)))
    return exit_codes.SUCCEEDED


@serve.command()
@click.argument("name", default="", required=False, type=SERVER)
@job_options
def status(name: str, on: On, namespace: str, output: str) -> int:
    """List model servers with their models, versions and addresses."""
    from tfjob.jobs.report import table
    from tfjob.serve import rollouts

    if on.cluster:
        with open_cluster_backend(on, namespace) as there:
            servers = rollouts.cluster_servers(there)
            place = there.namespace
    else:
        with open_backend(on, namespace, write=False) as machine:
            servers = [replace(one, versions=rollouts.ask(one)) for one in rollouts.local_servers(machine)]
            place = machine.namespace
    if name:
        servers = [rollouts.named(servers, name, place)]
    if output != "text":
        print_list("ModelServer", [asdict(one) for one in servers], output)
        return exit_codes.SUCCEEDED
    rows = [
        [one.name, one.model, ",".join(one.versions) or "-", one.state, one.ready, one.grpc, one.rest]
        for one in servers
    ]
    titles = ["NAME", "MODEL", "VERSION", "STATE", "READY", "GRPC", "REST"]
    click.echo(table(titles, rows) if rows else f"no model server in namespace '{place}'")
    return exit_codes.SUCCEEDED


@serve.command()
@click.argument("name", type=SERVER)
@place_options
def stop(name: str, on: On, namespace: str) -> int:
    """Stop a model server. On a cluster, this deletes its Deployment and its Service."""
    from tfjob.serve import rollouts

    if on.cluster:
        with open_cluster_backend(on, namespace) as there:
            removed = rollouts.remove(there, name)
        click.echo(f"{removed} was deleted")
        return exit_codes.SUCCEEDED
    with open_backend(on, namespace, write=True) as machine:
        record = machine.suspend(_server_record(machine, name), "Stopped")
        machine.wait_until_stopped(record)
    click.echo(f"{record.name} was stopped. To continue it: tfjob resume {record.name}{record.options}")
    return exit_codes.SUCCEEDED


@serve.command()
@click.argument("name", type=SERVER)
@click.option("--replicas", type=WholeNumber(min=0), metavar="N", help="Number of pods.")
@click.option("--image", default="", metavar="IMAGE", help="Image of the server (on a cluster only).")
@place_options
def update(name: str, replicas: int | None, image: str, on: On, namespace: str) -> int:
    """Change the number of pods of a model server, or its image.

    A new image replaces the pods one by one. Each old pod keeps serving until a new one has loaded the model.
    """
    from tfjob.serve import rollouts

    if on.cluster:
        with open_cluster_backend(on, namespace) as there:
            name = rollouts.change(there, name, replicas, image)
    else:
        if image:
            raise InvalidRequest("--image only applies to a cluster, not to this machine", "Leave it out.")
        if replicas is None:
            raise InvalidRequest("nothing to update", "Add --replicas.")
        from tfjob.jobs.scale import scaled

        with open_backend(on, namespace, write=True) as machine:
            counts = {"replicas": replicas}
            record = _server_record(machine, name)
            machine.change(record, lambda stored: scaled(stored, counts))
            name = record.name
    click.echo(f"{name} was updated")
    return exit_codes.SUCCEEDED


def _server_record(machine: SyncBackend[Any], name: str) -> Record:
    """Find a model server of this machine by its name or by the name of its model."""
    from tfjob.serve.rollouts import local_servers, named

    return find_job(machine, named(local_servers(machine), name, machine.namespace).name)


def _print_objects(serving: Serving, output: str) -> None:
    from tfjob.serve.deploy import documents
    from tfjob.serve.request import manifest

    if output == "json":
        print_document({"apiVersion": "v1", "kind": "List", "items": list(documents(serving))}, output)
    else:
        click.echo(manifest(serving), nl=False)


@contextmanager
def _names(serving: Serving) -> Iterator[None]:
    """Add a hint to the error that the name of a server is in use."""
    from tfjob.jobs.find import NameInUse

    try:
        yield
    except NameInUse as error:
        options = "" if error.namespace == "default" else f" -n {error.namespace}"
        hint = (
            f"To stop it: tfjob serve stop {serving.name}{options}; for another one, use --server-name and other ports."
        )
        raise exit_codes.Stop(exit_codes.BAD_INPUT, error.message, hint) from None

"""`tfjob port-forward`: forward local ports to pods."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tfjob.cli.completion import JOB
from tfjob.cli.context import On, open_backend, place_options, until_interrupted

if TYPE_CHECKING:
    from tfjob.jobs.port_forward import Forwarded


@click.command("port-forward")
@click.argument("name", type=JOB)
@click.argument("ports", nargs=-1, required=True, metavar="[LOCAL:]REMOTE...")
@click.option("--address", default="127.0.0.1", show_default=True, help="Local address to listen on.")
@place_options
def port_forward(name: str, ports: tuple[str, ...], address: str, on: On, namespace: str) -> None:
    """Forward local ports to a pod, until Ctrl-C.

    NAME is JOB, JOB/worker-0 (one replica), deployment/NAME, service/NAME or pod/NAME. If there is no job with that
    name, NAME is a Deployment, and NAME/POD is one of its pods. Each new connection goes to a pod that is ready at that
    moment.

    \b
    8080:6006   local port 8080 to port 6006 of the pod
    6006        the same port on both sides
    :6006       any free local port
    """
    from tfjob.jobs.port_forward import ForwardRequest, parse_pair

    request = ForwardRequest(name, [parse_pair(text) for text in ports], address)

    def tell(forwarded: Sequence[Forwarded]) -> None:
        for one in forwarded:
            host = f"[{one.address}]" if ":" in one.address else one.address
            click.echo(f"Forwarding from {host}:{one.port} -> {one.pod_port}")
        sys.stdout.flush()

    with open_backend(on, namespace, write=False) as there, until_interrupted():
        there.port_forward(request, tell, lambda text: click.echo(text, err=True))

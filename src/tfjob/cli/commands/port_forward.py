"""`tfjob port-forward`: ports of pods at ports of this machine."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from tfjob.cli.completion import JOB
from tfjob.cli.context import On, open_backend, place_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfjob.jobs.port_forward import Forwarded


@click.command("port-forward")
@click.argument("name", type=JOB)
@click.argument("ports", nargs=-1, required=True, metavar="[LOCAL:]REMOTE...")
@click.option("--address", default="127.0.0.1", show_default=True, help="Address of this machine to listen at.")
@place_options
def port_forward(name: str, ports: tuple[str, ...], address: str, on: On, namespace: str) -> None:
    """Forward ports of this machine to a pod, until Ctrl-C.

    NAME is a job (JOB, or JOB/worker-0 for one replica), deployment/NAME, service/NAME or pod/NAME; a name alone, or
    NAME/POD, is a Deployment if there is no such job. Every connection goes to a pod that is ready when it begins.

    \b
    8080:6006   port 8080 here, port 6006 there
    6006        the same port on both sides
    :6006       any free port here
    """
    from tfjob.jobs.port_forward import ForwardRequest, parse_pair

    request = ForwardRequest(name, [parse_pair(text) for text in ports], address)

    def tell(forwarded: Sequence[Forwarded]) -> None:
        for one in forwarded:
            host = f"[{one.address}]" if ":" in one.address else one.address
            click.echo(f"Forwarding from {host}:{one.port} -> {one.pod_port}")
        sys.stdout.flush()

    with open_backend(on, namespace, write=False) as there:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would ignore it
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
        with suppress(KeyboardInterrupt):
            there.port_forward(request, tell, lambda text: click.echo(text, err=True))

"""`tfjob doctor`: test what this machine or a cluster supports, and print how to improve it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tfjob.cli import exit_codes
from tfjob.cli.context import On, job_options, open_cluster_backend
from tfjob.cli.output import print_object

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tfjob.local.warm.pool import State

LEVELS = {
    "full": "paths, host names and TF_CONFIG are the same as on a cluster, and no process outlives its replica",
    "addresses": "replicas have separate addresses, which TF_CONFIG contains; tfjob rewrites the paths of mounts",
    "ports": "replicas have separate ports of 127.0.0.1, which TF_CONFIG contains; tfjob rewrites the paths of mounts",
}


@click.command()
@job_options
def doctor(on: On, namespace: str, output: str) -> int:
    """Check what this machine supports, and print how to improve it.

    With --on k8s, check whether the cluster can run jobs, and what you are allowed to do there. The exit code is then 1
    if something is missing. For this machine, the exit code is 0 even if something is missing.
    """
    return _examine_cluster(on, namespace, output) if on.cluster else _examine_machine(output)


def _examine_machine(output: str) -> int:
    import os
    from pathlib import Path

    from tfjob.local.pod.machine import node
    from tfjob.local.sandbox import capabilities
    from tfjob.local.state.home import find_home
    from tfjob.local.warm import pool
    from tfjob.local.warm.start import prospect

    home = find_home(os.environ)
    found = capabilities.probe()
    level = capabilities.level(found)
    machine = node()
    warm = prospect(Path.cwd(), os.environ)
    servers = pool.running(home.fork_servers)
    if output != "text":
        shape = {name: vars(capability) for name, capability in found.items()}
        content = {"level": level, "capabilities": shape, "home": str(home.path), "node": machine}
        shapes = [_server_shape(server) for server in servers]
        print_object("Doctor", {**content, "warmStart": vars(warm), "forkServers": shapes}, output)
        return exit_codes.SUCCEEDED
    click.echo(f"level {click.style(level, bold=True)}: {LEVELS[level]}\n")
    _print_findings([*found.values(), warm])
    click.echo(f"\nstate folder {home.path}")
    click.echo(f"{machine.cpus} CPUs, {machine.memory / 2**30:.1f} GiB memory")
    for server in servers:
        click.echo(_server_line(server))
    return exit_codes.SUCCEEDED


def _print_findings(findings: Iterable[Any]) -> None:
    for finding in findings:
        mark = click.style("ok", fg="green") if finding.ok else click.style("no", fg="yellow")
        click.echo(f"  {mark}  {finding.title}" + ("" if finding.ok else f": {finding.problem}"))
        if not finding.ok and finding.fix:
            click.echo(f"      {finding.fix}")


def _server_shape(server: State) -> dict[str, Any]:
    shape = {name: getattr(server, name) for name in ("pid", "python", "tensorflow", "forked", "users")}
    return {**shape, "endsIn": None if server.users else server.ends_in}


def _server_line(server: State) -> str:
    if not server.pid:
        return "a fork server for warm starts is starting"
    runs = f"{server.users} run{'' if server.users == 1 else 's'}"
    end = f"ends in {server.ends_in:.0f} s (to end it now: kill {server.pid})"
    what = f"fork server {server.pid} for warm starts: {server.python}, TensorFlow {server.tensorflow}"
    return f"{what}, {server.forked} replicas forked, {f'used by {runs}' if server.users else end}"


def _examine_cluster(on: On, namespace: str, output: str) -> int:
    from tfjob.operator.install.cluster_checks import examine

    with open_cluster_backend(on, namespace) as backend:
        findings = backend.run(examine(backend.client, backend.namespace))
        access = backend.client.access
    if output != "text":
        where = {"context": access.context, "server": access.server, "namespace": backend.namespace}
        print_object("ClusterDoctor", {**where, "findings": findings}, output)
    else:
        _print_findings(findings)
        click.echo(f"\nnamespace {backend.namespace}")
    return exit_codes.SUCCEEDED if all(finding.ok for finding in findings) else exit_codes.FAILED

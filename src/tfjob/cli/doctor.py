"""`tfjob doctor`: what this machine can do, tried and not guessed, and how to improve it."""

from __future__ import annotations

import click

from tfjob.cli.context import On, home, namespace_option, on_option, output_option

LEVELS = {
    "full": "own namespaces: true paths, true names, TF_CONFIG as on a cluster, nothing outlives its supervisor",
    "addresses": "own addresses, no namespaces: TF_CONFIG carries addresses, mount paths are rewritten",
    "ports": "ports of 127.0.0.1: TF_CONFIG carries them, mount paths are rewritten",
}


@click.command()
@on_option
@namespace_option
@output_option
def doctor(on: On, namespace: str, output: str) -> int:
    """Show what this machine can do for jobs, and how to get more out of it.

    Of a cluster: whether it runs jobs, and what you may do there; the exit code is 1 if something is missing.
    """
    if on.cluster:
        from tfjob.cli.cluster_doctor import examine_cluster

        return examine_cluster(on, namespace, output)
    return _examine_machine(output)


def _examine_machine(output: str) -> int:
    import dataclasses

    from tfjob.cli import outcome
    from tfjob.cli.shapes import print_object
    from tfjob.local import probe
    from tfjob.local.machine import node

    found = probe.probe()
    level = probe.level(found)
    machine = node()
    if output != "text":
        shape = {name: vars(capability) for name, capability in vars(found).items()}
        content = {"level": level, "capabilities": shape, "home": str(home().path), "node": dataclasses.asdict(machine)}
        print_object("Doctor", content, output)
        return outcome.SUCCEEDED
    click.echo(f"level {click.style(level, bold=True)}: {LEVELS[level]}\n")
    for capability in found.all():
        mark = click.style("ok", fg="green") if capability.ok else click.style("no", fg="yellow")
        click.echo(f"  {mark}  {capability.title}" + ("" if capability.ok else f": {capability.problem}"))
        if not capability.ok and capability.fix:
            click.echo(f"      {capability.fix}")
    click.echo(f"\nstate folder {home().path}")
    click.echo(f"{machine.cpus} CPUs, {machine.memory / 2**30:.1f} GiB memory")
    return outcome.SUCCEEDED

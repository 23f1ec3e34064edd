"""`tfjob doctor`: what this machine can do, tried and not guessed, and how to improve it."""

from __future__ import annotations

import click

from tfjob.cli.context import home, output_option

LEVELS = {
    "full": "own namespaces: true paths, true names, TF_CONFIG as on a cluster, nothing outlives its supervisor",
    "addresses": "own addresses, no namespaces: TF_CONFIG carries addresses, mount paths are rewritten",
    "ports": "ports of 127.0.0.1: TF_CONFIG carries them, mount paths are rewritten",
}


@click.command()
@output_option
def doctor(output: str) -> int:
    """Show what this machine can do for jobs, and how to get more out of it."""
    import dataclasses

    from tfjob.cli import outcome
    from tfjob.cli.shapes import print_json
    from tfjob.local import probe
    from tfjob.local.machine import node

    found = probe.probe()
    level = probe.level(found)
    machine = node()
    if output == "json":
        shape = {name: vars(capability) for name, capability in vars(found).items()}
        content = {"level": level, "capabilities": shape, "home": str(home().path), "node": dataclasses.asdict(machine)}
        print_json("Doctor", content)
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

"""`tfjob ps`: the jobs of this machine."""

from __future__ import annotations

import click

from tfjob.cli.context import keep_going, namespace_option, output_option, state


@click.command()
@click.option("-a", "--all", "everything", is_flag=True, help="Also runs whose name is used again or removed.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Jobs of every namespace.")
@namespace_option
@output_option
def ps(everything: bool, all_namespaces: bool, namespace: str, output: str) -> None:
    """List jobs, the newest last."""
    from tfjob.cli.shapes import print_list, run_shape
    from tfjob.cli.tables import age, table
    from tfjob.local import runs

    with state(write=False) as (home, store):
        found = runs.listed(store, None if all_namespaces else namespace, everything=everything)
        for run in found:
            keep_going(home, store, run)
        found = runs.listed(store, None if all_namespaces else namespace, everything=everything)
        shapes = [run_shape(run) for run in found]
    if output == "json":
        print_list("Job", shapes)
        return
    if not shapes:
        click.echo("no jobs; start one with: tfjob run FILE")
        return
    rows = [
        [
            *([shape["namespace"]] if all_namespaces else []),
            shape["id"] if everything else shape["name"],
            shape["state"],
            shape["ready"] or "-",
            str(shape["restarts"]),
            age(shape["created"]),
            shape["reason"] or "-",
        ]
        for shape in shapes
    ]
    titles = [*(["NAMESPACE"] if all_namespaces else []), "NAME", "STATE", "READY", "RESTARTS", "AGE", "REASON"]
    click.echo(table(titles, rows))

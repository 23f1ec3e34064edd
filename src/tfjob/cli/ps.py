"""`tfjob ps`: the jobs of this machine."""

from __future__ import annotations

import click

from tfjob.cli.context import On, console, namespace_option, on_option, output_option


@click.command()
@click.option("-a", "--all", "everything", is_flag=True, help="Also runs whose name is used again or removed.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Jobs of every namespace.")
@on_option
@namespace_option
@output_option
def ps(everything: bool, all_namespaces: bool, on: On, namespace: str, output: str) -> None:
    """List jobs, the newest last."""
    from tfjob.cli.shapes import job_shape, print_list
    from tfjob.cli.tables import age, table

    with console(on, namespace, write=False) as there:
        options = there.options
        shapes = [job_shape(record) for record in there.jobs(everything=everything, all_namespaces=all_namespaces)]
    if output != "text":
        print_list("Job", shapes, output)
        return
    if not shapes:
        click.echo(f"no jobs; start one with: tfjob run FILE{options}")
        return
    rows = [
        [
            *([shape["namespace"]] if all_namespaces else []),
            shape["id"] if everything or "/" in shape["id"] else shape["name"],  # tfja/NAME is not what NAME means
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

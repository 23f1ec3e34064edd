"""`tfjob ps`: the jobs of this machine or of a cluster, once or for as long as somebody looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tfjob.cli.context import On, is_quiet, open_backend, output_choice, place_options
from tfjob.cli.terminal.job_table import Columns

if TYPE_CHECKING:
    from tfjob.jobs.backend import Record


@click.command()
@click.option("-a", "--all", "everything", is_flag=True, help="Also runs whose name is used again or removed.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Jobs of every namespace.")
@click.option("-w", "--watch", is_flag=True, help="Go on and show every change, until Ctrl-C.")
@place_options
@output_choice("text", "wide", "name", "json", "yaml")
def ps(everything: bool, all_namespaces: bool, watch: bool, on: On, namespace: str, output: str) -> None:
    """List jobs, the newest last.

    With -w the list is kept up to date in a terminal; elsewhere a line is added for every change, with -o json an
    object.
    """
    is_wide = output == "wide"
    form = "name" if is_quiet() else "text" if is_wide else output
    with open_backend(on, namespace, write=False) as there:
        columns = Columns(there, is_wide=is_wide, namespaces=all_namespaces, runs=everything)

        def look() -> list[Record]:
            return there.ensure_driven(there.jobs(everything=everything, all_namespaces=all_namespaces))

        if watch:
            from tfjob.cli.terminal.watch import watch_jobs

            watch_jobs(look, columns, form)
            return
        records = look()
        rows = columns.rows(records) if form == "text" else []
        options = there.options
    if form in ("json", "yaml"):
        from tfjob.cli.output import print_list
        from tfjob.jobs.output import job_shape

        print_list("Job", [job_shape(record) for record in records], form)
    elif form == "name":
        for record in records:
            click.echo(columns.name(record))
    elif records:
        from tfjob.jobs.report import table

        click.echo(table(columns.titles, rows))
    else:
        click.echo(f"no jobs; start one with: tfjob run FILE{options}")

"""`tfjob ps`: list the jobs of this machine or of a cluster, once or continuously."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tfjob.cli.context import On, is_quiet, open_backend, output_choice, place_options
from tfjob.cli.output import print_jobs
from tfjob.cli.terminal.job_table import Columns

if TYPE_CHECKING:
    from tfjob.jobs.backend import Record


@click.command()
@click.option(
    "-a",
    "--all",
    "everything",
    is_flag=True,
    help="Include earlier runs of each job, even if its last run is deleted.",
)
@click.option("-A", "--all-namespaces", is_flag=True, help="List the jobs of all namespaces.")
@click.option("-w", "--watch", is_flag=True, help="Show changes until Ctrl-C.")
@place_options
@output_choice("text", "wide", "name", "json", "yaml")
def ps(everything: bool, all_namespaces: bool, watch: bool, on: On, namespace: str, output: str) -> None:
    """List jobs, the newest last.

    With -w, the list in a terminal stays up to date. In a pipe or a file, every change adds a line, or with -o json an
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
        print_jobs(records, form)
    elif form == "name":
        for record in records:
            click.echo(columns.name(record))
    elif records:
        from tfjob.jobs.report import table

        click.echo(table(columns.titles, rows))
    else:
        click.echo(f"no jobs; to start one: tfjob run FILE{options}")

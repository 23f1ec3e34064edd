"""`tfjob export`: publish a model as a version that servers can run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from tfjob.cli import exit_codes
from tfjob.cli.completion import JOB
from tfjob.cli.context import WholeNumber, is_quiet, namespace_option, output_option
from tfjob.cli.output import print_object
from tfjob.errors import InvalidRequest


@click.command()
@click.argument("name", metavar="JOB|FOLDER", type=JOB)
@click.option("--to", "target", required=True, metavar="FOLDER", help="Folder with the versions of the model.")
@click.option("--version", type=WholeNumber(0), metavar="N", help="Version to write; default: the next free number.")
@click.option("--model", default="", metavar="NAME", help="Name of the model (if the job has several).")
@click.option("--program", default="", metavar="FILE:FUNCTION", help="Export the latest checkpoint (jobs only).")
@click.option("--checkpoints", default="", metavar="FOLDER", help="Folder of the checkpoints (with --program).")
@namespace_option("Namespace of the job.", "default")
@output_option
def export(name: str, target: str, version: int | None, namespace: str, output: str, **options: Any) -> None:
    """Publish the newest model of a job, or a SavedModel in a folder, as the next version in another folder.

    The version is loaded and asked in the serving engine before it gets its name, so a server never sees one that does
    not work.

    With --program, the FUNCTION of the Python file builds the model, the command loads the job's latest checkpoint into
    it with the Python of the job, and exports it. The function may also return a pair: the model, and a dictionary with
    arguments of tfjob.export, such as inputs and outputs.
    """
    with exit_codes.needs("serve"):
        from tfjob.serve import exports
        from tfjob.serve.job_models import find_models
    from tfjob.cli.commands.models import newest_of, shape
    from tfjob.serve.checkpoints import Request, exported

    if options["checkpoints"] and not options["program"]:
        raise InvalidRequest("--checkpoints needs a program that builds the model", "Add --program FILE:FUNCTION.")
    base = Path(target).expanduser().absolute()
    found = find_models(name, namespace, os.environ)
    if options["program"]:
        with exported(Request(found, options["program"], options["checkpoints"])) as folder:
            published = exports.publish(folder, base, version)
    else:
        published = exports.publish(newest_of(found, options["model"]).folder, base, version)
    made = exports.export_at(published)
    if output != "text":
        print_object("Model", shape(found, made), output)
    elif is_quiet():
        click.echo(published)
    else:
        step = "" if made.step is None else f" (step {made.step})"
        click.echo(f"exported {found.job or found.name}{step} to {published}")

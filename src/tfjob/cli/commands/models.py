"""`tfjob models`: list the models that jobs have exported, and show the signatures of one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from tfjob.cli import exit_codes
from tfjob.cli.completion import JOB, JobGroup
from tfjob.cli.context import namespace_option, output_option
from tfjob.cli.output import print_list, print_object
from tfjob.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfjob.serve.exports import Export
    from tfjob.serve.job_models import Models
    from tfjob.serve.savedmodel import Signature, TensorSpec


class ModelsGroup(JobGroup):
    """Lists the models if there is no first word."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_listing = args[0].startswith("-") and args[0] not in ("-h", "--help") if args else not ctx.resilient_parsing
        return super().parse_args(ctx, ["ls", *args] if is_listing else args)


namespace_of_jobs = namespace_option("Namespace of the jobs.", "default")


@click.group(cls=ModelsGroup, of_job="show", subcommand_metavar="[JOB|FOLDER] | COMMAND [ARGS]...")
def models() -> None:
    """List the models that the jobs of this machine have exported, or show one.

    `tfjob models` is short for `tfjob models ls`, `tfjob models JOB` for `tfjob models show JOB`. A model is a
    SavedModel in the storage of a job, or in the folders of its variables TFJOB_OUTPUT_DIR and TFJOB_CHECKPOINT_DIR.
    """


@models.command()
@namespace_of_jobs
@output_option
def ls(namespace: str, output: str) -> None:
    """List the models of all jobs, with their versions, steps and signatures."""
    with exit_codes.needs("serve"):
        from tfjob.serve.job_models import list_models
    from tfjob.jobs.report import size, table

    shapes = [shape(one, export) for one in list_models(namespace, os.environ) for export in one.exports]
    if output != "text":
        print_list("Model", shapes, output)
        return
    rows = []
    for one in shapes:
        version, step = ("-" if one[name] is None else str(one[name]) for name in ("version", "step"))
        names = ",".join(signature["name"] for signature in one["signatures"]) if not one["problem"] else "incomplete"
        rows.append([one["job"], one["model"], version, step, names, size(one["bytes"]), one["folder"]])
    titles = ["JOB", "MODEL", "VERSION", "STEP", "SIGNATURES", "SIZE", "FOLDER"]
    click.echo(table(titles, rows) if rows else "no models; a program exports its model with tfjob.export(model)")


@models.command()
@click.argument("name", metavar="JOB|FOLDER", type=JOB)
@click.option("--model", default="", metavar="NAME", help="Name of the model (if there are several).")
@namespace_of_jobs
@output_option
def show(name: str, model: str, namespace: str, output: str) -> None:
    """Show the newest model of a job or a folder: its signatures, and a request to copy and paste.

    FOLDER is a SavedModel, or contains versions of a model.
    """
    with exit_codes.needs("serve"):
        from tfjob.serve.exports import read
        from tfjob.serve.job_models import find_models

    found = find_models(name, namespace, os.environ)
    export = newest_of(found, model)
    read(export.folder)
    one = shape(found, export)
    if output != "text":
        print_object("Model", one, output)
        return
    click.echo("\n".join(text_lines(one)))


def newest_of(found: Models, model: str = "") -> Export:
    """Return the newest model; the error names the folders that were searched."""
    from tfjob.errors import NotFound
    from tfjob.serve.exports import newest

    if found.exports:
        return newest(found.exports, model)
    places = ", ".join(map(str, found.searched)) or "any folder"
    hint = "A program exports its model with tfjob.export(model)."
    raise NotFound(f"{found.job or found.name} has no SavedModel in {places}", hint)


def shape(found: Models, export: Export) -> dict[str, Any]:
    """Return a model as an object for JSON; an incomplete one has a problem and no signatures."""
    from tfjob.serve.exports import read

    problem, signatures, tensorflow = "", [], ""
    try:
        content = read(export.folder)
        size, tensorflow = content.size, content.tensorflow_version
        served = found.served_name(export)
        signatures = [signature_shape(one, served) for one in content.signatures.values()]
    except UserError as error:
        problem = error.message
        size = sum(path.stat().st_size for path in export.folder.rglob("*") if path.is_file())
    return {
        "job": found.job,
        "namespace": found.namespace,
        "model": export.name,
        "version": export.version,
        "step": export.step,
        "signatures": signatures,
        "bytes": size,
        "tensorflow": tensorflow,
        "folder": str(export.folder),
        "problem": problem,
    }


def signature_shape(signature: Signature, served: str) -> dict[str, Any]:
    from tfjob.serve.sample import curl

    return {
        "name": signature.name,
        "method": signature.method_name,
        "inputs": tensor_shapes(signature.inputs),
        "outputs": tensor_shapes(signature.outputs),
        "request": curl(signature, served),
    }


def tensor_shapes(specs: Mapping[str, TensorSpec]) -> list[dict[str, Any]]:
    return [
        {"name": alias, "type": spec.dtype.removeprefix("DT_").lower(), "shape": spec.shape and list(spec.shape)}
        for alias, spec in specs.items()
    ]


def text_lines(one: dict[str, Any]) -> list[str]:
    from tfjob.jobs.report import size, table
    from tfjob.serve.tensors import format_shape

    version = "" if one["version"] is None else f" version {one['version']}"
    step = "" if one["step"] is None else f", step {one['step']}"
    lines = [f"{one['model']}{version}{step}, {size(one['bytes'])}, TensorFlow {one['tensorflow']}", one["folder"]]
    for signature in one["signatures"]:
        rows = [
            [f"  {side}", tensor["name"], tensor["type"], format_shape(tensor["shape"])]
            for side in ("input", "output")
            for tensor in signature[f"{side}s"]
        ]
        titles, *rest = rows or [["  no inputs and outputs"]]
        lines += ["", f"signature {signature['name']}", *table(titles, rest).splitlines()]
        lines += ["  request, once it is served:", f"    {signature['request']}"]
    return lines

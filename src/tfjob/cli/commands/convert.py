"""`tfjob convert`: print a manifest in another API version."""

from __future__ import annotations

from typing import Any

import click

from tfjob.cli.completion import FILE
from tfjob.cli.context import output_option
from tfjob.errors import InvalidRequest


@click.command()
@click.argument("file", type=FILE)
@click.option(
    "--to", "wanted", default="kubeflow.org/v1", show_default=True, metavar="VERSION", help="API version to convert to."
)
@click.option("-p", "parameters", multiple=True, metavar="KEY=VALUE", help="Replace ${KEY} in the manifest.")
@output_option
def convert(file: str, wanted: str, parameters: tuple[str, ...], output: str) -> int:
    """Print the jobs of a manifest in another API version.

    VERSION is an apiVersion such as kubeflow.org/v1, or v1beta2 for short. Fields that VERSION does not have are
    left out and reported on stderr.
    """
    import msgspec
    from msgspec.structs import replace

    from tfjob.api.problems import errors
    from tfjob.api.text.writer import yaml_text
    from tfjob.api.versions.registry import judge, to_version
    from tfjob.cli import exit_codes
    from tfjob.launch.request import read_manifest

    version = _version(wanted)
    _, manifest = read_manifest(file, parameters)
    manifest.raise_for_errors()
    documents: list[Any] = []
    lost = [problem for problem in manifest.problems if problem not in errors(manifest.problems)]
    for entry in manifest.entries:
        document, left_out = to_version(entry.written, version)
        documents.append(msgspec.to_builtins(document))
        lost += [replace(entry.located(problem), warning=True) for problem in left_out]
        # Their paths are those of the new manifest, which has no line numbers.
        lost += [
            replace(fault, message=f"not valid in {version}: {fault.message}", source=manifest.source, warning=True)
            for fault in errors(judge(document))
        ]
    documents += manifest.objects
    for problem in lost:
        click.echo(str(problem), err=True)
    if output == "json":
        whole = documents[0] if len(documents) == 1 else {"apiVersion": "v1", "kind": "List", "items": documents}
        click.echo(msgspec.json.format(msgspec.json.encode(whole)).decode())
    else:
        click.echo(yaml_text(documents), nl=False)
    return exit_codes.SUCCEEDED


def _version(wanted: str) -> str:
    from tfjob.api.versions.registry import WRITERS

    if wanted in WRITERS:
        return wanted
    # kubeflow.org first, because tensorflow.org also has a v1alpha1.
    for version in sorted(WRITERS, key=lambda version: not version.startswith("kubeflow.org/")):
        if version.partition("/")[2] == wanted:
            return version
    raise InvalidRequest(f"unknown API version {wanted} in --to", f"Use one of {', '.join(WRITERS)}.")

"""`tfjob convert`: a manifest in another API version."""

from __future__ import annotations

import click

from tfjob.cli.context import output_option


@click.command()
@click.argument("file")
@click.option(
    "--to", "version", default="kubeflow.org/v1", show_default=True, metavar="VERSION", help="The API version to write."
)
@output_option
def convert(file: str, version: str, output: str) -> int:
    """Print the jobs of a manifest in another API version.

    What that version cannot say is named on stderr.
    """
    import msgspec
    import yaml

    from tfjob.api.versions import WRITERS, to_version
    from tfjob.cli import outcome, starting

    if version not in WRITERS:
        raise outcome.Stop(outcome.BAD_INPUT, f"--to {version}: known versions are {', '.join(WRITERS)}")
    _, manifest = starting.read(file, ())
    starting.warn(manifest)
    manifest.raise_for_errors()
    documents = []
    for entry in manifest.entries:
        document, lost = to_version(entry.written, version)
        documents.append(document)
        for problem in lost:
            click.echo(str(entry.located(problem)), err=True)
    documents.extend(manifest.objects)
    if output == "json":
        for document in documents:
            click.echo(msgspec.json.format(msgspec.json.encode(document)).decode())
    else:
        plain = [msgspec.to_builtins(document) for document in documents]
        click.echo(yaml.safe_dump_all(plain, sort_keys=False), nl=False)
    return outcome.SUCCEEDED

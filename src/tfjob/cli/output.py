"""Print objects as JSON or YAML, alone, in lists and in streams; `jobs/output` has their shapes.

Commands import this module before they know whether they print objects, so it loads the shapes late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tfjob.cli.context import is_quiet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfjob.jobs.backend import Record


def print_job(record: Record, output: str, text: str) -> None:
    """Print a job; as text, print `text` unless `-q` is given."""
    from tfjob.jobs.output import job_shape

    if output != "text":
        print_object("Job", job_shape(record), output)
    elif not is_quiet():
        click.echo(text)


def print_jobs(records: Sequence[Record], output: str, lines: Sequence[str] = ()) -> None:
    """Print a list of jobs; as text, print `lines` unless `-q` is given."""
    from tfjob.jobs.output import job_shape

    if output != "text":
        print_list("Job", [job_shape(record) for record in records], output)
        return
    for line in () if is_quiet() else lines:
        click.echo(line)


def print_list(kind: str, items: Sequence[dict[str, Any]], output: str) -> None:
    print_object(f"{kind}List", {"items": items}, output)


def print_object(kind: str, content: dict[str, Any], output: str, *, is_line: bool = False) -> None:
    """Print an object; with `is_line` as part of a stream: a line of JSON, or a YAML document."""
    from tfjob.jobs.output import OUTPUT_VERSION

    print_document({"apiVersion": OUTPUT_VERSION, "kind": kind, **content}, output, is_line=is_line)


def print_document(whole: dict[str, Any], output: str, *, is_line: bool = False) -> None:
    import msgspec

    from tfjob.jobs.output import json_text, yaml_text

    if output == "yaml":
        click.echo(("---\n" if is_line else "") + yaml_text(whole), nl=False)
    else:
        click.echo(msgspec.json.encode(whole).decode() if is_line else json_text(whole))

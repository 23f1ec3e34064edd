"""Print objects as JSON or YAML, alone, in lists and in streams; `jobs/output` has their shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from tfjob.jobs.output import OUTPUT_VERSION, json_text, yaml_text


def print_object(kind: str, content: dict[str, Any], output: str) -> None:
    print_document({"apiVersion": OUTPUT_VERSION, "kind": kind, **content}, output)


def print_list(kind: str, items: Sequence[dict[str, Any]], output: str) -> None:
    print_object(f"{kind}List", {"items": items}, output)


def print_document(whole: dict[str, Any], output: str) -> None:
    if output == "yaml":
        click.echo(yaml_text(whole), nl=False)
    else:
        click.echo(json_text(whole))


def print_line(whole: dict[str, Any], output: str) -> None:
    """Print one object of a stream: a line of JSON, or a YAML document."""
    if output == "yaml":
        click.echo(f"---\n{yaml_text(whole)}", nl=False)
    else:
        click.echo(msgspec.json.encode(whole).decode())

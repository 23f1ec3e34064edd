"""The printing of objects: `-o json` and `-o yaml`, and streams of them. `jobs/output` says what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from tfjob.jobs.output import OUTPUT_VERSION


def print_object(kind: str, content: dict[str, Any], output: str) -> None:
    """Print one object as JSON or YAML."""
    print_document({"apiVersion": OUTPUT_VERSION, "kind": kind, **content}, output)


def print_list(kind: str, items: Sequence[dict[str, Any]], output: str) -> None:
    """Print a list of objects of one kind."""
    print_object(f"{kind}List", {"items": items}, output)


def print_document(whole: dict[str, Any], output: str) -> None:
    """Print a document as it is."""
    if output == "yaml":
        click.echo(_yaml(whole), nl=False)
    else:
        click.echo(msgspec.json.format(msgspec.json.encode(whole)).decode())


def print_line(whole: dict[str, Any], output: str) -> None:
    """Print one object of a stream: as a line of JSON, or as a document of YAML."""
    click.echo(f"---\n{_yaml(whole)}" if output == "yaml" else msgspec.json.encode(whole).decode() + "\n", nl=False)


def _yaml(whole: dict[str, Any]) -> str:
    from tfjob.api.text.writer import yaml_text

    return yaml_text([msgspec.json.decode(msgspec.json.encode(whole))])

"""`tfjob volume`: the claims kept on this machine."""

from __future__ import annotations

import sys
from typing import Any

import click

from tfjob.cli import outcome
from tfjob.cli.context import namespace_option, output_option, state


@click.group()
def volume() -> None:
    """List or delete the claims kept on this machine; deleting a job never touches them."""


@volume.command()
@output_option
def ls(output: str) -> None:
    """List claims, their folders and the space they take."""
    from tfjob.cli.shapes import print_list
    from tfjob.cli.tables import clock, size, table
    from tfjob.local.claims import Claims, size_on_disk
    from tfjob.local.usage import claim_users

    with state(write=False) as (home, store):
        users = claim_users(store)
        found = Claims(home.claims).all()
    shapes: list[dict[str, Any]] = [
        {
            "name": claim.name,
            "namespace": claim.namespace,
            "folder": str(claim.folder),
            "bytes": size_on_disk(claim.folder),
            "created": claim.record.created,
            "usedBy": users.get((claim.namespace, claim.name), []),
        }
        for claim in found
    ]
    if output == "json":
        print_list("Claim", shapes)
        return
    if not shapes:
        click.echo("no claims")
        return
    rows = [
        [
            shape["namespace"],
            shape["name"],
            size(shape["bytes"]),
            clock(shape["created"]),
            ",".join(shape["usedBy"]) or "-",
            shape["folder"],
        ]
        for shape in shapes
    ]
    click.echo(table(["NAMESPACE", "NAME", "SIZE", "CREATED", "USED BY", "FOLDER"], rows))


@volume.command()
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask; needed where there is no terminal to ask on.")
@namespace_option
@output_option
def delete(name: str, yes: bool, namespace: str, output: str) -> None:
    """Delete a claim and all files in it."""
    from tfjob.cli.shapes import print_json
    from tfjob.local.claims import Claims
    from tfjob.local.usage import claim_users

    with state(write=True) as (home, store):
        claims = Claims(home.claims)
        found = claims.find(namespace, name)
        if found is None:
            known = ", ".join(f"{claim.namespace}/{claim.name}" for claim in claims.all()) or "none"
            raise outcome.Stop(
                outcome.NOT_FOUND, f"there is no claim {name} in namespace {namespace}", f"There are: {known}."
            )
        if not yes:
            if sys.stdin is None or not sys.stdin.isatty():
                raise outcome.Stop(
                    outcome.BAD_INPUT,
                    f"claim {name} holds files that no run can bring back",
                    f"Say that you mean it: tfjob volume delete {name} --yes",
                )
            click.confirm(f"Delete {found.folder} and everything in it?", abort=True, err=True)
        claims.delete(namespace, name, used_by=claim_users(store).get((namespace, name), []))
    if output == "json":
        print_json("Claim", {"name": name, "namespace": namespace, "folder": str(found.folder)})
    else:
        click.echo(f"deleted claim {name}")

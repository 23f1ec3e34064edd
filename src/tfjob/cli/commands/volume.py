"""`tfjob volume`: list and delete the claims on this machine."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from tfjob.cli.context import is_quiet, namespace_option, output_option
from tfjob.cli.output import print_list, print_object
from tfjob.errors import InvalidRequest, NotFound
from tfjob.local.state.home import find_home

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfjob.local.volumes.claims import Claim


@click.group()
def volume() -> None:
    """List or delete claims (PersistentVolumeClaims, kept as folders on this machine).

    Deleting a job does not delete its claims.
    """


@volume.command()
@output_option
def ls(output: str) -> None:
    """List claims with their folders and sizes."""
    from tfjob.jobs.report import clock, size, table
    from tfjob.local.state.store import open_state
    from tfjob.local.volumes.claims import Claims, claim_users

    with open_state(find_home(os.environ), write=False) as (home, store):
        users = claim_users(store)
        shapes = [_shape(one, users.get((one.namespace, one.name), [])) for one in Claims(home.claims).all()]
    if output != "text":
        print_list("Claim", shapes, output)
        return
    rows = []
    for one in shapes:
        use = [size(one["bytes"]), clock(one["created"]), ",".join(one["usedBy"]) or "-"]
        rows.append([one["namespace"], one["name"], *use, one["folder"]])
    titles = ["NAMESPACE", "NAME", "SIZE", "CREATED", "USED BY", "FOLDER"]
    click.echo(table(titles, rows) if rows else "no claims")


@volume.command()
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation; required without a terminal.")
@namespace_option("Namespace of the claim.", "default")
@output_option
def delete(name: str, yes: bool, namespace: str, output: str) -> None:
    """Delete a claim and all files in it."""
    from tfjob.local.state.store import open_state
    from tfjob.local.volumes.claims import Claims, claim_users

    with open_state(find_home(os.environ), write=True) as (home, store):
        claims = Claims(home.claims)
        found = claims.find(namespace, name)
        if found is None:
            known = ", ".join(f"{claim.namespace}/{claim.name}" for claim in claims.all()) or "none"
            raise NotFound(f"no claim '{name}' in namespace '{namespace}'", f"Existing claims: {known}.")
        if not yes:
            if sys.stdin is None or not sys.stdin.isatty():
                hint = f"To confirm: tfjob volume delete {name} --yes"
                raise InvalidRequest(f"deleting claim '{name}' permanently deletes its files", hint)
            click.confirm(f"Delete {found.folder} and everything in it?", abort=True, err=True)
        users = claim_users(store).get((namespace, name), [])
        shape = _shape(found, users)
        claims.delete(namespace, name, used_by=users)
    if output != "text":
        print_object("Claim", shape, output)
    elif not is_quiet():
        click.echo(f"deleted claim {name}")


def _shape(claim: Claim, used_by: Sequence[str]) -> dict[str, Any]:
    from tfjob.local.volumes.claims import size_on_disk

    return {
        "name": claim.name,
        "namespace": claim.namespace,
        "folder": str(claim.folder),
        "bytes": size_on_disk(claim.folder),
        "created": claim.record.created,
        "usedBy": list(used_by),
    }

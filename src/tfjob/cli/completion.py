"""`tfjob completion`: what makes a shell complete commands, options, files and the names of jobs."""

from __future__ import annotations

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete commands, options and job names.

    What it prints never changes: it asks this tool at each TAB. bash needs version 4.4 or later.
    """
    from click.shell_completion import get_completion_class

    root = context.find_root()
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(root.command, {}, "tfjob", "_TFJOB_COMPLETE").source())

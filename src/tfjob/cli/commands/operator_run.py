"""`tfjob operator run`: run the operator, in a pod or on any machine that reaches the API server."""

from __future__ import annotations

from dataclasses import replace

import click

from tfjob.cli.commands.operator_options import options_of
from tfjob.operator.options import Options


@click.command()
@click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig; not needed in a pod.")
@options_of(Options)
@click.option(
    "--log-format",
    type=click.Choice(["json", "text"]),
    default="json",
    show_default=True,
    help="Log format.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Lowest level to log.",
)
def run(options: Options, context: str, log_format: str, log_level: str) -> int:
    """Run the operator in the foreground until SIGTERM.

    Requires the CRD (`tfjob operator manifests --crd-only`), and a kubeconfig or the service account of a pod.
    """
    import logging
    import os

    from tfjob.cli import exit_codes
    from tfjob.durations import durations_from

    with exit_codes.needs("operator"):
        from tfjob.operator.process import logs, manager

    logs.configure(json=log_format == "json", level=logging.getLevelNamesMapping()[log_level.upper()])
    return manager.main(context, replace(options, durations=durations_from(os.environ)))

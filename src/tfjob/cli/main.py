"""The command line: one table of commands, each loaded only when it is used, so that `--help` stays instant."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tfjob import __version__
from tfjob.cli.exit_codes import colour

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Entry(NamedTuple):
    """Where a command is, and what the overview says of it."""

    module: str
    help: str


COMMANDS = {
    "init": Entry("commands.init", "Write a manifest and a training script that run as they are."),
    "run": Entry("commands.run", "Run a manifest or a script and show its logs; the exit code is the job's."),
    "submit": Entry("commands.run", "Run a manifest or a script in the background (= run --detach)."),
    "check": Entry("commands.check", "Say what is wrong with a manifest, and where."),
    "convert": Entry("commands.convert", "Print a manifest in another API version."),
    "ps": Entry("commands.ps", "List jobs."),
    "status": Entry("commands.status", "Show one job: verdict, replicas, attempts, paths."),
    "logs": Entry("commands.logs", "Show the logs of one replica or of all."),
    "events": Entry("commands.events", "Show what happened to a job, in order."),
    "port-forward": Entry("commands.port_forward", "Forward ports to a job, a Deployment, a Service or a pod."),
    "tensorboard": Entry("commands.tensorboard", "Show the curves of jobs in a browser."),
    "wait": Entry("commands.wait", "Wait until a job reaches a state."),
    "stop": Entry("commands.stop", "Stop a job in order; `resume` continues it."),
    "suspend": Entry("commands.stop", "Suspend a job; `resume` continues it."),
    "resume": Entry("commands.stop", "Continue a job that was stopped, suspended or cut off."),
    "scale": Entry("commands.stop", "Change the number of replicas."),
    "delete": Entry("commands.delete", "Remove a job, its record and its logs."),
    "prune": Entry("commands.delete", "Remove the records of old jobs."),
    "exec": Entry("commands.exec", "Run a command inside a replica."),
    "explain": Entry("commands.explain", "Explain how tfjob decides."),
    "doctor": Entry("commands.doctor", "Show what this machine or a cluster can do, and how to improve it."),
    "version": Entry("commands.version", "Show the release of this tool, and those on a cluster."),
    "volume": Entry("commands.volume", "List or delete the claims kept on this machine."),
    "completion": Entry("completion", "Print what makes a shell complete commands, options and job names."),
    "debug-dump": Entry("commands.debug_dump", "Collect a bundle for a bug report, without secrets."),
    "operator": Entry("commands.operator", "Install, remove or run the operator on Kubernetes."),
}


def attribute(name: str) -> str:
    """What a command is called in its module."""
    return {"exec": "exec_"}.get(name, name.replace("-", "_"))


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called and not before."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        from tfjob.cli.context import equipped

        command: click.Command = getattr(import_module(f"tfjob.cli.{entry.module}"), attribute(cmd_name))
        return equipped(command, cmd_name)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        return super().make_context(info_name, args, parent, **{"color": colour(), **extra})

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names of commands, from the table alone; options as click knows them."""
        from click.shell_completion import CompletionItem

        own = click.Command.shell_complete(self, ctx, incomplete)
        found = (CompletionItem(name, help=entry.help) for name, entry in COMMANDS.items())
        return [*(item for item in found if item.value.startswith(incomplete)), *own]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Adds the nearest name to the error for an unknown command."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"{error.message}{hint}", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The overview, from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="tfjob %(version)s")
def cli() -> None:
    """Distributed TensorFlow jobs from one TFJob manifest.

    \b
    tfjob init                  a manifest and a script to begin with
    tfjob run tfjob.yaml        run it here, as processes
    tfjob run train.py          the same for a script alone
    tfjob ps                    list jobs
    tfjob logs @latest -f       follow the logs
    """

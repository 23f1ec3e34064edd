"""The command line: one table of commands, each loaded only when it is used, so that `--help` stays instant."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

import click

from tfjob import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Entry(NamedTuple):
    """The module of a command, and its line in `tfjob --help`."""

    module: str
    help: str


COMMANDS = {
    "init": Entry("commands.init", "Create a manifest and a training script to start from."),
    "run": Entry("commands.run", "Run a manifest or a script and show its logs."),
    "submit": Entry("commands.run", "Run a manifest or a script in the background."),
    "check": Entry("commands.check", "Check manifests and programs; report every problem."),
    "convert": Entry("commands.convert", "Convert a manifest to another API version."),
    "ps": Entry("commands.ps", "List jobs."),
    "status": Entry("commands.status", "Show one job: its state, replicas and files."),
    "logs": Entry("commands.logs", "Show the logs of jobs or of one replica."),
    "attach": Entry("commands.attach", "Open the live view of a background job."),
    "events": Entry("commands.events", "List the events of a job."),
    "models": Entry("commands.models", "List the models of jobs, and show their signatures."),
    "export": Entry("commands.export", "Publish a job's model as the next version in a folder."),
    "predict": Entry("commands.predict", "Ask a served model about an image or an array."),
    "port-forward": Entry("commands.port_forward", "Forward local ports to a job, Deployment, Service or pod."),
    "tensorboard": Entry("commands.tensorboard", "Open TensorBoard for one or more jobs."),
    "serve": Entry("commands.serve", "Serve a model over gRPC and REST."),
    "wait": Entry("commands.wait", "Wait until jobs reach a state."),
    "stop": Entry("commands.stop", "Stop jobs gracefully; `tfjob resume` continues a job."),
    "suspend": Entry("commands.stop", "Suspend jobs; `tfjob resume` continues a job."),
    "resume": Entry("commands.stop", "Resume a stopped, suspended or interrupted job."),
    "scale": Entry("commands.stop", "Change the number of replicas."),
    "delete": Entry("commands.delete", "Delete jobs with their records and logs."),
    "prune": Entry("commands.delete", "Delete the records of jobs that ended long ago."),
    "exec": Entry("commands.exec", "Run a command in a replica."),
    "explain": Entry("commands.explain", "Explain the rules that tfjob follows."),
    "doctor": Entry("commands.doctor", "Check what this machine or a cluster supports."),
    "version": Entry("commands.version", "Show the versions of tfjob and of a cluster."),
    "volume": Entry("commands.volume", "List or delete the claims on this machine."),
    "completion": Entry("completion", "Print a shell completion script."),
    "debug-dump": Entry("commands.debug_dump", "Collect the files for a bug report; secrets are replaced."),
    "operator": Entry("commands.operator", "Install, remove or run the Kubernetes operator."),
}

MEANT = {
    "list": "tfjob ps",
    "ls": "tfjob ps",
    "get": "tfjob ps, or tfjob status JOB",
    "describe": "tfjob status JOB",
    "show": "tfjob status JOB",
    "start": "tfjob submit FILE, or tfjob resume JOB",
    "cancel": "tfjob stop JOB",
    "kill": "tfjob stop JOB",
    "rm": "tfjob delete JOB",
    "remove": "tfjob delete JOB",
    "top": "tfjob attach JOB, or tfjob ps -w",
}
"""What to use instead of commands that other tools have."""


class LazyGroup(click.Group):
    """A group that imports a command only when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        from tfjob.cli.context import equipped

        function = "exec_" if cmd_name == "exec" else cmd_name.replace("-", "_")
        return equipped(getattr(import_module(f"tfjob.cli.{entry.module}"), function), cmd_name)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        own = click.Command.shell_complete(self, ctx, incomplete)
        found = (CompletionItem(name, help=entry.help) for name, entry in COMMANDS.items())
        return [*(item for item in found if item.value.startswith(incomplete)), *own]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            meant, near = MEANT.get(args[0]), get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Use {meant}." if meant else f" Did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"{error.message}{hint}", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="tfjob %(version)s")
def cli() -> None:
    """Run distributed TensorFlow jobs from TFJob manifests, on this machine and on Kubernetes.

    \b
    tfjob init                  create a manifest and a script
    tfjob run tfjob.yaml        run the job on this machine
    tfjob run train.py          run a script without a manifest
    tfjob ps                    list jobs
    tfjob logs @latest -f       follow the logs
    """

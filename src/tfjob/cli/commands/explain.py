"""`tfjob explain`: print the rules that tfjob follows, from the tables that the plan uses."""

from __future__ import annotations

import click

from tfjob.cli.context import output_option
from tfjob.cli.output import print_object

SHOWN = ("shows", "cause", "remedy")
"""The fields of a known error that people read."""


@click.group()
def explain() -> None:
    """Explain the rules that tfjob follows."""


@explain.command()
@output_option
def restarts(output: str) -> None:
    """Show which failures are retried.

    The table has a column for each restart policy, and shows what counts against backoffLimit.
    """
    from tfjob.durations import USUAL
    from tfjob.jobs.output import retry_rules
    from tfjob.jobs.report import table

    rules, of_tf_jobs = retry_rules()
    if output != "text":
        print_object("RetryRuleList", {"items": rules, "tfJobItems": of_tf_jobs}, output)
        return
    titles = ["REPLICA ENDS WITH", "Never", "ExitCode", "OnFailure, Always", "COUNTS"]
    click.echo(table(titles, [list(rule.values()) for rule in rules]))
    waits = ", ".join(f"{wait.total_seconds():.0f}" for wait in USUAL.restart_waits)
    click.echo(f"""
restart: tfjob creates a new pod for the replica. in place: the pod stays, and its container starts again.
An OOM kill is the second in a row if the replica started at most 30 minutes earlier, and its previous failure was an
OOM kill too.
Without parameter servers, the chief, master and workers are a gang: they restart together, because collectives cannot
continue without a member. With parameter servers, only the lost replicas restart. `spec.restartScope: Task | Gang`
overrides this.
After a failure that looks permanent, the job waits 15 s for the root cause, unless no other replica can be the cause
(5 s with parameter servers, if no replica runs on another node). If another replica was lost or killed before or at the
same time as the failure, it is the cause, and the replicas restart.
Each restart waits longer than the last: {waits} s. The delay resets after 10 minutes without a
restart. Every replica has its own delay; a gang shares one. If a replica may have failed because of another one, it
waits at least as long as that one.
An error does not fail the job if another replica was still waiting to restart, or had restarted less than a minute
earlier, because its absence may have caused the error. The replica with the error restarts, which does not count
against backoffLimit.
COUNTS shows whether a restart counts against `runPolicy.backoffLimit`. Without a backoffLimit, restarts are unlimited.

For a TfJob of tensorflow.org/v1alpha1, the replica type decides, and the restartPolicy of the template is ignored.
The column MASTER is for the chief of the job: the replica that terminationPolicy.chief names, by default MASTER 0. An
error of the chief does not fail the job if it follows the loss of another replica: the chief restarts.
""")
    titles = ["REPLICA ENDS WITH", "MASTER", "WORKER", "PS"]
    click.echo(table(titles, [list(rule.values()) for rule in of_tf_jobs]))


@explain.command()
@output_option
def errors(output: str) -> None:
    """List the failures of TensorFlow and Keras that tfjob recognizes.

    Each entry shows the text of the error, its cause and what to do. If a job fails with one of these errors, `tfjob
    status` shows the advice.
    """
    import textwrap

    from tfjob.cli.output import print_list
    from tfjob.jobs.output import known_errors

    entries = known_errors()
    if output != "text":
        print_list("KnownError", entries, output)
        return
    lines = textwrap.TextWrapper(100, subsequent_indent=" " * 10, break_on_hyphens=False)
    blocks = [
        [click.style(entry["name"], bold=True), *(lines.fill(f"  {name:<8}{entry[name]}") for name in SHOWN)]
        for entry in entries
    ]
    click.echo("\n\n".join("\n".join(block) for block in blocks))

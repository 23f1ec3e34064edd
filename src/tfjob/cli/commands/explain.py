"""`tfjob explain`: how tfjob decides, printed from the tables that decide."""

from __future__ import annotations

import click

from tfjob.cli.context import output_option


@click.group()
def explain() -> None:
    """Explain how tfjob decides."""


@explain.command()
@output_option
def restarts(output: str) -> None:
    """Which ends are tried again, under which restart policy, and what counts against backoffLimit."""
    from tfjob.cli.output import print_object
    from tfjob.durations import USUAL
    from tfjob.jobs.output import retry_rules, tf_job_retry_rules
    from tfjob.jobs.report import table

    rules, of_tf_jobs = retry_rules(), tf_job_retry_rules()
    if output != "text":
        print_object("RetryRuleList", {"items": rules, "tfJobItems": of_tf_jobs}, output)
        return
    titles = ["A REPLICA ENDS BY", "Never", "ExitCode", "OnFailure, Always", "COUNTS"]
    click.echo(table(titles, [list(rule.values()) for rule in rules]))
    waits = ", ".join(f"{wait.total_seconds():.0f}" for wait in USUAL.restart_waits)
    click.echo(f"""
Who starts again: chief, master and workers together when there is no parameter server (collectives cannot go on
without a member); with parameter servers, only what was lost. `spec.restartScope: Task | Gang` overrides.
A failure that looks permanent waits 15 s for its cause (with parameter servers on the same node 5 s): if another
replica was lost or killed no later, that one is to blame and everything starts again.
Restarts wait {waits} s, from the start after 10 minutes without one; each replica for its own
restarts, those that start again together for those of all, and who may have died of another for that one. An error of
a replica that was started while another one was held back is not held against it, nor is one within a minute after a
lost one is back.
COUNTS says whether it uses up `runPolicy.backoffLimit`; without a limit there is none.

In a TfJob of tensorflow.org/v1alpha1 the type decides, whatever the template's restartPolicy says. MASTER stands for
the replica that terminationPolicy.chief names. It is not blamed for an error that follows the loss of another one.
""")
    titles = ["A REPLICA OF A TFJOB ENDS BY", "MASTER", "WORKER", "PS"]
    click.echo(table(titles, [list(rule.values()) for rule in of_tf_jobs]))

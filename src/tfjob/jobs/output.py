"""What `-o json` and `-o yaml` print: plain objects under a version, so that scripts can rely on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from tfjob.api.types import API_VERSION, ORIGIN

if TYPE_CHECKING:
    from tfjob.jobs.backend import Event, Line, Record, Replica
    from tfjob.local.volumes.claims import Claim
    from tfjob.plan.policy.restarts import Row, TfJobRow

OUTPUT_VERSION = "tfjob/v1"
"""Raised when a field changes its meaning or goes; new fields may come at any time."""


def print_object(kind: str, content: dict[str, Any], output: str) -> None:
    """Prints one object as JSON or YAML."""
    whole = {"apiVersion": OUTPUT_VERSION, "kind": kind, **content}
    if output == "yaml":
        click.echo(_yaml(whole), nl=False)
    else:
        click.echo(msgspec.json.format(msgspec.json.encode(whole)).decode())


def print_list(kind: str, items: Sequence[dict[str, Any]], output: str) -> None:
    """Prints a list of objects of one kind."""
    print_object(f"{kind}List", {"items": items}, output)


def print_line(whole: dict[str, Any], output: str) -> None:
    """Prints one object of a stream: as a line of JSON, or as a document of YAML."""
    click.echo(f"---\n{_yaml(whole)}" if output == "yaml" else msgspec.json.encode(whole).decode() + "\n", nl=False)


def _yaml(whole: dict[str, Any]) -> str:
    from tfjob.api.text.writer import yaml_text

    return yaml_text([msgspec.json.decode(msgspec.json.encode(whole))])


def job_shape(record: Record) -> dict[str, Any]:
    """A job in short: the row of `ps`."""
    job, status = record.job, record.job.status
    return {
        "name": record.name,
        "id": record.id,
        "namespace": job.metadata.namespace,
        "uid": record.uid,
        "writtenFor": job.metadata.annotations.get(ORIGIN, API_VERSION),
        "state": record.state,
        "reason": record.reason,
        "message": status.message,
        "ready": status.ready,
        "restarts": status.restarts,
        "attempt": status.attempt,
        "created": record.created,
        "started": status.start_time,
        "completed": status.completion_time,
        "current": record.current,
        "attached": record.attached,
        "folder": record.folder,
        "failure": status.failure,
    }


def replica_shape(replica: Replica) -> dict[str, Any]:
    """A replica in `status`."""
    return {
        "name": replica.name,
        "phase": replica.phase,
        "attempts": replica.attempts,
        "restarts": replica.restarts,
        "exitCode": replica.exit_code,
        "address": replica.address,
        "node": replica.node,
        "resources": replica.resources,
        "start": replica.start,
        "pid": replica.pid,
    }


def event_shape(event: Event) -> dict[str, Any]:
    """An event."""
    return {
        "time": event.time,
        "last": event.last,
        "count": event.count,
        "type": "Warning" if event.warning else "Normal",
        "reason": event.reason,
        "message": event.message,
    }


def log_line_shape(line: Line) -> dict[str, Any]:
    """A line of `logs`; `more` says that the next one goes on with the same line, `notice` that we wrote it."""
    return {
        "apiVersion": OUTPUT_VERSION,
        "kind": "LogLine",
        "time": line.time,
        "replica": line.replica,
        "text": line.text,
        "more": line.more,
        "notice": line.notice,
    }


def retry_rule_shape(row: Row) -> dict[str, Any]:
    """A line of `explain restarts`."""
    return {
        "cause": row.cause,
        "never": row.never,
        "exitCode": row.exit_code,
        "inPlace": row.in_place,
        "counts": row.counts,
    }


def tf_job_rule_shape(row: TfJobRow) -> dict[str, Any]:
    """A line of `explain restarts` about TfJobs of tensorflow.org."""
    return {"cause": row.cause, "master": row.master, "worker": row.worker, "ps": row.ps}


def claim_shape(claim: Claim, used_by: Sequence[str]) -> dict[str, Any]:
    """A claim."""
    from tfjob.local.volumes.claims import size_on_disk

    return {
        "name": claim.name,
        "namespace": claim.namespace,
        "folder": str(claim.folder),
        "bytes": size_on_disk(claim.folder),
        "created": claim.record.created,
        "usedBy": list(used_by),
    }

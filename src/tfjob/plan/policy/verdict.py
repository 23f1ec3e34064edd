"""The verdict: which replica failed first, how, its last log lines, and what to do about a known error."""

from __future__ import annotations

import signal
from collections.abc import Iterable

from msgspec.structs import replace

from tfjob.api.defaults import training_container
from tfjob.api.objects import PEAK_MEMORY, Pod
from tfjob.api.types import TFJob, Verdict
from tfjob.plan.events import OOM_KILLED, shortened
from tfjob.plan.facts.task_state import End
from tfjob.plan.facts.tasks import Task, task_of
from tfjob.plan.policy import known_errors
from tfjob.plan.policy.last_lines import fitting, last_lines, plain_lines

FEW_BYTES = 1024
START_ERROR = "StartError"
AT_LAST = "unable to start container process: "
"""runc writes this before the actual error, and before it the names of all callers."""


def verdict(task: Task, attempt: int, end: End) -> Verdict:
    lines = plain_lines(end.message) if end.exit_code else [""]
    return Verdict(
        replica=task.name,
        attempt=attempt,
        exit_code=end.exit_code,
        signal=signal_name(end),
        reason=end.reason or ("Error" if end.exit_code else ""),
        message=shortened(sentence(task, end)),
        advice=known_errors.advice("\n".join(lines), end.exit_code) if end.exit_code else "",
        last_lines=last_lines(lines),
        time=end.time,
    )


def sentence(task: Task, end: End) -> str:
    """Describe an end in one sentence: `worker-1 was killed by SIGKILL (137, OOMKilled)`."""
    if end.exit_code is None:
        detail = f": {end.message}" if end.message else ""
        return f"{task.name} was lost ({end.reason}){detail}"
    if end.reason == START_ERROR:
        point = end.message.strip().rpartition(AT_LAST)[2].removesuffix(": unknown")
        return f"{task.name} could not start: {point}"
    name = signal_name(end)
    because = f", {end.reason}" if end.reason not in ("", "Error", "Completed") else ""
    if name:
        return f"{task.name} was killed by {name} ({end.exit_code}{because})"
    return f"{task.name} exited {end.exit_code}" + (f" ({end.reason})" if because else "")


def signal_name(end: End) -> str:
    """Return the name of the signal behind an exit code above 128; empty if there is none."""
    number = end.signal or (end.exit_code - 128 if end.exit_code and 128 < end.exit_code <= 192 else 0)
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def fewer_lines(cause: Verdict) -> Verdict:
    """Keep only a few last lines: a status has room for all lines of one end only."""
    return replace(cause, last_lines=fitting(cause.last_lines, FEW_BYTES))


def memory_advice(job: TFJob, pods: Iterable[Pod], cause: Verdict, *, repeated: bool) -> Verdict:
    """Add the memory peak and limit to an OOM verdict; return other verdicts unchanged."""
    pod = next((pod for pod in pods if (task := task_of(pod)) and task.name == cause.replica), None)
    task = task_of(pod) if pod else None
    if cause.reason != OOM_KILLED or pod is None or task is None:
        return cause
    container = training_container(job.spec.tf_replica_specs[task.type].template)
    limits = (container.get("resources") or {}).get("limits") or {}
    peak = pod.metadata.annotations.get(PEAK_MEMORY, "")
    used = f"peak {int(peak) / 2**20:.0f} MiB, " if peak.isdigit() else ""
    often = " twice in a row" if repeated else ""
    advice = f"{cause.message}{often}: {used}limit {limits.get('memory', 'none')}; raise resources.limits.memory"
    return replace(cause, message=advice)

"""The verdict: which replica failed first, how, and its last log lines."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from tfjob.api.defaults import training_container
from tfjob.api.objects import PEAK_MEMORY, Pod
from tfjob.api.types import TFJob, Verdict
from tfjob.plan.events import OOM_KILLED, shortened
from tfjob.plan.facts.task_state import End
from tfjob.plan.facts.tasks import Task, task_of

LINES, BYTES = 20, 4096
FEW_BYTES = 1024

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
START_ERROR = "StartError"
AT_LAST = "unable to start container process: "
"""runc writes this before the actual error, and before it the names of all callers."""


def verdict(task: Task, attempt: int, end: End) -> Verdict:
    lines = last_lines(end.message) if end.exit_code not in (None, 0) else []
    return Verdict(
        replica=task.name,
        attempt=attempt,
        exit_code=end.exit_code,
        signal=signal_name(end),
        reason=end.reason or ("Error" if end.exit_code else ""),
        message=shortened(sentence(task, end)),
        last_lines=lines,
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


def last_lines(message: str) -> list[str]:
    """Return the last lines of a termination message as plain text, limited so that a status stays small."""
    lines = [_plain(line) for line in ANSI.sub("", message).rstrip().split("\n")]
    kept = _last_of(lines, BYTES)
    return [] if kept == [""] else kept


def fewer_lines(cause: Verdict) -> Verdict:
    """Keep only a few last lines: a status has room for all lines of one end only."""
    return replace(cause, last_lines=_last_of(cause.last_lines, FEW_BYTES))


def _last_of(lines: Sequence[str], limit: int) -> list[str]:
    kept: list[str] = []
    room = limit
    for line in reversed(lines[-LINES:]):
        fitting = _fitting(line, limit)
        room -= _size(fitting)
        if room < 0:
            break
        kept.append(fitting)
    return kept[::-1]


def _plain(line: str) -> str:
    """Return a line as a terminal shows it: a progress bar overwrites itself, control characters disappear."""
    shown = line.rstrip("\r").rsplit("\r", 1)[-1]
    return CONTROL.sub("", shown.encode(errors="replace").decode())


def _fitting(line: str, limit: int) -> str:
    """Cut the beginning of a line that alone exceeds the limit."""
    while _size(line) > limit:
        line = line[len(line) // 8 + 1 :]
    return line


def _size(line: str) -> int:
    return len(msgspec.json.encode(line)) + 1


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

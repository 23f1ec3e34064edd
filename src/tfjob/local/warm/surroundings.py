"""What a process inherits beside its environment: limits, rights, groups, namespaces, its place in the machine.

A fork gets all of it from the process that it is forked from. Only one with the very same will do.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")
_STATUS = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
_LIMITS = tuple(name for name in dir(resource) if name.startswith("RLIMIT_"))


def surroundings() -> list[str]:
    """This process's own, as lines that are equal where everything inherited is."""
    return [
        *(f"{name} {resource.getrlimit(getattr(resource, name))}" for name in _LIMITS),
        *(f"{name} {_link(f'/proc/self/ns/{name}')}" for name in _NAMESPACES),
        *(line for line in _lines("/proc/self/status") if line.split(":")[0] in _STATUS),
        *_lines("/proc/self/cgroup"),
        *_lines("/proc/self/oom_score_adj"),
        f"nice {os.getpriority(os.PRIO_PROCESS, 0)} {os.sched_getscheduler(0)} {sorted(os.sched_getaffinity(0))}",
        f"root {_link('/proc/self/root')}",
    ]


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []

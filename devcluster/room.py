"""A room: a process tree with its own process, mount, network and host name namespaces, which ends as a whole.

Mounts, links, addresses, routes, packet filters and network settings of a room vanish with its first process, so there
is nothing to undo. `room_init` is the first process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from devcluster.errors import Refused, tail
from devcluster.state import Folder, Started

HOME = Path("/run/node")
"""Where a room sees its folder. The path is short, because that of a socket may have at most 107 characters."""


@dataclass(frozen=True)
class Process:
    """A process to run in a room."""

    name: str
    command: Sequence[str | Path]
    env: Mapping[str, str] = field(default_factory=dict)
    after: str = ""
    """A file that must exist before it starts; later processes in the list wait too."""


class Room:
    """An open room that waits for its orders."""

    def __init__(self, cluster: Folder, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.folder = cluster / "rooms" / name
        self.folder.mkdir(parents=True, exist_ok=True)
        script = Path(__file__).with_name("room_init.py")
        self._opener = cluster.start(
            name, [sys.executable, "-I", "-S", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._opener.stdin is not None
        assert self._opener.stdout is not None
        said = self._opener.stdout.readline()
        self._opener.stdout.close()
        if self._opener.wait() or not said:
            raise Refused(f"cannot create the namespaces of {name}:\n{tail(cluster.logs / f'{name}.log')}")
        self.pid = int(said)
        cluster.note(name, self.pid)

    def begin(
        self, processes: Sequence[Process], *, covered: Sequence[str] = (), pretended: Mapping[str, str] | None = None
    ) -> None:
        """Start processes; the room has its own copies of `covered` folders and other content in `pretended` files."""
        orders = {
            "hostname": self.name,
            "folder": str(self.folder),
            "home": str(HOME),
            "covered": list(covered),
            "pretended": dict(pretended or {}),
            "processes": [
                {
                    "name": one.name,
                    "command": [str(word) for word in one.command],
                    "env": dict(one.env),
                    "after": one.after,
                    "log": str(self.cluster.logs / f"{self.name}-{one.name}.log"),
                }
                for one in processes
            ],
        }
        assert self._opener.stdin is not None
        with self._opener.stdin as pipe:
            pipe.write(json.dumps(orders).encode())

    def ip(self, *commands: str) -> None:
        ip(*commands, room=self.pid)


def ip(*commands: str, room: int | None = None) -> None:
    """Run commands of ip(8), in the network of a room or the machine's."""
    inside = ["nsenter", "--target", str(room), "--net"] if room else []
    run([*inside, "ip", "-batch", "-"], text="\n".join(commands))


def enter(pid: int, command: Sequence[str], env: Mapping[str, str], stdin: IO[bytes] | None = None) -> str:
    """Run a command that sees a room's files, network and processes; return its output."""
    return run(["nsenter", "--target", str(pid), "--mount", "--net", "--pid", *command], env=env, stdin=stdin)


def find(cluster: Folder, name: str) -> Started:
    for one in cluster.started():
        if one.name == name and one.alive():
            return one
    raise Refused(f"{name} is not running in cluster {cluster.name}")


def close(room: Started) -> None:
    """Kill a room at once, as a power cut would, and wait until everything in it is gone."""
    while room.alive():
        with contextlib.suppress(ProcessLookupError):
            os.kill(room.pid, signal.SIGKILL)
        time.sleep(0.02)


def run(
    command: Sequence[str],
    env: Mapping[str, str] | None = None,
    stdin: IO[bytes] | None = None,
    text: str | None = None,
) -> str:
    given: dict[str, Any] = {"input": text} if text is not None else {"stdin": stdin or subprocess.DEVNULL}
    done = subprocess.run(
        command, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False, **given
    )
    if done.returncode:
        raise Refused(f"`{' '.join(command)}` failed: {done.stderr.strip()}{f' (input: {text})' if text else ''}")
    return str(done.stdout)

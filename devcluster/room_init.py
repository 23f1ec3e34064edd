"""The first process of a room: a separate script that needs only the standard library.

It leaves the machine's namespaces, prints the pid of the room's first process and exits. The first process reads its
orders from standard input; if there are none, because the opener was killed, the room closes.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000


def main() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET):
        sys.exit(f"unshare: {os.strerror(ctypes.get_errno())}")
    first = os.fork()
    if first:
        print(first, flush=True)
        os._exit(0)
    os.setsid()
    os.dup2(2, 1)
    be_first(json.loads(sys.stdin.read() or "{}"))


def be_first(orders: dict[str, Any]) -> None:
    """Set up the room, start its processes, and reap every process that ends in it.

    A killed process is restarted, as by a service manager; one that exits is reported as failed.
    """
    if not orders:
        return
    furnish(orders)
    running = {start(order): order for order in orders["processes"]}
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            print("all processes have exited", file=sys.stderr, flush=True)
            return
        order = running.pop(pid, None)
        if order is None:
            continue
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGKILL:
            print(f"{order['name']} was killed; restarting it", file=sys.stderr, flush=True)
            running[start(order)] = order
        else:
            print(f"{order['name']} ended: {code}", file=sys.stderr, flush=True)


def furnish(orders: dict[str, Any]) -> None:
    """Mount /proc, /run, the room's folder at a short path, and copies of files that the room must not change."""
    mount("--make-rprivate", "/")  # the machine does not see the room's mounts
    mount("--make-rshared", "/")  # the kubelet sees the volumes of pods
    mount("-t", "proc", "proc", "/proc")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    home = Path(orders["home"])
    home.mkdir(parents=True)
    mount("--bind", orders["folder"], str(home))
    for covered in orders["covered"]:
        upper, work = home / "upper" / covered.strip("/"), home / "work" / covered.strip("/")
        upper.mkdir(parents=True, exist_ok=True)
        work.mkdir(parents=True, exist_ok=True)
        mount("-t", "overlay", "overlay", "-o", f"lowerdir={covered},upperdir={upper},workdir={work}", covered)
    for number, (path, value) in enumerate(orders["pretended"].items()):
        if Path(path).exists():
            copy = home / f"pretended-{number}"
            copy.write_text(f"{value}\n")
            mount("--bind", str(copy), path)
    hostname = orders["hostname"].encode()
    ctypes.CDLL(None, use_errno=True).sethostname(hostname, len(hostname))


def start(order: dict[str, Any]) -> int:
    """Start one process of the room after the file that it waits for exists; return its pid."""
    while order["after"] and not Path(order["after"]).exists():
        time.sleep(0.05)
    with Path(order["log"]).open("ab") as log:
        return subprocess.Popen(
            order["command"],
            env={**os.environ, **order["env"]},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        ).pid


def mount(*words: str) -> None:
    """Run mount(8) without a note of it on the machine."""
    subprocess.run(["mount", "--no-mtab", *words], check=True)


if __name__ == "__main__":
    main()

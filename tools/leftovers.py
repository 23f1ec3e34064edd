"""Run a command and fail if it leaves anything behind on the machine; needs only the standard library.

    python3 tools/leftovers.py guard COMMAND ...    run it, compare before and after, name every leftover
    python3 tools/leftovers.py sweep                remove what a guarded run that was killed left behind

A guarded run gets a new folder as TMPDIR, and its guard adopts every orphan (a "subreaper"). Therefore, processes and
files of other programs on the machine are not reported.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "tfjob-ci-"
GRACE = 10.0
NEWBORN = 10.0
SCRATCH = ("/tmp", "/var/tmp", "/dev/shm", "/run")
NOT_OURS = (
    *("pytest-of-", "uv-", "__autograph_generated_file", "__pycache__"),
    *("mnist-worker-", "retrain-", ".tensorboard-info"),
)
"""Files that pytest, uv, TensorFlow, killed trainings and TensorBoard leave in TMPDIR."""
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
MARK = b"TFJOB_POD="  # every process of a pod carries it
CLUSTER_LINK = "tfjobdc"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def main(arguments: list[str]) -> int:
    match arguments:
        case ["guard", _, *_]:
            return guard(arguments[1:])
        case ["sweep"]:
            sweep()
            return 0
    print(__doc__, file=sys.stderr)
    return 2


def guard(command: list[str]) -> int:
    """Run a command; return its exit code, or 1 if that is 0 and something is left."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)  # end if the caller is killed
    with run_folder() as folder:
        before = machine(folder)
        code = run(command, folder)
        left = until_clean(before, folder)
        end_all(descendants(os.getpid()))
    for one in left:
        print(f"left behind: {one}", flush=True)
    print(f"leftovers: {len(left)}", flush=True)
    return code or (1 if left else 0)


def run(command: list[str], folder: Path) -> int:
    """Run a command with its own TMPDIR, and reap every orphan meanwhile."""
    scratch = folder / "tmp"
    scratch.mkdir()
    scratch.chmod(0o1777)
    early: list[int] = []  # signals that arrived before the child existed
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: early.append(number))
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, env={**os.environ, "TMPDIR": str(scratch)})
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: os.kill(child.pid, number))
    for number in early:
        os.kill(child.pid, number)
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child.pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode if child.returncode >= 0 else 128 - child.returncode


def until_clean(before: dict[str, set[str]], folder: Path) -> list[str]:
    """Return what the run left on the machine, after a grace period in which it may still disappear."""
    deadline = time.monotonic() + GRACE
    while True:
        reap()
        left = [f"{kind}: {one}" for kind, found in machine(folder).items() for one in sorted(found - before[kind])]
        left = [one for one in left if not is_foreign(one)]
        left += [f"process: {describe(pid)}" for pid in sorted(descendants(os.getpid()))]
        left += [f"mount: {one}" for one in sorted(mounts_below(folder))]
        left += [f"file: {one}" for one in sorted(files_left(folder / "tmp"))]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.2)


# The state of the machine.


def machine(folder: Path) -> dict[str, set[str]]:
    """Return everything on the machine that a test could change, except what is below the folder of the run."""
    return {
        "mount": mounts() - mounts_below(folder),
        "link": names("/sys/class/net"),
        "named network namespace": names("/run/netns"),
        "address": addresses(),
        "route": routes(),
        "cgroup": cgroups(),
        "user": lines("/etc/passwd") | lines("/etc/group") | lines("/etc/subuid"),
        "scratch": {f"{folder}/{name}" for folder in SCRATCH for name in names(folder) if "tfjob" in name},
        "development cluster": names(clusters_folder()),
        "state folder": {f"{folder}/{name}" for folder in state_folders() for name in names(folder)},
    }


def mounts() -> set[str]:
    return {line.split()[4] for line in lines("/proc/self/mountinfo")}


def mounts_below(folder: Path) -> set[str]:
    return {mount for mount in mounts() if mount.startswith(f"{folder}/")}


def addresses() -> set[str]:
    """Return the local IPv4 addresses, and the IPv6 addresses with their link."""
    found, last = set(), ""
    for line in lines("/proc/net/fib_trie", ordered=True):
        if "|--" in line:
            last = line.split()[-1]
        elif "/32 host LOCAL" in line:
            found.add(last)
    return found | {" ".join(line.split()[0:6:5]) for line in lines("/proc/net/if_inet6")}


def routes() -> set[str]:
    """Return the IPv4 routes as link, destination, gateway and mask in the kernel's hexadecimal format."""
    return {" ".join(line.split()[i] for i in (0, 1, 2, 7)) for line in lines("/proc/net/route")}


def cgroups() -> set[str]:
    """Return the control groups of tfjob, version 1 and 2, that hold no process, including the groups below them."""
    roots = {fields[4] for fields in map(str.split, lines("/proc/self/mountinfo")) if "cgroup" in fields[8:10][0]}
    found = set()
    for root in roots:
        for folder, below, _ in os.walk(root):
            ours = [f"{folder}/{name}" for name in below if "tfjob" in name]
            found.update(group for group in ours if not any(lines(f"{one}/cgroup.procs") for one in groups_in(group)))
    return found


def groups_in(group: str) -> list[str]:
    """Return a control group and those below it, the innermost first."""
    return [folder for folder, _, _ in os.walk(group, topdown=False)]


def state_folders() -> list[str]:
    """Return the folders where the tool keeps its state if a test does not set TFJOB_HOME."""
    home = Path.home()
    return [f"{home}/.local/state/tfjob/runs/default", f"{home}/.local/state/tfjob", f"{home}/.config/tfjob"]


def clusters_folder() -> str:
    return f"{os.environ.get('XDG_STATE_HOME') or Path.home() / '.local/state'}/tfjob-devcluster"


def files_left(scratch: Path) -> set[str]:
    """Return the files that tests did not remove from their TMPDIR."""
    return {f"{scratch}/{name}" for name in names(str(scratch)) if not name.startswith(NOT_OURS)}


def is_foreign(found: str) -> bool:
    """Return whether something new may belong to another test run: a guarded one, or one that is running."""
    kind, _, name = found.partition(": ")
    if kind == "mount":
        return is_others_mount(name)
    if kind in ("cgroup", "scratch"):
        return Path(name).name.startswith(PREFIX) or bool(other_test_runs())
    if kind == "development cluster" or (kind in ("link", "route", "address") and is_cluster_network(name)):
        return bool(other_test_runs())
    return False


def is_cluster_network(found: str) -> bool:
    """Return whether a link, route or address belongs to a development cluster."""
    return CLUSTER_LINK in found or (found.startswith("10.2") and found.endswith((".0.0", ".0.1", ".0.255")))


def is_others_mount(mount: str) -> bool:
    """Return whether a mount is in the folder of another test run, or in a scratch folder that a process uses."""
    scratch = tempfile.gettempdir()
    inner = mount.removeprefix(f"{scratch}/")
    if any(part.startswith((PREFIX, "pytest-of-")) for part in inner.split("/")):
        return True
    if inner == mount:
        return False
    ours = {os.getpid(), *descendants(os.getpid())}
    others = b"\0".join(read(f"/proc/{pid}/cmdline") for pid in processes() if pid not in ours)
    return os.fsencode(f"{scratch}/{inner.split('/')[0]}/") in others


def other_test_runs() -> list[int]:
    """Return the processes that run pytest and do not descend from this one."""
    ours = descendants(os.getpid())
    return [pid for pid in processes() if pid not in ours and b"pytest" in read(f"/proc/{pid}/cmdline")]


# Processes.


def processes() -> dict[int, int]:
    """Return the parent of every living process, by pid."""
    found = {}
    for name in names("/proc"):
        fields = read(f"/proc/{name}/stat").rpartition(b")")[2].split() if name.isdigit() else []
        if fields and fields[0] not in b"ZX":
            found[int(name)] = int(fields[1])
    return found


def descendants(ancestor: int) -> set[int]:
    everyone = processes()
    found: set[int] = set()
    while True:
        more = {pid for pid, parent in everyone.items() if parent == ancestor or parent in found}
        if more == found:
            return found
        found = more


def of_folder(folder: Path) -> set[int]:
    """Return the processes that name the folder of a run, work in it, or have the mark of its pods; and descendants."""
    names_it = os.fsencode(f"{folder}/")
    marks = [MARK + uid for uid in pods_of(folder)]
    roots = {
        pid
        for pid in processes()
        if pid != os.getpid()
        and (
            names_it in (text := read(f"/proc/{pid}/environ") + read(f"/proc/{pid}/cmdline") + bytes(1))
            or any(mark + bytes(1) in text for mark in marks)
            or os.fsencode(working_folder(pid)).startswith(names_it)
        )
    }
    return roots.union(*(descendants(pid) for pid in roots))


def pods_of(folder: Path) -> list[bytes]:
    """Return the uids of the pods that a run has created."""
    found = []
    for file in folder.rglob("spec.json"):
        with contextlib.suppress(ValueError, KeyError, TypeError):  # the writer was killed, or the file is not a pod's
            found.append(os.fsencode(json.loads(read(str(file)))["uid"]))
    return found


def working_folder(pid: int) -> str:
    """Return the working folder of a process; empty if the process is gone."""
    try:
        return f"{Path(f'/proc/{pid}/cwd').readlink()}/"
    except OSError:
        return ""


def end_all(pids: set[int]) -> None:
    """Kill processes and wait up to the grace period for their end."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + GRACE
    while pids & set(processes()) and time.monotonic() < deadline:
        reap()
        time.sleep(0.05)


def reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def describe(pid: int) -> str:
    return f"{pid} {read(f'/proc/{pid}/cmdline').replace(bytes(1), b' ').decode(errors='replace')[:200]}"


# The folder of a run.


@contextlib.contextmanager
def run_folder() -> Iterator[Path]:
    """Create a folder with a lock that shows that its run is alive."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    folder.chmod(0o755)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            remove(folder)


def sweep() -> None:
    """End and remove every guarded run whose guard was killed, and the clusters of killed test runs."""
    swept = [sweep_folder(folder) for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*")]
    subprocess.run([sys.executable, "-m", "devcluster", "sweep"], cwd=Path(__file__).parents[1], check=False)
    deadline = time.monotonic() + (NEWBORN if any(swept) else 0.0)
    while remove_groups() and time.monotonic() < deadline:
        time.sleep(0.5)


def sweep_folder(folder: Path) -> bool:
    """End and remove one run, unless its guard is alive."""
    with contextlib.suppress(BlockingIOError, FileNotFoundError), (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ended: set[int] = set()
        while pids := of_folder(folder) - ended:  # a process may have started others before its end
            end_all(pids)
            ended |= pids
        remove(folder)
        print(f"swept {folder}: {len(ended)} processes of a run that was killed", flush=True)
        return True
    return False


def remove_groups() -> list[Path]:
    """Remove empty control groups, except new ones, which a process may be about to enter; return those that stay."""
    groups = [Path(group) for group in sorted(cgroups(), reverse=True)]
    for group in groups:
        with contextlib.suppress(OSError):
            if time.time() - group.stat().st_mtime > NEWBORN:
                for one in groups_in(str(group)):
                    Path(one).rmdir()
    return [group for group in groups if group.exists()]


def remove(folder: Path) -> None:
    """Remove a run's folder, unless something is still mounted there: that would delete the mounted files."""
    for mount in sorted(mounts_below(folder), reverse=True):
        subprocess.run(["umount", "--lazy", mount], check=False)
    if not mounts_below(folder):
        shutil.rmtree(folder, ignore_errors=True)


# Reading.


def lines(path: str, *, ordered: bool = False) -> set[str] | list[str]:
    """Return the lines of a file; none if it does not exist."""
    found = read(path).decode(errors="replace").splitlines()
    return found if ordered else set(found)


def names(folder: str) -> set[str]:
    """Return the names in a folder; none if it does not exist."""
    try:
        return {entry.name for entry in Path(folder).iterdir()}
    except OSError:
        return set()


def read(path: str) -> bytes:
    """Return the bytes of a file; none if it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

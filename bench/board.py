"""Measure the TensorBoard image: seconds to the first scalar, and memory, compared with TensorBoard's own program.

    python tools/image.py --tensorboard --output dist/board
    python -m bench.board dist/board [--rounds 9]        on a busy machine: chrt -r 5 python -m bench.board ...

Each server starts alone in the image's root file system (with chroot, as root) with the image's variables, and the
programs take turns. A server has started when it serves the first scalar of a small event file, from a folder or from
an S3 server on this machine. RSS is VmRSS of the server and of the reader that it starts for a folder; PSS counts
memory that they share once. Memory is measured at rest, and again after a browser has fetched the page. This is not a
test.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from statistics import median
from urllib.request import Request, urlopen

from devcluster import build, images, parts
from devcluster.control_plane import free_port

sys.path.append("tests")
from support.board.event_files import write_scalar

TAG = "loss"
OURS, PLAIN = ("tensorboard",), ("python", "-m", "tensorboard.main")
REST_SECONDS = 2.0
WEB_FILES = ("", "index.js", "chart_worker.js", "icon_bundle.svg")


@dataclass(frozen=True)
class Found:
    """The figures of one start."""

    seconds: float
    cpu: float
    rss: list[float]
    """Megabytes of each process."""
    pss: float
    viewed: float
    """RSS of all processes after a page was fetched."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the TensorBoard image.")
    parser.add_argument("image", type=Path, help="output folder of tools/image.py --tensorboard")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    archive = options.image / "tf-job-tensorboard.tar"
    variables = dict(line.split("=", 1) for line in images.config_of(archive)["Env"])
    with image_root(options.image / "rootfs") as root, s3_server() as endpoint:
        event_file = write_scalar(root / "tmp/logs/train", TAG, [2.0, 1.0, 0.5])
        put(f"{endpoint}/bucket/logs/train/{event_file.name}", event_file.read_bytes())
        store = {"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
        cases = {
            "a folder": (OURS, "/tmp/logs", variables),
            "a folder, TensorBoard's own program": (PLAIN, "/tmp/logs", variables),
            "S3": (OURS, "s3://bucket/logs", variables | store),
        }
        found: dict[str, list[Found]] = {name: [] for name in cases}
        for _ in range(options.rounds):
            for name, (program, log_dir, env) in cases.items():
                found[name].append(start(root, program, log_dir, env))
    head = f"{'':38}{'first scalar':>24}{'CPU':>9}{'RSS':>9}{'of which':>16}{'PSS':>9}{'viewed':>9}"
    print(head)
    for name, all_of in found.items():
        print(f"{name:38}{row(all_of)}")


def row(found: list[Found]) -> str:
    """Return the medians of some starts, and the least and the most time."""
    times = sorted(one.seconds for one in found)
    parts_of = " + ".join(f"{median(one):.0f}" for one in zip(*(one.rss for one in found), strict=True))
    return (
        f"{median(times):8.2f} s ({times[0]:.2f} - {times[-1]:.2f}){median(one.cpu for one in found):7.2f} s"
        f"{median(sum(one.rss) for one in found):6.1f} MB{parts_of:>16}"
        f"{median(one.pss for one in found):6.0f} MB{median(one.viewed for one in found):6.0f} MB"
    )


def start(root: Path, program: tuple[str, ...], log_dir: str, env: dict[str, str]) -> Found:
    """Start a server, measure it and end it."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = ["/usr/sbin/chroot", str(root), *program, "--logdir", log_dir, "--host", "127.0.0.1", "--port", str(port)]
    begun = time.perf_counter()
    server = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not scalars(url):
            if server.poll() is not None:
                raise SystemExit(f"{command} ended with {server.returncode}")
            time.sleep(0.01)
        seconds = time.perf_counter() - begun
        cpu = sum(map(cpu_of, family(server.pid)))
        time.sleep(REST_SECONDS)
        processes = family(server.pid)
        rss = [memory(pid, "Rss") for pid in processes]
        pss = sum(memory(pid, "Pss") for pid in processes)
        for name in WEB_FILES:
            with urlopen(Request(f"{url}/{name}", headers={"Accept-Encoding": "gzip"}), timeout=10) as answer:
                answer.read()
        return Found(seconds, cpu, rss, pss, sum(memory(pid, "Rss") for pid in processes))
    finally:
        server.terminate()
        server.wait()


def scalars(url: str) -> list[object]:
    """Return the values of the scalar that the server has so far."""
    try:
        with urlopen(f"{url}/data/plugin/scalars/scalars?run=train&tag={TAG}", timeout=10) as answer:
            return list(json.load(answer))
    except (OSError, HTTPException):
        return []


def family(pid: int) -> list[int]:
    children = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [pid, *(int(child) for one in children for child in one)]


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int, line: str) -> float:
    """Return a line of smaps_rollup in megabytes; its Rss is VmRSS in `status`."""
    found = dict(one.split(":", 1) for one in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return int(found[line].split()[0]) * 1024 / 1e6


@contextmanager
def image_root(source: Path) -> Iterator[Path]:
    """Copy an image's root file system, and add what a container runtime adds."""
    with tempfile.TemporaryDirectory(prefix="tfjob-bench-") as name:
        root = Path(name, "root")
        shutil.copytree(source, root, symlinks=True)
        shutil.copy("/etc/hosts", root / "etc/hosts")
        (root / "dev").mkdir(exist_ok=True)
        for device, number in {"null": 3, "urandom": 9}.items():
            os.mknod(root / "dev" / device, 0o20666, os.makedev(1, number))
        yield root


@contextmanager
def s3_server() -> Iterator[str]:
    """Run an S3 server on this machine."""
    address = f"127.0.0.1:{free_port()}"
    program = build.binaries(parts.S3_SERVER) / "gofakes3"
    command = [str(program), "-backend", "memory", "-host", address, "-initialbucket", "bucket"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://{address}"
    finally:
        server.terminate()
        server.wait()


def put(url: str, content: bytes) -> None:
    """Store an object as soon as the server answers."""
    for patience in range(100, -1, -1):
        try:
            urlopen(Request(url, content, method="PUT"), timeout=5).close()
        except OSError:
            if not patience:
                raise
            time.sleep(0.1)
        else:
            return


if __name__ == "__main__":
    main()

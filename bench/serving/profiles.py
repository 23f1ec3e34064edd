"""Where the time of requests goes: what the server counts, the CPU of its threads, and its event loop's functions."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from serving.servers import LONGEST, Request, Server, profiled

TFS = ":tensorflow:serving:"
METRICS = "/monitoring/prometheus/metrics"
SHOWN = 10


def show(base: Path, request: Request, connections: int, seconds: float) -> None:
    """Print a profile of a server under a load."""
    how = "REST" if request.is_rest else "gRPC"
    print(f"  profile: {how}, {base.name}, batch {request.batch}, {connections} connections")
    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "profile")
        with Server(profiled(file, base), base.name) as server:
            server.load(request, connections, seconds)
            counted, threads = sums(server), server.cpu_by_thread()
            found = server.load(request, connections, seconds)
            changes = {key: value - counted.get(key, 0.0) for key, value in sums(server).items()}
            used = server.cpu_by_thread() - threads
            functions = functions_of(server, file, lambda: server.load(request, connections, seconds))
    print_times(changes, found.p50)
    total = sum(used.values())
    print("    CPU: " + ", ".join(f"{name} {one / total:.0%}" for name, one in used.most_common(6)))
    total = sum(seconds for seconds, _ in functions)
    print("    the functions of the event loop, of the time in all of them:")
    for one, function in functions[:SHOWN]:
        print(f"      {one / total:4.0%} {function}")


def functions_of(server: Server, file: Path, work: Callable[[], object]) -> list[tuple[float, str]]:
    """Return the seconds in each function of the event loop during some work, the longest first."""
    server.process.send_signal(signal.SIGUSR1)
    work()
    server.process.send_signal(signal.SIGUSR2)
    end = time.monotonic() + LONGEST
    while not file.exists() and time.monotonic() < end:
        time.sleep(0.01)
    lines = (line.split(maxsplit=1) for line in file.read_text().splitlines())
    return [(float(seconds), function) for seconds, function in lines]


def print_times(changes: dict[str, float], p50: float) -> None:
    def mean(metric: str) -> float:
        return changes.get(f"{metric}_sum", 0.0) / max(changes.get(f"{metric}_count", 0.0), 1)

    inside, queued, run = (
        mean(TFS + one) for one in ("request_latency", "batching_session:queuing_latency", "runtime_latency")
    )
    print(
        f"    a request takes {p50:.0f} us (p50 of the client); means of the server: {inside:.0f} us in its handler,"
        f" {queued:.0f} us of them in the queue; a run takes {run:.0f} us,"
        f" with {mean('tfjob_serving_batch_size'):.1f} rows"
    )


def sums(server: Server) -> dict[str, float]:
    """Return the sums and the counts of the server's histograms, over all labels."""
    found: dict[str, float] = {}
    for name, value in re.findall(r"^(\S+_(?:sum|count))\{[^}]*\} (\S+)$", server.page(METRICS), re.MULTILINE):
        found[name] = found.get(name, 0.0) + float(value)
    return found


def show_imports() -> None:
    """Print which modules take the time when the server is imported, with those that they import first."""
    command = [sys.executable, "-X", "importtime", "-c", "import tfjob.serve.server"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = re.findall(r"^import time:\s+\d+ \|\s+(\d+) \| (\s*)(\S+)$", done.stderr, re.MULTILINE)
    found = sorted(((int(taken), name) for taken, _, name in rows), reverse=True)
    print("  imports of the server, in milliseconds and with what each imports:")
    print("   ", ", ".join(f"{name} {taken / 1000:.0f}" for taken, name in found[:SHOWN]))

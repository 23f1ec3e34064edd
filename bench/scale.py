"""Measure the operator: time, CPU, memory and requests, compared with the limit of the API server in the same run.

    python -m bench.scale [--jobs 100,300] [--rounds 1] [--finished 5000] [--api-versions v1,v1beta1] [--profile FILE]

With older versions, the operator converts every change of a job into each of them, for the caches of the API server.
The jobs are created and read in v1, and the floor is measured with v1 alone.

The benchmark starts its own control plane (`python -m devcluster`). Absolute figures depend on the machine; the ratios
of one run are comparable. This is not a test.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.finished import finished_jobs
from bench.load import Load, Result, percentile
from devcluster import cluster
from devcluster.client import Client as Kubernetes
from devcluster.client import KubectlFailed
from devcluster.cluster import CONTROL_PLANE, Shape
from devcluster.control_plane import free_port
from tfjob.api.crd.tfjob import NAME as CRD_NAME
from tfjob.kube.access import config
from tfjob.kube.client.client import Client
from tfjob.operator.api_versions import ApiVersions
from tfjob.operator.install.manifests import crds
from tfjob.operator.options import CONVERSION_PATH, NAMESPACE

NAME = "bench"
QUIET = 0.15


@dataclass
class Operator:
    """A running operator process."""

    pid: int
    metrics_port: int

    def cpu(self) -> float:
        """Return the CPU seconds so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, line: str = "VmHWM") -> float:
        """Return the resident MiB: the most so far, or now (VmRSS)."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(next(row.split()[1] for row in text.splitlines() if row.startswith(line))) / 1024

    def requests(self) -> dict[str, float]:
        """Return the number of requests so far, by method."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        found: dict[str, float] = {}
        for method, count in re.findall(r'rest_client_requests_total\{.*?method="(\w+)".*?\} (\S+)', text):
            found[method] = found.get(method, 0) + float(count)
        return found


@contextmanager
def operating(kubeconfig: Path, profile: str = "", webhook: str = "0") -> Iterator[Operator]:
    """Run an operator while the block runs, and wait until it is ready; `webhook` is the address of its webhook."""
    port, health = free_port(), free_port()
    words = ["-m", "tfjob", "operator", "run", f"--metrics-bind-address=127.0.0.1:{port}"]
    words += [f"--health-probe-bind-address=127.0.0.1:{health}", "--log-level=warning"]
    words.append(f"--webhook-bind-address={webhook}")
    if profile:
        words = ["-m", "cProfile", "-o", profile, *words]
    process = subprocess.Popen([sys.executable, *words], env={**os.environ, "KUBECONFIG": str(kubeconfig)})
    try:
        until = time.monotonic() + 60
        while not _is_ready(health):
            assert process.poll() is None, "the operator ended"
            assert time.monotonic() < until, "the operator did not start"
            time.sleep(0.02)
        yield Operator(process.pid, port)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


async def load(kubeconfig: Path, namespace: str, jobs: int, *, by_hand: bool) -> Result:
    async with Client(config.load(environ={"KUBECONFIG": str(kubeconfig)})) as client:
        return await Load(client, namespace, jobs, by_hand=by_hand).run()


def until_quiet(patience: float = 60.0) -> None:
    """Wait until the machine is mostly idle: the controllers of Kubernetes work for seconds after a load."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        busy, all_of_it = _ticks()
        time.sleep(1)
        more, total = _ticks()
        if (more - busy) / (total - all_of_it) < QUIET:
            return
    print(f"  (the machine was not quiet within {patience:.0f} s)")


def _ticks() -> tuple[int, int]:
    """Return the busy time of this machine, and its total time."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return sum(fields) - idle, sum(fields)


def serve(client: Kubernetes, versions: ApiVersions, webhook: str) -> None:
    """Serve these versions, with a conversion webhook at an address of this machine."""
    client.apply(*crds(NAMESPACE, versions, url=f"https://{webhook}{CONVERSION_PATH}"))
    client.kubectl("wait", "--for=create", "--timeout=20s", f"crd/{CRD_NAME}")
    time.sleep(3)  # until it is served


def until_converted(client: Kubernetes, versions: ApiVersions, patience: float = 60.0) -> None:
    """Wait until every version can be listed."""
    until = time.monotonic() + patience
    for version in versions.older:
        while True:
            try:
                client.kubectl("get", f"tfjobs.{version}.kubeflow.org", "-A")
            except KubectlFailed:
                assert time.monotonic() < until, f"{version} is not served"
                time.sleep(0.5)
            else:
                break


def compare(client: Kubernetes, jobs: int, number: int, versions: ApiVersions, profile: str) -> float:
    """Measure the floor, then the same jobs with an operator; return the ratio of the times."""
    kubeconfig, webhook = client.kubeconfig, f"127.0.0.1:{free_port()}"
    serve(client, versions.stored, webhook)
    until_quiet()
    floor = asyncio.run(load(kubeconfig, f"floor-{jobs}-{number}", jobs, by_hand=True))
    serve(client, versions, webhook)
    with operating(kubeconfig, profile, webhook if versions.older else "0") as operator:
        until_converted(client, versions)
        until_quiet()
        cpu, requests = operator.cpu(), operator.requests()
        result = asyncio.run(load(kubeconfig, f"load-{jobs}-{number}", jobs, by_hand=False))
        spent, memory = operator.cpu() - cpu, operator.memory()
        time.sleep(3)  # the last Events
        late = operator.cpu() - cpu
        sent = {method: count - requests.get(method, 0) for method, count in operator.requests().items()}
    per_job = ", ".join(f"{count / jobs:.1f} {method}" for method, count in sorted(sent.items()) if method != "GET")
    ratio, made, follow = result.all_done / floor.all_done, result.create, result.follow
    print(f"{jobs} jobs: floor {floor.all_done:.2f} s, operator {result.all_done:.2f} s, ratio {ratio:.2f}")
    now, later = 1000 * spent / jobs, 1000 * late / jobs
    print(f"  CPU per job {now:.2f} ms ({later:.2f} with the last Events), RSS {memory:.0f} MiB")
    print(f"  pods made p50 {percentile(made, 0.5):.2f} s, p99 {percentile(made, 0.99):.2f} s")
    print(f"  Succeeded after the chief p50 {percentile(follow, 0.5):.2f} s, p99 {percentile(follow, 0.99):.2f} s")
    print(f"  requests per job: {per_job}", flush=True)
    return ratio


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--jobs", default="100,300")
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--finished", type=int, default=0)
    options.add_argument("--api-versions", default="v1", help="versions, as for `tfjob operator install`")
    options.add_argument("--profile", default="", help="write a cProfile of the operator to this file")
    chosen = options.parse_args()
    cluster.down(NAME)
    client = cluster.up(NAME, Shape.of(CONTROL_PLANE, None))
    try:
        versions = ApiVersions.read(chosen.api_versions)
        for jobs in map(int, filter(None, chosen.jobs.split(","))):
            ratios = [compare(client, jobs, number, versions, chosen.profile) for number in range(chosen.rounds)]
            print(f"{jobs} jobs: median ratio of {chosen.rounds}: {median(ratios):.2f}", flush=True)
        if chosen.finished:
            serve(client, versions.stored, "")
            finished_jobs(client.kubeconfig, chosen.finished, operating)
    finally:
        cluster.down(NAME)


if __name__ == "__main__":
    main()

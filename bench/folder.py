"""Measure how much later a job in pods does its first step when its folder is sent than with its code in the image.

    python -m bench.folder [--rounds 9]        needs root

The benchmark starts its own cluster with one node (`python -m devcluster`) and an operator. The folder has the source
of tfjob as ballast, and a program that prints the time as its first step. Before each job, the program is edited. Jobs
that get the folder and jobs that find the same code in their image (`--in-image`) take turns; building the image does
not count. The time is from the start of `tfjob run` to the first step of the slower of two workers. This is not a test.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from devcluster import cluster, images
from devcluster.client import Client
from devcluster.cluster import NODE, Shape

sys.path.append("tests")
from support.conformance.standin_image import interpreter
from support.operating import operating
from support.served import serve_every_job

NAME, IMAGE = "bench-folder", "folder:1"
WORKERS = 2
BOUND_SECONDS = 2.0
PROGRAM = 'import time\n\nprint("first step", time.time(), flush=True)\ntime.sleep(5)\n'
"""The job ends with its first worker, which waits for the second one."""
STEP = re.compile(r"first step ([\d.]+)")
SOURCES = Path(__file__).parents[1] / "src" / "tfjob"
WAYS = {"sent": (), "in the image": ("--in-image",)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what it costs to send a folder to pods.")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tfjob-bench-") as name, cluster.shared(NAME, Shape.of(NODE, 1)) as client:
        folder = Path(name)
        project = folder / "project"
        shutil.copytree(SOURCES, project / "ballast", ignore=shutil.ignore_patterns("__pycache__"))
        (project / "train.py").write_text(PROGRAM)
        client.load_image(image(project, folder / "image.tar"))
        serve_every_job(client)
        namespace = client.namespace("bench")
        with operating(client.kubeconfig, f"--namespace={namespace}"):
            jobs = Jobs(client, namespace, folder)
            for way in WAYS:
                jobs.first_step(way, 0)  # fill the caches
            rounds = [jobs.measure(number) for number in range(1, options.rounds + 1)]
    sent, baked = (median(one[way] for one in rounds) for way in WAYS)
    added = median(one["sent"] - one["in the image"] for one in rounds)
    print(f"medians of {len(rounds)} rounds: sent {sent:.2f} s, in the image {baked:.2f} s, ratio {sent / baked:.2f}")
    print(f"added {added:+.2f} s (at most {BOUND_SECONDS}); load average {os.getloadavg()[0]:.1f}")


def image(project: Path, archive: Path) -> Path:
    """Write an image with Python and the project in its working folder."""
    root = interpreter()
    files = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    files |= {f"work/{path.relative_to(project)}": path for path in project.rglob("*") if path.is_file()}
    images.write(archive, f"docker.io/library/{IMAGE}", files, ["python"], folders=("tmp",), working_folder="/work")
    return archive


@dataclass(frozen=True)
class Jobs:
    """Starts jobs in a namespace from the project in a folder."""

    client: Client
    namespace: str
    folder: Path

    def measure(self, number: int) -> dict[str, float]:
        taken = {way: self.first_step(way, number) for way in (WAYS if number % 2 else reversed(WAYS))}
        print("  " + "   ".join(f"{way} {taken[way]:6.2f} s" for way in WAYS), flush=True)
        return taken

    def first_step(self, way: str, number: int) -> float:
        """Return the seconds from an edit to the first step of the last worker."""
        job = f"{way.replace(' ', '-')}-{number}"
        program = self.folder / "project" / "train.py"
        program.write_text(f"{PROGRAM}# edit {job}\n")
        on = ("--on", "k8s", "-n", self.namespace)
        words = ("run", "train.py", "--workers", str(WORKERS), "--image", IMAGE, "--name", job, *WAYS[way], *on)
        env = {**os.environ, "KUBECONFIG": str(self.client.kubeconfig), "TFJOB_HOME": str(self.folder / "home")}
        tool = [sys.executable, "-m", "tfjob"]
        begun = time.time()
        done = subprocess.run([*tool, *words], cwd=program.parent, env=env, check=False, capture_output=True, text=True)
        steps = [float(found[1]) for found in STEP.finditer(done.stdout)]
        if len(steps) != WORKERS:
            sys.exit(f"{len(steps)} of {WORKERS} workers reached their first step:\n{done.stdout}{done.stderr}")
        subprocess.run([*tool, "delete", job, "--yes", *on], env=env, check=True, capture_output=True)
        return max(steps) - begun


if __name__ == "__main__":
    main()

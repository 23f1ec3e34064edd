"""The examples as their users run them, and what a training must have come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from support.installed import Installed

EXAMPLES = Path(__file__).parents[3] / "examples"


def run_example(tool: Installed, home: Path, name: str, file: str = "tfjob.yaml") -> list[str]:
    """Runs one example and returns what it printed."""
    return run_to_the_end(tool, home, EXAMPLES / name / file)


def run_to_the_end(tool: Installed, home: Path, manifest: Path, *options: str) -> list[str]:
    """Runs a manifest, which must succeed, and returns what it printed."""
    done = tool.tfjob(home, "run", str(manifest), *options, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def documents_of(name: str) -> list[dict[str, Any]]:
    """The documents of an example's manifest, the job first."""
    return list(yaml.safe_load_all((EXAMPLES / name / "tfjob.yaml").read_text()))


def pods_of(job: dict[str, Any]) -> list[dict[str, Any]]:
    """The pod specs in a job; a default parameter server has none."""
    replicas = job["spec"]["tfReplicaSpecs"].values()
    return [replica["template"]["spec"] for replica in replicas if "template" in replica]


def shortened(name: str, steps: int, checkpoint_every: int = 20) -> list[dict[str, Any]]:
    """The documents of an example with fewer steps and more checkpoints, also for a machine with one core.

    There TensorFlow would have one thread for operations, and ParameterServerStrategy waits forever.
    """
    documents = documents_of(name)
    for pod in pods_of(documents[0]):
        container = pod["containers"][0]
        command = container["command"]
        command[command.index("--steps") + 1] = str(steps)
        container["command"] = [*command, "--checkpoint-every", str(checkpoint_every)]
        container["env"] = [*container.get("env", ()), {"name": "TF_NUM_INTEROP_THREADS", "value": "2"}]
    return documents


def accuracy(lines: list[str]) -> float:
    """The test accuracy that the chief printed last."""
    return float(next(line for line in reversed(lines) if " test accuracy " in line and "step" not in line).split()[-1])

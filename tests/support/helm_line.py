"""helm as its users run it: the real program with folders of its own, on a cluster or on none."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from devcluster.client import Client

CHART = Path(__file__).parents[2] / "charts" / "tf-job-operator"
RELEASE = "tf-job"
"""The name that the documents give to theirs."""

Object = dict[str, Any]


@dataclass(frozen=True)
class Helm:
    """A way to call helm; `client` is the cluster that it works on, if any."""

    program: Path
    home: Path
    client: Client | None = None

    def run(self, *words: str, code: int = 0, timeout: float = 180) -> str:
        """Runs a command to its end and returns what it printed."""
        done = subprocess.run(
            [str(self.program), *words],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == code, f"helm {' '.join(words)}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def template(self, values: Mapping[str, Any], namespace: str = "kubeflow", code: int = 0) -> str:
        """What a chart makes with these values."""
        words = [f"--set-json={name}={json.dumps(value)}" for name, value in values.items()]
        return self.run("template", RELEASE, str(CHART), "-n", namespace, *words, code=code)

    def objects(self, values: Mapping[str, Any], namespace: str = "kubeflow") -> list[Object]:
        """The same, decoded."""
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        return [one for one in yaml.load_all(self.template(values, namespace), loader) if one]

    def environment(self) -> dict[str, str]:
        """Nothing of the user's own helm."""
        folders = {f"HELM_{name}_HOME": str(self.home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        cluster = self.client.environment() if self.client else {**os.environ, "KUBECONFIG": os.devnull}
        return {**cluster, **folders}

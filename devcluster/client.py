"""A handle on a running cluster, for commands and tests."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster import nodes
from devcluster.errors import Refused
from devcluster.state import Folder


class KubectlFailed(Exception):
    """kubectl ended with an error; the text is what it said."""


@dataclass(frozen=True)
class Client:
    """A cluster as one talks to it."""

    kubeconfig: Path
    programs: Path
    """The folder with kubectl."""
    folder: Folder | None = None
    """The folder of a cluster that we started; None for one that was there."""

    def kubectl(self, *words: str, stdin: str | None = None, timeout: float = 60) -> str:
        """Runs kubectl to its end and returns what it printed."""
        done = subprocess.run(
            [str(self.programs / "kubectl"), *words],
            env=self.environment(),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode:
            raise KubectlFailed(f"kubectl {' '.join(words)}: {done.stdout}{done.stderr}".strip())
        return done.stdout

    def get(self, *words: str) -> Any:
        """`kubectl get ... -o json`, decoded."""
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def apply(self, *objects: dict[str, Any], namespace: str = "") -> str:
        """Applies objects."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        place = ("-n", namespace) if namespace else ()
        return self.kubectl("apply", "-f", "-", *place, stdin=json.dumps(items))

    def namespace(self, prefix: str = "test") -> str:
        """A new namespace with a name of its own."""
        name = f"{prefix}-{secrets.token_hex(4)}"
        self.kubectl("create", "namespace", name)
        # Without it no pod is admitted.
        account = ("--for=create", "serviceaccount/default", "-n", name)
        self.kubectl("wait", *account, "--timeout=60s", timeout=70)
        return name

    def delete_namespace(self, name: str, *, wait: bool = False) -> None:
        """Deletes a namespace with all in it; its pods get no grace."""
        self.kubectl("delete", "pods", "--all", "-n", name, "--grace-period=0", "--force", "--wait=false")
        self.kubectl("delete", "namespace", name, f"--wait={str(wait).lower()}", timeout=180)

    def environment(self) -> dict[str, str]:
        """The variables with which kubectl, and programs like it, find this cluster."""
        path = f"{self.programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "PATH": path}

    def writes(self) -> Iterator[dict[str, Any]]:
        """The audit log: every request that wrote something, oldest first."""
        # What follows the last line end is still being written.
        for line in (self._own() / "audit.log").read_text().split("\n")[:-1]:
            yield json.loads(line)

    def load_image(self, archive: Path) -> None:
        """Imports an OCI archive into every node."""
        nodes.load_image(self._own(), archive)

    def cut_power(self, node: str) -> None:
        """Ends a node and all its pods at once, without a word; the cluster notices when the node's lease runs out."""
        nodes.cut_power(self._own(), node)

    def has_power(self, node: str) -> bool:
        """Whether a node runs."""
        return nodes.has_power(self._own(), node)

    def restore_power(self, node: str) -> None:
        """Starts a node again, with the disk that it had, and waits until it is ready."""
        nodes.restore_power(self._own(), node)

    def node_command(self, node: str, *words: str) -> str:
        """Runs a command that sees a node's files and network, such as `mount`; what it printed."""
        return nodes.command(self._own(), node, *words)

    def node_process(self, node: str, program: str) -> int:
        """The process of a node that runs one of its programs, such as `kubelet`; killed, it is started again."""
        return nodes.process(self._own(), node, program)

    def _own(self) -> Folder:
        if self.folder is None:
            raise Refused(f"devcluster did not start the cluster of {self.kubeconfig}")
        return self.folder

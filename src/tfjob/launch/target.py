"""Where jobs run: on this machine or on a cluster. A module of its own, because every command loads it at its start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfjob.kube.jobs.backend import SyncKubeBackend


@dataclass(frozen=True)
class On:
    """Where jobs run: on this machine, or on the cluster of a kubeconfig's context (the current one without a name)."""

    cluster: bool = False
    context: str = ""

    @property
    def words(self) -> str:
        """The option as the user wrote it, for commands in hints."""
        return f" --on k8s{':' + self.context if self.context else ''}" if self.cluster else ""


@contextmanager
def open_cluster(on: On, namespace: str, seconds: float | None = None) -> Iterator[SyncKubeBackend]:
    """Open the jobs of one namespace of a cluster; with `seconds`, every wait ends after them."""
    from hashlib import sha256

    from tfjob.kube.access import config
    from tfjob.kube.jobs.backend import open_backend
    from tfjob.local.state.home import find_home

    access = config.load(on.context or None)
    # Two contexts may lead to one cluster, and a context to another one tomorrow.
    records = find_home(os.environ).path / "clusters" / sha256(access.server.encode()).hexdigest()[:12]
    elsewhere = f" -n {namespace}" if namespace not in ("", access.namespace) else ""
    with open_backend(access, namespace, on.words + elsewhere, records, seconds) as opened:
        yield opened

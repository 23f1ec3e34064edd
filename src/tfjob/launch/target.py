"""The target of jobs: this machine or a cluster. A separate module, because every command imports it."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfjob.errors import InvalidRequest

if TYPE_CHECKING:
    from pathlib import Path

    from tfjob.jobs.backend import Backend
    from tfjob.jobs.sync_backend import SyncBackend
    from tfjob.kube.access.config import Access
    from tfjob.kube.jobs.backend import SyncKubeBackend
    from tfjob.local.state.home import Home


@dataclass(frozen=True)
class On:
    """This machine, or the cluster of a kubeconfig context (without a name, the current context)."""

    cluster: bool = False
    context: str = ""

    @property
    def words(self) -> str:
        """The option on a command line, for hints."""
        return f" --on k8s{':' + self.context if self.context else ''}" if self.cluster else ""


def parse_target(text: str) -> On:
    """Parse `local`, `k8s` or `k8s:CONTEXT`. Raises InvalidRequest."""
    where, separator, context = text.partition(":")
    if where == "k8s" and bool(context) == bool(separator):
        return On(True, context)
    if text != "local":
        raise InvalidRequest(f"unknown target {text!r}: use local, k8s or k8s:CONTEXT")
    return On()


def open_cluster(on: On, namespace: str, seconds: float | None = None) -> AbstractContextManager[SyncKubeBackend]:
    from tfjob.kube.jobs.backend import open_backend

    return open_backend(*_cluster(on, namespace), seconds)


def open_backend(
    on: On, namespace: str, *, write: bool, seconds: float | None = None
) -> AbstractContextManager[SyncBackend[Any]]:
    if on.cluster:
        return open_cluster(on, namespace, seconds)
    from tfjob.local.jobs.backend import open_backend as open_machine

    return open_machine(_home(), namespace, write=write)


def job_names(on: On, namespace: str, seconds: float | None) -> set[str]:
    """Return the names of the jobs, within `seconds`; on this machine, without decoding the jobs."""
    if on.cluster:
        with open_cluster(on, namespace, seconds) as there:
            return {record.name for record in there.jobs()}
    from tfjob.local.state import database

    return set(database.job_names(_home().database, namespace or "default"))


def probe_machine() -> None:
    from tfjob.local.sandbox import capabilities

    capabilities.begin()


def connect(on: On, namespace: str) -> AbstractAsyncContextManager[Backend]:
    if on.cluster:
        from tfjob.kube.jobs.backend import connect as connect_cluster

        return connect_cluster(*_cluster(on, namespace))
    from tfjob.local.jobs.backend import connect as connect_machine

    return connect_machine(_home(), namespace, write=True)


def _cluster(on: On, namespace: str) -> tuple[Access, str, str, Path]:
    from hashlib import sha256

    from tfjob.kube.access import config

    access = config.load(on.context or None)
    # By server, because two contexts may share a cluster, and a context may change.
    records = _home().path / "clusters" / sha256(access.server.encode()).hexdigest()[:12]
    elsewhere = f" -n {namespace}" if namespace not in ("", access.namespace) else ""
    return access, namespace, on.words + elsewhere, records


def _home() -> Home:
    from tfjob.local.state.home import find_home  # imported late: a client may only use a cluster

    return find_home(os.environ)

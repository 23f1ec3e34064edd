"""Where jobs run: on this machine or on a cluster. A module of its own, because every command loads it at its start."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class On:
    """Where jobs run: on this machine, or on the cluster of a kubeconfig's context (the current one without a name)."""

    cluster: bool = False
    context: str = ""

    @property
    def words(self) -> str:
        """The option as the user wrote it, for commands in hints."""
        return f" --on k8s{':' + self.context if self.context else ''}" if self.cluster else ""

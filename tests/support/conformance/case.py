"""One conformance case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from support.conformance.checks import Check
from support.conformance.live_job import LiveJob
from support.conformance.manifests import Document


@dataclass(frozen=True)
class Case:
    """A manifest and what must come of it.

    It is run attached, or, with a `script`, submitted and then treated as that says. `levels` names those of the local
    cluster that it is asked of.
    """

    name: str
    documents: list[Document]
    check: Check
    levels: tuple[str, ...] = ("full", "addresses", "ports")
    script: Callable[[LiveJob], None] | None = None

    @property
    def job(self) -> str:
        """The name of its job."""
        name: str = self.documents[0]["metadata"]["name"]
        return name

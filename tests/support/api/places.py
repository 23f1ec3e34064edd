"""Where a field of a job stands in the file that it was read from."""

from __future__ import annotations

from tfjob.api.manifest.loader import Entry
from tfjob.api.problems import Problem


def where(entry: Entry, hub_path: str) -> tuple[int, int, str]:
    """Line, column and path in the user's file of the field at `hub_path` of the job."""
    found = entry.located(Problem(hub_path, ""))
    return found.line, found.column, found.path

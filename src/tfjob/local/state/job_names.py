"""The names of this machine's jobs and nothing else of them: what a TAB needs, at a part of the cost of a store."""

from __future__ import annotations

from pathlib import Path

from tfjob.local.state import database


def job_names(path: Path, namespace: str) -> list[str]:
    """The names that mean a run now; `path` is the database, which need not exist."""
    connection, _ = database.connect(path, write=False)
    try:
        query = "select name from objects join runs using (uid) where current and root = uid and namespace = ?"
        return [name for (name,) in connection.execute(query, (namespace,))]
    finally:
        connection.close()

"""Commands only use the rooms that the client uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

import tfjob.cli

CLI = Path(tfjob.cli.__file__).parent
ALLOWED = {"cli", "client", "aio", "launch", "jobs", "records", "errors", "durations", "__version__"}
"""Rooms that every module of the command line may import."""
ALLOWED_IN_ADDITION = {
    "commands/check.py": {"api"},
    "commands/convert.py": {"api"},
    "commands/explain.py": {"api"},
    "commands/operator.py": {"operator"},
    # These are about a cluster's operator, and about this machine, not about jobs.
    "commands/version.py": {"operator"},
    "commands/doctor.py": {"operator", "local"},
    "commands/volume.py": {"local"},
    "commands/init.py": {"api", "local"},
    "completion.py": {"serve"},
    **{f"commands/{name}.py": {"serve"} for name in ("serve", "models", "export", "predict")},
}
MODULES = sorted(str(path.relative_to(CLI)) for path in CLI.rglob("*.py"))


@pytest.mark.parametrize("module", MODULES)
def test_a_command_uses_the_client_launch_jobs_and_records(module: str) -> None:
    allowed = set(ALLOWED)
    for pattern, more in ALLOWED_IN_ADDITION.items():
        if fnmatch(module, pattern):
            allowed |= more
    used = set(rooms_imported(ast.parse((CLI / module).read_text())))
    assert used <= allowed


def rooms_imported(tree: ast.AST) -> Iterator[str]:
    """The rooms of tfjob that a module imports anywhere, except for its annotations."""
    if isinstance(tree, ast.If) and ast.unparse(tree.test) == "TYPE_CHECKING":
        return
    if isinstance(tree, ast.Import):
        names = [alias.name for alias in tree.names]
    elif isinstance(tree, ast.ImportFrom):
        names = [f"{tree.module}.{alias.name}" for alias in tree.names]
    else:
        names = []
    yield from (name.split(".")[1] for name in names if name.startswith("tfjob."))
    for child in ast.iter_child_nodes(tree):
        yield from rooms_imported(child)

"""Files, folders and modules that the pages for developers name exist."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "src" / "tfjob"
PAGES = sorted(
    [
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs" / f"{name}.md" for name in ("testing", "reliability", "performance", "compatibility")),
        *(page for folder in ("decisions", "development") for page in (ROOT / "docs" / folder).glob("*.md")),
    ]
)
FOLDERS = ("tests", "tools", "bench", "docs", "src", "devcluster", "charts", "examples")
ROOMS = sorted(path.name for path in SOURCES.iterdir() if path.is_dir() and (path / "__init__.py").exists())
CODE = re.compile(r"`([^`\n]+)`|\[\(?([\w/]+)\)?\](?!\()")
"""A span of code, or the label of a node in a diagram."""
PATH = re.compile(rf"(?:{'|'.join((*FOLDERS, *ROOMS))})(?:/[\w.-]+)+")
MODULE = re.compile(r"tfjob(?:\.[a-z_]+)+")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_and_module_that_a_page_names_exists(page: Path) -> None:
    named = [one or other for one, other in CODE.findall(page.read_text())]
    paths = {name for name in named if PATH.fullmatch(name)}
    modules = {name for name in named if MODULE.fullmatch(name)}
    missing = [name for name in sorted(paths) if not exists(name)]
    missing += [name for name in sorted(modules) if name != "tfjob.toml" and not is_importable(name)]
    assert not missing, f"{page.relative_to(ROOT)}: renamed or removed"


def exists(name: str) -> bool:
    """Return whether a path exists, from the root of the project or from the package; a module needs no ending."""
    below = ROOT if name.partition("/")[0] in FOLDERS else SOURCES
    return (below / name).exists() or (below / f"{name}.py").exists()


def is_importable(name: str) -> bool:
    """Return whether a dotted name is a module, without importing anything but its packages."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False

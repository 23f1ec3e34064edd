"""The index of the documentation lists every guide once, in the group of its readers and under its title."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"
GROUPS = [
    "Train on a laptop",
    "Run a cluster",
    "Coming from Kubeflow",
    "Follow the documents of 2017-2019",
    "Reference",
    "Development",
    "Decisions",
]


def test_the_index_has_the_groups_of_readers_in_order() -> None:
    assert re.findall(r"^## (.+)$", (DOCS / "index.md").read_text(), re.MULTILINE) == GROUPS


def test_the_index_lists_every_guide_once_under_its_title() -> None:
    listed = re.findall(r"^- \[(.+?)\]\((guides/.+?\.md)\)", (DOCS / "index.md").read_text(), re.MULTILINE)
    titles = [(page.read_text().partition("\n")[0], f"guides/{page.name}") for page in (DOCS / "guides").glob("*.md")]
    assert sorted((f"# {title}", path) for title, path in listed) == sorted(titles)

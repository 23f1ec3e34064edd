"""Decision pages have four parts in one order, consecutive numbers, and titles that the index repeats."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs" / "decisions").glob("*.md"))
PARTS = ["Context", "Decision", "Alternatives", "Consequences"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_decision_page_has_a_numbered_title_and_four_parts(page: Path) -> None:
    headings = re.findall(r"^(#+) (.+)$", page.read_text(), re.MULTILINE)
    (_, title), *parts = headings
    assert re.fullmatch(r"(\d{4}): [A-Z].*", title)
    assert title[:4] == page.name[:4]
    assert parts == [("##", part) for part in PARTS]


def test_the_index_lists_every_decision_page_with_its_title() -> None:
    _, _, listed = (ROOT / "docs" / "index.md").read_text().partition("\n## Decisions\n")
    entries = re.findall(r"^- \[(.+)\]\(decisions/(.+)\)$", listed, re.MULTILINE)
    assert entries == [(page.read_text().partition("\n")[0].removeprefix("# "), page.name) for page in PAGES]


def test_decision_numbers_are_consecutive() -> None:
    assert [page.name[:5] for page in PAGES] == [f"{number:04}-" for number in range(1, len(PAGES) + 1)]

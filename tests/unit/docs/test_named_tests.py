"""Tests and suites that the documentation names exist, and the table of trainings is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted(page for folder in ("", "decisions", "development") for page in (ROOT / "docs" / folder).glob("*.md"))
TESTS = {
    name for file in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text())
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    named = set(re.findall(r"`(?:test_\w+\.py::)?(test_[a-z0-9_]+)`", page.read_text()))
    assert not named - TESTS
    assert named or page.stem not in ("compatibility", "testing")


def test_every_training_in_ci_is_in_the_table_of_at_most_twenty(request: pytest.FixtureRequest) -> None:
    """This checks the trainings that the present run of pytest has collected."""
    table = (ROOT / "docs" / "testing.md").read_text()
    rows = re.findall(r"^\| `(test_\w+\.py)::(test_\w+)` \| (\d+) \|", table, re.MULTILINE)
    assert sum(int(runs) for _, _, runs in rows) <= 20
    trainings = (item for item in request.session.items if item.get_closest_marker("tensorflow"))
    in_ci = {(item.path.name, item.name.partition("[")[0]) for item in trainings if not item.get_closest_marker("long")}
    assert in_ci <= {(file, test) for file, test, _ in rows}


def test_every_suite_that_the_page_on_reliability_names_is_run_with_the_faults() -> None:
    named = set(re.findall(r"((?:tests/[\w/]+/)?test_\w+\.py)", (ROOT / "docs" / "reliability.md").read_text()))
    files = {file: file.read_text() for file in ROOT.glob("tests/**/test_*.py")}
    texts = {name: [text for file, text in files.items() if file.match(name)] for name in named}
    mark = re.compile(r"^(@|pytestmark = .*)pytest\.mark\.faults\b", re.MULTILINE)
    assert named
    assert [name for name, found in sorted(texts.items()) if len(found) != 1 or not mark.search(found[0])] == []

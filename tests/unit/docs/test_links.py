"""Every relative link of the documentation points to a file, a folder or a heading that exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
        *(page for folder in ("docs", "examples", "charts") for page in (ROOT / folder).rglob("*.md")),
    ]
)
FENCE = re.compile(r"^ *(```|~~~).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^()\s]*)(?:\s+\"[^\"]*\")?\)|^\[[^\]]+\]: +(\S+)|(?:href|src)=\"([^\"]*)\"", re.MULTILINE)
HEADING = re.compile(r"^#{1,6} +(.+?)(?: +#+)? *$", re.MULTILINE)
ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_relative_link_of_a_page_points_to_something(page: Path) -> None:
    broken = [link for link in relative_links(page) if not exists(page, link)]
    assert not broken, f"{page.relative_to(ROOT)}: no such file, folder or heading"


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("Set up", "set-up"),
        ("`kubeflow.org/v1beta2`, `kubeflow.org/v1beta1`", "kubefloworgv1beta2-kubefloworgv1beta1"),
        ("A job's storage: [folders](x.md)", "a-jobs-storage-folders"),
    ],
)
def test_anchors_are_those_of_github(heading: str, anchor: str) -> None:
    assert anchor_of(heading) == anchor


def relative_links(page: Path) -> Iterator[str]:
    text = CODE.sub("", FENCE.sub("", page.read_text()))
    for link in (first or second or third for first, second, third in LINK.findall(text)):
        if link and not ABSOLUTE.match(link):
            yield link


def exists(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return target.exists() and (not anchor or anchor in anchors(target))


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page; a heading that occurs again gets a number, as on GitHub."""
    found: dict[str, int] = {}
    for heading in HEADING.findall(FENCE.sub("", page.read_text())):
        anchor = anchor_of(heading)
        number = found[anchor] = found.get(anchor, -1) + 1
        if number:
            found[f"{anchor}-{number}"] = 0
    return frozenset(found)


def anchor_of(heading: str) -> str:
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")

"""The guides and the README say what really happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.guide import IN_EXAMPLES, copy_of_examples, play

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
ELSEWHERE = {"cluster.md", "helm.md", "tensorboard.md"}
"""Played by tests/commands and tests/operator, which have a cluster, and tests/board, which has time for a training."""
GUIDES = sorted(page for page in (ROOT / "docs" / "guides").glob("*.md") if page.name not in ELSEWHERE)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_every_command_of_a_guide_prints_what_the_guide_says(page: Path, tmp_path: Path) -> None:
    played = 0
    for command, printed in play(page, tmp_path):
        played += 1
        assert command.matches(printed), f"{page}:{command.line}: $ {command.command}\n{printed}"
    assert played, f"{page} has no command"


@pytest.mark.tensorflow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("page", IN_EXAMPLES, ids=lambda page: page.stem)
def test_every_command_of_a_guide_to_the_samples_prints_what_the_guide_says(page: Path, tmp_path: Path) -> None:
    for command, printed in play(page, tmp_path, copy_of_examples(tmp_path)):
        assert command.matches(printed), f"{page}:{command.line}: $ {command.command}\n{printed}"


def test_the_commands_of_the_readme_that_need_no_tensorflow_print_what_it_says(tmp_path: Path) -> None:
    page = ROOT / "README.md"
    for command, printed in play(page, tmp_path, ROOT):
        assert command.matches(printed), f"{page}:{command.line}: $ {command.command}\n{printed}"


def test_every_link_between_the_pages_leads_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in LINK.findall(page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert not broken


def test_ci_and_every_page_install_the_same_uv() -> None:
    (pinned,) = re.findall(r"^UV_VERSION=(\S+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    for page in ("README.md", "CONTRIBUTING.md"):
        assert set(re.findall(r"uv==([0-9.]+)", (ROOT / page).read_text())) == {pinned}, page

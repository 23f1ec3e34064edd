from __future__ import annotations

import re
from pathlib import Path

import pytest

from support import golden
from support.golden import TESTS, check_golden, check_golden_section, golden_of_module, golden_sections

MODULES = [file for file in sorted((TESTS / "unit").glob("*/**/test_*.py")) if golden_of_module(file).exists()]


@pytest.mark.parametrize("module", MODULES, ids=lambda file: str(file.relative_to(TESTS / "unit")))
def test_every_section_belongs_to_a_test(module: Path) -> None:
    tests = set(re.findall(r"def (test_\w+)", module.read_text()))
    headings = golden_sections(golden_of_module(module))
    assert [heading for heading in headings if re.split(r"[\[ ]", heading)[0] not in tests] == []


def test_another_text_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden, "UPDATE", True)
    check_golden(tmp_path / "whole.txt", "one\n")
    check_golden_section(tmp_path / "sections.txt", "test_b", "two\n\nlines")
    check_golden_section(tmp_path / "sections.txt", "test_a", "one")
    monkeypatch.setattr(golden, "UPDATE", False)
    check_golden(tmp_path / "whole.txt", "one\n")
    check_golden_section(tmp_path / "sections.txt", "test_a", "one")
    check_golden_section(tmp_path / "sections.txt", "test_b", "two\n\nlines")
    with pytest.raises(AssertionError, match="whole"):
        check_golden(tmp_path / "whole.txt", "two\n")
    with pytest.raises(AssertionError, match="test_a"):
        check_golden_section(tmp_path / "sections.txt", "test_a", "two")
    with pytest.raises(AssertionError, match="test_c"):
        check_golden_section(tmp_path / "sections.txt", "test_c", "one")

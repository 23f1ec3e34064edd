"""The complete error list of each broken manifest, and no problem in any of the good ones.

`TFJOB_UPDATE_GOLDEN=1 pytest tests/api/test_api_golden.py` writes the golden files anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfjob.api.manifest.loader import load

HERE = Path(__file__).parent
BROKEN = sorted((HERE / "broken").iterdir())
GOOD = sorted((HERE / "manifests").iterdir())


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_a_broken_manifest_gets_the_error_list_of_its_golden_file(path: Path) -> None:
    golden = HERE / "golden" / f"{path.stem}.txt"
    said = "".join(f"{problem}\n" for problem in load(path.read_bytes(), path.name).problems)
    if os.environ.get("TFJOB_UPDATE_GOLDEN"):
        golden.write_text(said)
    assert said == golden.read_text()


def test_every_golden_file_belongs_to_a_broken_manifest() -> None:
    assert {path.stem for path in (HERE / "golden").iterdir()} == {path.stem for path in BROKEN}


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_good_manifest_has_no_problems(path: Path) -> None:
    manifest = load(path.read_bytes(), path.name)
    manifest.raise_for_errors()
    assert manifest.jobs
    assert manifest.problems == []

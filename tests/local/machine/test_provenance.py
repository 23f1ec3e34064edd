"""What is written down about the origin of a run."""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
from pathlib import Path

import msgspec

from tfjob.local.state.provenance import PACKAGES_FILE, PROVENANCE_FILE, list_packages, provenance


def test_the_packages_of_the_interpreter_are_listed_by_their_normal_names(tmp_path: Path) -> None:
    (tmp_path / PROVENANCE_FILE).write_bytes(msgspec.json.encode(provenance(tmp_path, Path(sys.executable))))
    listing = list_packages(tmp_path)
    assert listing is not None
    assert listing.wait(90) == 0
    installed = importlib.metadata.distributions(path=[path for path in sys.path if "site-packages" in path])
    assert json.loads((tmp_path / PACKAGES_FILE).read_text()) == {
        re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower(): one.version for one in installed
    }
    assert list_packages(tmp_path) is None, "they are listed once"


def test_a_folder_outside_git_has_no_commit(tmp_path: Path) -> None:
    assert (provenance(tmp_path, Path(sys.executable)).commit, provenance(tmp_path, Path("x")).dirty) == ("", False)

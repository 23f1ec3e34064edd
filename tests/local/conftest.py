"""Fixtures around real pods."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.installed import compile_all
from support.local.pod_harness import EVERYWHERE, PYTHON, SRC, Place, Pods, place_param
from support.running import end_processes


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `pods` runs at every place, unless it names its own by `at(...)`."""
    named = [mark for mark in metafunc.definition.iter_markers("parametrize") if "place" in mark.args[0]]
    if "place" in metafunc.fixturenames and not named:
        metafunc.parametrize("place", [place_param(place) for place in EVERYWHERE])


@pytest.fixture(scope="session")
def readable_source() -> Iterator[Path]:
    """The package where any user may read it; ours may lie in a private folder."""
    folder = Path(tempfile.mkdtemp(prefix="tfjob-src-"))
    folder.chmod(0o755)
    shutil.copytree(SRC / "tfjob" / "local", folder / "tfjob" / "local", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tfjob" / "__init__.py").touch()
    compile_all(folder, PYTHON)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """The state folder of the tool; its processes end with the test, also if that fails."""
    yield tmp_path / "home"
    end_processes(tmp_path / "home")


@pytest.fixture
def pods(place: Place, readable_source: Path) -> Iterator[Pods]:
    folder = Path(tempfile.mkdtemp(prefix="tfjob-pods-"))
    folder.chmod(0o755)
    made = Pods(folder, place, readable_source)
    made.give(folder)
    yield made
    made.end()

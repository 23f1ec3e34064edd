"""Whatever stands in a manifest or a kubeconfig: one clear refusal, soon, in little memory.

A case is a number: `pytest --seed 123 tests/local/faults/test_bad_input.py` begins at that one. CI tries some, the long
form (`--long`) ten thousand of each.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support import bad_input
from support.bad_cases import MEGABYTES, Cases
from tfjob.cli import exit_codes
from tfjob.cli.main import cli
from tfjob.kube.access import kubeconfig
from tfjob.kube.access.errors import ConfigError

pytestmark = pytest.mark.faults

CHECK = """
import pathlib, sys
from tfjob.api.manifest.loader import load
load(pathlib.Path(sys.argv[1]).read_bytes())
status = pathlib.Path("/proc/self/status").read_text()
print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
"""
"""Prints the largest resident size in KiB; ru_maxrss would include that of the process that started it."""


def test_a_reader_that_takes_too_much_memory_is_found() -> None:
    """Also after a test that took more."""
    b"x" * (2 * MEGABYTES * 2**20)
    cases = Cases(range(1))
    b"x" * ((MEGABYTES + 50) * 2**20)
    with pytest.raises(AssertionError):
        cases.must_be_bounded()


@pytest.mark.timeout(3600)
def test_every_manifest_is_read_or_refused_with_a_place(cases: Cases, tmp_path: Path) -> None:
    """By the command itself, for people and for programs."""
    refused, file = 0, tmp_path / "job.yaml"
    for number in cases:
        file.write_bytes(bad_input.text(number))
        with cases.case(number):
            code, text = checked(str(file))
            assert all(len(line) < 2000 for line in text.splitlines()), "a sentence, not the manifest again"
        with cases.case(number):
            code_again, listed = checked(str(file), "-o", "json")
            problems = json.loads(listed)["items"]
            for problem in problems:
                assert problem["path"] or problem["line"], f"nowhere: {problem['message']}"
                assert problem["message"]
            faults = [problem for problem in problems if not problem.get("warning")]
            assert code == code_again == (exit_codes.BAD_INPUT if faults else exit_codes.SUCCEEDED), text
            assert text.count(str(file)) >= len(problems)
            refused += bool(faults)
    assert len(cases) * 0.5 < refused < len(cases), "the cases must be both: refused and read"
    cases.must_have_drawn(*bad_input.TEXTS, *bad_input.CHANGES, "huge")


def checked(*words: str) -> tuple[int, str]:
    """How `tfjob check` ends, and what it prints, in this process."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with redirect_stdout(printed), redirect_stderr(printed), pytest.raises(SystemExit) as ended:
        exit_codes.guarded(partial(cli.main, ["check", *words]))
    printed.flush()
    text = printed.buffer.getvalue().decode()
    assert ended.value.code in (exit_codes.SUCCEEDED, exit_codes.BAD_INPUT), text
    return int(ended.value.code), text


@pytest.mark.parametrize("kind", ["huge", "bomb"])
def test_five_megabytes_and_a_few_lines_that_stand_for_more_take_little_memory(kind: str, tmp_path: Path) -> None:
    bombs = (data for data in map(bad_input.text, range(1000)) if data.startswith(b"a0: ") and b"a25: " in data)
    (tmp_path / "job.yaml").write_bytes(bad_input.huge() if kind == "huge" else next(bombs))
    checked = subprocess.run([sys.executable, "-c", CHECK, tmp_path / "job.yaml"], capture_output=True, check=True)
    assert int(checked.stdout) / 1024 < MEGABYTES


@pytest.mark.timeout(1200)
def test_every_kubeconfig_is_read_or_refused_with_its_file(cases: Cases, tmp_path: Path) -> None:
    sound: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": "https://a.example", "certificate-authority-data": "eA=="}}],
        "users": [{"name": "a", "user": {"exec": {"command": "x", "args": ["y"]}, "token": "t", "as-groups": ["g"]}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "n"}}],
    }
    file = tmp_path / "config"
    file.write_text("users: &a [*a]")
    with pytest.raises(ConfigError, match="aliases"):
        kubeconfig.read([file])
    for number in cases:
        file.write_bytes(bad_input.text(number, [sound]))
        with cases.case(number):
            refusal = ""
            try:
                kubeconfig.read([file])
            except ConfigError as error:
                refusal = error.message
            place = re.compile(rf"{re.escape(str(file))}[: ].*(line \d+|at `\$)", re.DOTALL)
            assert not refusal or place.match(refusal), refusal
            assert len(refusal) < 1000
    cases.must_have_drawn(*bad_input.TEXTS, *bad_input.CHANGES)

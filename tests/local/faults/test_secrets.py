"""What a Secret holds reaches the program, and is in its own file; tfjob itself shows it nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.canaries import VALUES, manifest, shown, tells
from support.command_line import CommandLine
from support.installed import Installed
from support.local.warm_pods import end_fork_servers, standin_python

pytestmark = pytest.mark.faults

READS = """
import os, sys
PLAIN, WHOLE, CODED = (sys.argv[1].removeprefix('--key='), os.environ['WHOLE'], open('/access/CODED').read())
assert sys.argv[2] == f'db://me:{PLAIN}@{WHOLE}/{CODED}'
print(sum(map(len, (PLAIN, WHOLE, CODED))), 'letters')
sys.exit(3)
"""


@pytest.fixture
def cli(tool: Installed, home: Path) -> CommandLine:
    return CommandLine(tool, home)


def kept(home: Path) -> list[str]:
    """The files of a state folder that tell something of the Secret, and those that are called so."""
    files = [path for path in home.rglob("*") if path.is_file()]
    return [
        str(path.relative_to(home))
        for path in files
        if tells(str(path)) or any(value.encode() in path.read_bytes() for value in VALUES)
    ]


def test_a_secret_reaches_the_program_and_no_output_and_no_record(cli: CommandLine, tmp_path: Path) -> None:
    text = manifest("careful", "python", "-c", READS)
    for output in ((), ("-o", "json")):
        planned = cli("run", "-", "--dry-run", "-v", *output, stdin=text)
        assert "(secret)" in planned
        assert tells(planned) == []
    for output in ((), ("-o", "json")):
        said = cli("run", "-", "-v", "--no-limits", *output, stdin=text, code=1)
        assert output or f"{sum(map(len, VALUES))} letters" in said
        assert tells(said) == []
    for what, told in shown(cli, "careful", tmp_path):
        assert tells(told) == [], what
    assert kept(cli.home) == ["secrets/default/access.json"]


@pytest.mark.parametrize("command", [["$(PLAIN)"], ["/bin/$(WHOLE)"], ["python", "/$(CODED)/train.py"]])
def test_a_command_that_a_secret_names_and_that_is_not_there_is_not_named(
    cli: CommandLine, tmp_path: Path, command: list[str]
) -> None:
    """Neither in the reason why it could not start, nor in the one why it was not started warm."""
    python = standin_python(tmp_path / "venv")
    text = manifest("wrong", *command)
    try:
        said = cli("run", "-", "-v", "--warm", "--python", str(python), "--no-limits", stdin=text, code=1)
        events = json.loads(cli("events", "wrong", "-o", "json"))["items"]
    finally:
        end_fork_servers(cli.home)
    (cold,) = [event["message"] for event in events if event["reason"] == "ColdStart"]
    assert cold in said
    own = [line for line in said.splitlines() if "can't open file" not in line]  # python's words, not ours
    assert tells("\n".join(own)) == []


def test_a_folder_that_a_secret_names_is_not_shown_before_it_is_made(cli: CommandLine) -> None:
    text = manifest("folder", "true", subPathExpr="$(WHOLE)")
    planned = cli("run", "-", "--dry-run", stdin=text)
    assert "/(secret)" in planned
    assert tells(planned) == []

"""The folder that a user's jobs are kept in: nobody else's, and one clear error where it cannot be used."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import GOLDEN, MANIFESTS, CommandLine
from support.golden import check_golden
from support.installed import Installed
from support.running import Running, processes_of, wait_until

pytestmark = pytest.mark.faults

WRITING = (("run", "fails.yaml"), ("run", "fails.yaml", "--warm"), ("delete", "any", "-y"))
"""Commands that cannot do without it; the manifest is one that would fail, so that nothing else ends with 2."""


@pytest.fixture
def cli(tool: Installed, home: Path) -> CommandLine:
    return CommandLine(tool, home)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own, where `home` is to be."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(disk: Path) -> None:
    """Leaves no room."""
    with (disk / "fill").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass


def refusal(cli: CommandLine, *words: str) -> str:
    """Return the error and the hint of a command that cannot use the folder."""
    done = cli.run(*words)
    assert done.returncode == 2, done.stdout + done.stderr
    error, hint = [line for line in done.stderr.splitlines() if "warning: " not in line]
    assert error.startswith("error: "), error
    assert "TFJOB_HOME" in hint
    return f"{error}\n{hint}"


@pytest.mark.root
@pytest.mark.parametrize("filled", ["before", "after"])
def test_a_full_disk_is_named_and_can_be_read(tool: Installed, disk: Path, filled: str) -> None:
    """Whether the folder is there already or not; nothing is begun."""
    cli = CommandLine(tool, disk / "home")
    if filled == "after":
        cli("run", "fails.yaml", "--no-limits", code=1)
    fill(disk)
    errors = [refusal(cli, *words) for words in WRITING]
    assert all("full" in error for error in errors)
    cli.golden(f"state-folder-full-{filled}", "\n".join(errors) + "\n", exact=True)
    assert ("fails" in cli("ps")) == (filled == "after")
    assert len(list(cli.home.glob("runs/default/*"))) == (filled == "after")


@pytest.mark.root
def test_a_disk_that_fills_up_at_the_start_is_named_and_the_tool_can_be_stopped(tool: Installed, disk: Path) -> None:
    """There was room for the record and there is none for the replica: it waits for room."""
    (disk / "fill").write_bytes(bytes(shutil.disk_usage(disk).free - 256 * 1024))
    with Running(tool, disk / "home", str(MANIFESTS / "fails.yaml"), "--no-limits") as run:
        run.wait_for("full")
        run.process.send_signal(signal.SIGINT)
        assert run.finish() == 130, run.lines
    (notice,) = [line for line in run.lines if "full" in line]
    # SQLite or the operating system reports it, in words of its own.
    check_golden(GOLDEN / "run-disk-full.txt", re.sub(r": .*full", ": REASON", notice) + "\n")
    wait_until(lambda: processes_of(disk / "home") == [], 60)


@pytest.mark.root
def test_a_folder_that_cannot_be_written_is_named(tool: Installed, disk: Path) -> None:
    cli = CommandLine(tool, disk / "home")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    errors = [refusal(cli, *WRITING[0])]
    cli.golden("ps-empty", cli("ps"), exact=True)
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    cli.home.mkdir()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    errors += [refusal(cli, *words) for words in WRITING]
    assert all(str(cli.home) in error and "Read-only file system" in error for error in errors)
    cli.golden("state-folder-read-only", "\n".join(errors) + "\n", exact=True)


def test_a_file_in_its_place_is_named(cli: CommandLine) -> None:
    cli.home.touch()
    errors = [refusal(cli, *words) for words in (("run", "fails.yaml"), ("ps",))]
    assert all(str(cli.home) in error for error in errors)
    cli.golden("state-folder-is-a-file", "\n".join(errors) + "\n", exact=True)
    assert cli.home.read_bytes() == b""


@pytest.mark.parametrize("there", [False, True])
def test_it_is_private_whatever_the_umask_and_also_if_it_was_not(cli: CommandLine, there: bool) -> None:
    if there:
        cli.home.mkdir()
        cli.home.chmod(0o777)
    before = os.umask(0)
    try:
        cli("run", "fails.yaml", "--no-limits", code=1)
    finally:
        os.umask(before)
    for folder in (".", "runs", "runs/default/fails.1", "claims", "secrets"):
        assert (cli.home / folder).stat().st_mode & 0o777 == 0o700, folder
    assert (cli.home / "state.db").stat().st_mode & 0o777 == 0o600

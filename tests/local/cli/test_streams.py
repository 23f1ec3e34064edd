"""Unusual streams and disks: a reader that is gone, a closed or full output, a read-only state folder."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from support.command_line import MANIFESTS, CommandLine


@pytest.mark.parametrize("words", ["ps", "logs hello", "status hello -o json", "--help"])
def test_a_reader_that_goes_away_is_no_failure(finished: CommandLine, words: str) -> None:
    done = shell(finished, f"tfjob {words} | true; echo ${{PIPESTATUS[0]}}")
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_closed_output_is_no_failure(finished: CommandLine) -> None:
    done = shell(finished, "tfjob ps >&-; echo $?")
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_an_output_that_takes_nothing_is_told(finished: CommandLine) -> None:
    done = shell(finished, "tfjob ps >/dev/full; echo $?")
    assert done.stdout == "2\n"
    assert "No space left on device" in done.stderr
    finished.golden("output-full", done.stderr, exact=True)


def test_a_terminal_without_our_letters_shows_something(finished: CommandLine) -> None:
    done = shell(finished, "PYTHONIOENCODING=latin-1 tfjob status →; echo $?")
    assert done.stdout == "3\n"
    finished.golden("status-unknown-letters", done.stderr, exact=True)


@pytest.mark.root
@pytest.mark.parametrize(
    "mount",
    [
        "mount --bind $STATE $STATE; mount -o remount,bind,ro $STATE",
        "mount -t tmpfs -o size=4m none $OTHER; cp -a $STATE/. $OTHER; mount --move $OTHER $STATE; "
        "dd if=/dev/zero of=$STATE/fill bs=4k 2>/dev/null",
    ],
    ids=["read-only", "full"],
)
def test_a_read_only_or_full_disk_can_be_read_and_refuses_a_run(
    finished: CommandLine, tmp_path: Path, mount: str
) -> None:
    state, other = tmp_path / "state", tmp_path / "other"
    other.mkdir()
    shutil.copytree(finished.home, state, symlinks=True)
    reads = ("ps", "status hello", "logs fails", "events hello", "wait hello", "volume ls", "prune --dry-run", "ps -a")
    commands = "\n".join(f"tfjob {words} >/dev/null || echo {words}: $?" for words in reads)
    script = f"{mount}\n{commands}\ntfjob logs fails --tail 1\ntfjob submit sleeper.yaml; echo $?"
    done = shell(finished, script, STATE=str(state), OTHER=str(other), TFJOB_HOME=str(state))
    assert done.stdout.splitlines() == ["worker-0 | ValueError: no data", "2"]
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def shell(cli: CommandLine, script: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a script in which `tfjob` is our tool; in a new mount namespace if it mounts."""
    tool = " ".join(cli.tool.command)
    words = ["unshare", "-m", "bash"] if "mount" in script else ["bash"]
    return subprocess.run(
        [*words, "-c", f'tfjob() {{ {tool} "$@"; }}\n{script}'],
        env={**cli.environment(), **env},
        cwd=MANIFESTS,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

"""The state folder: one private folder (`$TFJOB_HOME`) for records, logs, claims and secrets."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tfjob.local.state.errors import Refusal


class Home:
    """The state folder of this user. Other users cannot read it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = path / "state.db"
        self.claims = path / "claims"
        self.secrets = path / "secrets"
        self.fork_servers = path / "fork-servers"

    def run_folder(self, namespace: str, name: str, number: int) -> Path:
        """Return the folder of one run, such as `runs/default/mnist.1`."""
        return self.path / "runs" / namespace / f"{name}.{number}"

    def create(self) -> None:
        for folder in (self.path, self.path / "runs", self.claims, self.secrets):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.path.stat().st_uid == os.getuid():
            self.path.chmod(0o700)


def find_home(environ: Mapping[str, str]) -> Home:
    """Return the folder that TFJOB_HOME names, else the platform's folder for user state."""
    try:
        if named := environ.get("TFJOB_HOME"):
            return Home(Path(named).expanduser().absolute())
        if sys.platform == "darwin":
            # Not ~/Library/Application Support: the reduced levels rewrite paths and do not support spaces.
            return Home(Path.home() / ".tfjob")
        return Home(Path(environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state", "tfjob"))
    except RuntimeError:
        raise Refusal(
            "this user has no home folder", "Set TFJOB_HOME to the folder where tfjob should keep its state."
        ) from None


def boot_id() -> str:
    """Return a string that changes with every boot of the machine; empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def write_whole(path: Path, data: bytes) -> None:
    """Write a private file in one step: readers see the old contents or the new ones."""
    partial = path.with_name(path.name + ".new")
    partial.touch(mode=0o600)
    partial.write_bytes(data)
    partial.replace(path)

"""The tool as its users run it: the real program in a process of its own, as this user or as an ordinary one."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tfjob.durations import VARIABLE

ORDINARY_UID = 54321
"""An id that no account of the machine has."""
SYSTEM_PYTHON = "/usr/bin/python3"
SETTINGS = str(Path(__file__).parent / "settings")
"""XDG_CONFIG_HOME of the tests: fork servers end with their run."""
PATIENT = ("fork_server_answer", "fork_ready", "fork_life", "helper_program", "completion")
"""Limits that a busy machine could reach although nothing is wrong."""


@dataclass(frozen=True)
class Installed:
    """A way to call `tfjob`; `uid` is who calls it, None for whoever runs the tests."""

    command: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    uid: int | None = None

    def tfjob(
        self, home: Path, *words: str, timeout: float = 180, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs one command to its end."""
        return subprocess.run(
            [*self.command, *words],
            env=self.environment(home),
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=cwd or "/",
            check=False,
            user=self.uid,
            group=self.uid,
            extra_groups=[] if self.uid is not None else None,
        )

    def start(self, home: Path, *words: str, cwd: Path | None = None) -> subprocess.Popen[str]:
        """Starts a command and leaves it running."""
        return subprocess.Popen(
            [*self.command, *words],
            env=self.environment(home),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=cwd or "/",
            user=self.uid,
            group=self.uid,
            extra_groups=[] if self.uid is not None else None,
        )

    def environment(self, home: Path) -> dict[str, str]:
        """A plain environment with a state folder of its own; what a killed TensorFlow leaves goes to our TMPDIR."""
        plain = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "TFJOB_HOME": str(home)}
        plain[VARIABLE] = json.dumps(dict.fromkeys(PATIENT, 60))
        scratch = {"TMPDIR": os.environ["TMPDIR"]} if "TMPDIR" in os.environ else {}
        settings = {"XDG_CONFIG_HOME": SETTINGS} if self.uid is None else {}
        return {**plain, **scratch, **settings, **self.env}

    def make_folder(self, path: Path) -> Path:
        """A folder that this user of the tool owns."""
        path.mkdir(parents=True, exist_ok=True)
        if self.uid is not None:
            os.chown(path, self.uid, self.uid)
            open_parents(path)
        return path


def own() -> Installed:
    """The tool of this interpreter."""
    return Installed((sys.executable, "-m", "tfjob"))


def for_ordinary_user(folder: Path) -> Installed:
    """The tool in a place that everybody can read, with the system's interpreter, called by nobody in particular."""
    library = folder / "lib"
    library.mkdir(parents=True)
    for name in ("click", "msgspec", "psutil", "PyYAML", "rich", "pygments", "markdown-it-py", "mdurl"):
        distribution = importlib.metadata.distribution(name)
        tops = {file.parts[0] for file in distribution.files or () if ".." not in file.parts}
        for top in tops:
            source = Path(str(distribution.locate_file(top)))
            if source.is_dir():
                shutil.copytree(source, library / top, dirs_exist_ok=True)
            else:
                shutil.copy2(source, library / top)
    package = Path(__file__).parents[2] / "src" / "tfjob"
    shutil.copytree(package, library / "tfjob", ignore=shutil.ignore_patterns("__pycache__"))
    compile_all(library)
    settings = shutil.copytree(SETTINGS, folder / "settings")
    open_to_everyone(folder)
    return Installed(
        (SYSTEM_PYTHON, "-m", "tfjob"),
        {"PYTHONPATH": str(library), "PATH": "/usr/local/bin:/usr/bin:/bin", "XDG_CONFIG_HOME": str(settings)},
        ORDINARY_UID,
    )


def compile_all(folder: Path, python: str = SYSTEM_PYTHON) -> None:
    """Compiles what lies in a folder, as an installation does: a user who may only read it would do so at each call."""
    subprocess.run([python, "-m", "compileall", "-q", str(folder)], check=True)


def open_to_everyone(folder: Path) -> None:
    """Lets everybody read a folder and what is in it."""
    subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
    open_parents(folder)


def open_parents(path: Path) -> None:
    """Lets everybody pass through the folders above; pytest makes its own private."""
    for parent in path.parents:
        if parent.stat().st_uid == os.getuid() and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o055)

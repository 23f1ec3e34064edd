"""Executes the pages of the documentation: files are written, `console` blocks run, output compared.

A block ```` ```yaml NAME ```` (or python, toml, any language) is the file NAME. In a ```` ```console ```` block a line
that begins with `$ ` is a command and the lines below it are what it prints, where `...` matches anything (on a
separate line: any lines). A block below a sentence that ends with "(shown, not run by the tests):" is not executed.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from threading import Timer

from devcluster.images import BUSYBOX
from support.installed import SETTINGS
from support.running import end_processes

FENCE = re.compile(r"^```(?P<language>\w+)(?: (?P<name>\S+))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = "(shown, not run by the tests):"
END = "\x1f"
DELETE_JOBS = "for job in $(tfjob ps -o name); do tfjob delete --yes $job; done"
PATIENT_TIMEOUT = Path(__file__).parent / "patient_timeout.py"
PATIENCE = 300.0
"""Seconds that one command may take on a busy machine."""
ROOT = Path(__file__).parents[3]
GUIDES = ROOT / "docs" / "guides"
CLUSTER = GUIDES / "cluster.md"
DISTRIBUTED, FIRST_TF_JOB, V1BETA1 = (GUIDES / f"{name}.md" for name in ("distributed", "tf-job", "v1beta1"))
SERVING = GUIDES / "serving.md"
IN_EXAMPLES, WITH_STANDIN, WITH_KUBECTL = {DISTRIBUTED, FIRST_TF_JOB}, {V1BETA1}, "With kubectl"
"""Pages that work in the folder of the examples, also on a cluster (tests/node/cli), with TensorFlow or with a stand-in
for the sample; and the title of their sections that show the objects of the cluster."""


@dataclass(frozen=True)
class Command:
    """A command of a page, and the output that the page shows."""

    line: int
    command: str
    expected: str

    def matches(self, actual: str) -> bool:
        """Whether the output matches the page."""
        pattern = "".join(_pattern(line) for line in _settled(self.expected))
        return re.fullmatch(pattern, "".join(f"{line}\n" for line in _settled(actual))) is not None


def _settled(text: str) -> list[str]:
    """Return the lines without what depends on timing: the order of replicas, and how many already run."""
    lines = [line.rstrip() for line in text.strip().splitlines() if not re.match(r"· .*: (Running|Pending) \d", line)]
    found: list[str] = []
    for replicas, group in groupby(lines, lambda line: re.match(r"\S+ +\|", line) is not None):
        found += sorted(group, key=str if replicas else lambda _: "")
    return [re.sub(r"(?<=\S) +", " ", line) for line in found]  # columns are as wide as their content


def _pattern(line: str) -> str:
    """Return a pattern for a line of output: `...` matches anything, and a duration any duration."""
    if line == "...":
        return r"(?:.*\n)*?"
    literal = "[^\n]*".join(re.escape(part) for part in line.split("..."))
    return re.sub(r"(in|after|took)\\ [0-9]\S*s", r"\1 [0-9.hms]+", literal) + "\n"


@dataclass(frozen=True)
class File:
    """A file of a page."""

    name: str
    text: str


def blocks(page: Path, wanted: Callable[[str], bool]) -> Iterator[Command | File]:
    """Yield the files and commands of a page in order, only from sections with a wanted title."""
    text = page.read_text()
    for fence in FENCE.finditer(text):
        titles = re.findall(r"^## (.*)$", text[: fence.start()], re.MULTILINE)
        if is_only_shown(fence) or not wanted(titles[-1] if titles else ""):
            continue
        if fence["name"]:
            yield File(fence["name"], fence["text"])
        elif fence["language"] == "console":
            line = text.count("\n", 0, fence.start("text")) + 1
            yield from _commands(fence["text"], line)


def is_only_shown(fence: re.Match[str]) -> bool:
    """Whether the sentence above a block marks it as not executed."""
    return fence.string[: fence.start()].endswith(f"{SHOWN}\n\n")


def _commands(text: str, first: int) -> Iterator[Command]:
    command, expected, at = "", "", 0
    for number, line in enumerate(text.splitlines(keepends=True), first):
        if line.startswith("$ "):
            if command:
                yield Command(at, command, expected)
            command, expected, at = line[2:].rstrip("\n"), "", number
        else:
            expected += line
    if command:
        yield Command(at, command, expected)


class Session:
    """A shell with a separate folder and state folder."""

    def __init__(self, folder: Path, project: Path, env: Mapping[str, str], patience: float = PATIENCE) -> None:
        folder.mkdir(exist_ok=True)
        bin_folder = Path(sys.executable).parent
        self.folder = project
        self._patience = patience
        self._env = {
            "PATH": f"{bin_folder}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(folder),
            "TFJOB_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": SETTINGS,
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            **{name: os.environ[name] for name in ("TMPDIR",) if name in os.environ},
            **env,
        }
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=project,
            env=self._env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.run(f'timeout() {{ {sys.executable} {PATIENT_TIMEOUT} "$@"; }}')

    def run(self, command: str) -> str:
        """Run a command and return its output; `$?` is set for the next one."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{{ {command}\n}} </dev/null; _code=$?; printf '{END}\\n'; (exit $_code)\n")
        self._shell.stdin.flush()
        printed = ""
        patience = Timer(self._patience, os.killpg, (self._shell.pid, signal.SIGTERM))
        patience.start()
        for line in self._shell.stdout:
            printed += line
            if printed.endswith(f"{END}\n"):
                break
        else:
            printed += f"[the command took more than {self._patience:g} s]"
        patience.cancel()
        return printed.removesuffix(f"{END}\n")

    def close(self) -> None:
        """End the shell and what it runs in the background, and delete every job of the page in any state."""
        if self._shell.poll() is None:
            self.run(DELETE_JOBS)
            self.run("kill $(jobs -p) 2>/dev/null; wait")
        else:  # a command took too long, and its shell ended with it
            subprocess.run(["bash", "-c", DELETE_JOBS], cwd=self.folder, env=self._env, timeout=PATIENCE, check=True)
        self._shell.communicate()
        end_processes(Path(self._env["TFJOB_HOME"]))


def copy_of_examples(folder: Path) -> Path:
    """Copy the examples as they are in a fresh clone."""
    project = folder / "examples"
    shutil.copytree(ROOT / "examples", project, ignore=shutil.ignore_patterns(".venv", "__pycache__"))
    for path in (project / "share").iterdir():
        if path.name not in (".gitignore", "README.md"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return project


def put_standin(project: Path) -> None:
    """Replace the sample that retrains by a program without TensorFlow."""
    shutil.copy(Path(__file__).with_name("standin_retrain.py"), project / "retrain" / "train.py")


def with_image_of_nodes(text: str) -> str:
    """Return a file of a page with an image that the test nodes have, because they have no registry."""
    return text.replace("image: busybox:1.36", f"image: {BUSYBOX}\n              imagePullPolicy: IfNotPresent")


@contextmanager
def play(
    page: Path,
    folder: Path,
    project: Path | None = None,
    env: Mapping[str, str] | None = None,
    edit: Callable[[str], str] = str,
    patience: float = PATIENCE,
    wanted: Callable[[str], bool] = lambda _: True,
) -> Iterator[Iterator[str]]:
    """Execute a page; yield the output of each command, which must match the page.

    Without `project`, the page runs in a new folder. `env` is added to the environment, `edit` adapts the files of the
    page, `patience` limits the seconds of a command, and `wanted` selects sections by their titles. At the end, even
    after a failure, every job of the page is deleted.
    """
    home = folder / "home"
    if project is None:
        project = folder / "project"
        project.mkdir()
    session = Session(home, project, env or {}, patience)
    try:
        yield _played(page, session, edit, wanted)
    finally:
        session.close()
        shutil.rmtree(home / "state", ignore_errors=True)


def _played(page: Path, session: Session, edit: Callable[[str], str], wanted: Callable[[str], bool]) -> Iterator[str]:
    for block in blocks(page, wanted):
        if isinstance(block, File):
            target = session.folder / block.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(edit(block.text))
        else:
            printed = session.run(block.command)
            assert block.matches(printed), f"{page.name}:{block.line}: $ {block.command}\n{printed}"
            yield printed

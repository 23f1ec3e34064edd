"""The files of a project folder that go to a cluster: what git and `.tfjobignore` leave, without secrets."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from typing import Self

from tfjob.errors import InvalidRequest
from tfjob.jobs.report import size

IGNORE_FILE = ".tfjobignore"
MOST_NAMES = 10
"""How many names a message lists."""
SMALL = 0.01
"""The share of all files below which a folder is not worth leaving out."""
ALMOST_ALL = 0.9
"""The share of a folder's size that one of its folders must have to be listed in its place."""


@dataclass(frozen=True)
class ProjectFile:
    """A file, with its path relative to the folder; `link` is the target of a symbolic link."""

    path: str
    size: int
    is_executable: bool = False
    link: str = ""


class Patterns:
    """Patterns as in a `.gitignore`: the last one that matches a file, or a folder above it, decides."""

    def __init__(self, lines: Iterable[str], flags: re.RegexFlag = re.NOFLAG) -> None:
        self._rules: list[tuple[re.Pattern[str], bool]] = []
        for line in map(str.rstrip, lines):
            if line and not line.startswith("#"):
                pattern = line.removeprefix("!")
                self._rules.append((_expression(pattern, flags), pattern == line))

    @classmethod
    def of_file(cls, file: Path) -> Self:
        try:
            return cls(file.read_text(encoding="utf-8").splitlines())
        except FileNotFoundError:
            return cls(())
        except UnicodeDecodeError:
            raise InvalidRequest(f"{file} is not valid UTF-8") from None

    def match(self, path: str) -> bool | None:
        """Return True if a pattern matches, False if one with `!` does, None if neither does."""
        return next((found for expression, found in reversed(self._rules) if expression.fullmatch(path)), None)

    def match_all_below(self, folder: str) -> bool:
        return all(found for _, found in self._rules) and bool(self.match(f"{folder}/_"))


def _expression(pattern: str, flags: re.RegexFlag) -> re.Pattern[str]:
    names = pattern.strip("/")
    start = "" if "/" in pattern.rstrip("/") else "(?:.*/)?"
    parts = re.findall(r"\*\*/|/\*\*$|\*+|\?|\[[^\]]+\]|[^*?\[]+|\[", names)
    below = "/.+" if pattern.endswith("/") else "(?:/.+)?"
    return re.compile(f"(?s:{start}{''.join(map(_translated, parts))}{below})", flags)


def _translated(part: str) -> str:
    fixed = {"**/": "(?:.*/)?", "/**": "/.*", "?": "[^/]"}
    if part in fixed:
        return fixed[part]
    if part.startswith("*"):
        return "[^/]*"
    if len(part) > 1 and part.startswith("["):
        inner = part[1:-1].replace("\\", "\\\\")
        return f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]"
    return re.escape(part)


CACHES = Patterns(
    [
        *(".git", ".hg/", ".svn/", ".venv/", "venv/", ".tox/", ".nox/", "node_modules/", "__pycache__/", "*.pyc"),
        *(".mypy_cache/", ".pytest_cache/", ".ruff_cache/", ".ipynb_checkpoints/", ".eggs/", "*.egg-info/"),
        *(".idea/", ".vscode/", ".DS_Store"),
    ]
)
SECRETS = Patterns(
    [
        *("*.env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk"),
        *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".ssh/", ".gnupg/", ".aws/", ".azure/", ".config/gcloud/"),
        *("kubeconfig", "*.kubeconfig", ".kube/", ".docker/", ".dockercfg", ".htpasswd", ".netrc", "_netrc", ".pgpass"),
        *(".git-credentials", ".pypirc", ".npmrc", "kaggle.json", "token.json", "client_secret*.json"),
        *("credentials", "credentials.ini", "credentials.toml", "*credentials.y*ml", "*credentials.json"),
        *("service[-_]account*.json", "secrets.ini", "secrets.toml", "secrets.y*ml", "secrets.json", "secret.y*ml"),
        *("!*.example", "!*.sample", "!*.template", "!*.dist"),
    ],
    re.IGNORECASE,
)
"""Names of files that usually hold secrets."""


@dataclass(frozen=True)
class ProjectFiles:
    """The files to send, sorted, and those left out: files named like secrets, and links that lead elsewhere."""

    folder: Path
    files: Sequence[ProjectFile]
    secrets: Sequence[str]
    links: Sequence[str]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def largest(self) -> list[str]:
        """Return the largest folders and files, with their sizes."""
        found: dict[str, int] = {}
        for file in self.files:
            parents = [f"{parent}/" for parent in Path(file.path).parents][:-1]
            for place in parents or [file.path]:
                found[place] = found.get(place, 0) + file.size
        sizes = {
            place: total
            for place, total in found.items()
            if total >= SMALL * self.size and not _has_most(place, total, found)
        }
        first = sorted(sizes, key=lambda place: (-sizes[place], place))[:MOST_NAMES]
        return [f"{place} ({size(sizes[place])})" for place in first]


def _has_most(place: str, total: int, sizes: Mapping[str, int]) -> bool:
    """Return whether one folder in a folder has almost all of its size."""
    if not place.endswith("/"):
        return False
    inner = (one for one in sizes if one != place and one.startswith(place) and one.endswith("/"))
    return any(sizes[one] >= ALMOST_ALL * total for one in inner)


def project_files(folder: Path) -> ProjectFiles:
    """Return the files of a folder. Raises InvalidRequest."""
    if folder in (Path("/"), Path("~").expanduser()):
        raise InvalidRequest(
            f"{folder} is not the folder of a project, and tfjob would send all of it to the cluster",
            "Change to the folder of your project first.",
        )
    ignored = Patterns.of_file(folder / IGNORE_FILE)
    known = _of_git(folder)
    secrets: list[str] = []
    files: list[ProjectFile] = []
    links: list[ProjectFile] = []
    for path in sorted(set(_walk(folder, ignored) if known is None else known)):
        decision = ignored.match(path)
        if decision or CACHES.match(path):
            continue
        if decision is None and SECRETS.match(path):
            secrets.append(path)
        elif (file := _described(folder, path)) is not None:
            (links if file.link and _leads_out(file) else files).append(file)
    return ProjectFiles(folder, files, secrets, [file.path for file in links])


def _of_git(folder: Path) -> list[str] | None:
    """Return the files that git knows or does not ignore; None if the folder is not in a repository."""
    words = ("git", "-C", str(folder), "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    try:
        done = subprocess.run(words, capture_output=True, check=False)
    except OSError:
        return None  # git is not installed
    if done.returncode:
        if any((parent / ".git").exists() for parent in (folder, *folder.parents)):
            reason = done.stderr.decode(errors="replace").partition("\n")[0]
            hint = "`git status` in this folder shows more."
            raise InvalidRequest(f"git cannot list the files of {folder}: {reason}", hint)
        return None
    found = []
    for name in filter(None, done.stdout.split(b"\0")):
        path = os.fsdecode(name).rstrip("/")
        place = folder / path
        if place.is_dir() and not place.is_symlink():  # a repository inside this one
            found += [f"{path}/{inner}" for inner in _of_git(place) or ()]
        else:
            found.append(path)
    return found


def _walk(folder: Path, ignored: Patterns) -> Iterator[str]:
    for root, folders, names in os.walk(folder):
        base = Path(root).relative_to(folder).as_posix()
        prefix = "" if base == "." else f"{base}/"
        is_link = {name: Path(root, name).is_symlink() for name in folders}
        yield from (prefix + name for name in [*names, *(name for name in folders if is_link[name])])
        folders[:] = [
            name
            for name in folders
            if not is_link[name]
            and not CACHES.match_all_below(prefix + name)
            and not ignored.match_all_below(prefix + name)
            and not Path(root, name, "pyvenv.cfg").exists()
        ]


def _described(folder: Path, path: str) -> ProjectFile | None:
    """Return None for what is not a file, and for a file that git knows and that does not exist."""
    place = folder / path
    try:
        found = place.lstat()
    except FileNotFoundError:
        return None
    if S_ISLNK(found.st_mode):
        return ProjectFile(path, 0, link=str(place.readlink()))
    return ProjectFile(path, found.st_size, bool(found.st_mode & 0o100)) if S_ISREG(found.st_mode) else None


def _leads_out(file: ProjectFile) -> bool:
    target = os.path.normpath(os.path.join(os.path.dirname(file.path), file.link))  # noqa: PTH118, PTH120
    return file.link.startswith("/") or target.split("/")[0] == ".."

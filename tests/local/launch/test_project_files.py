"""The files that go to a cluster, in a git repository and without one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tfjob.errors import InvalidRequest
from tfjob.launch.project_files import Patterns, ProjectFiles, project_files

CODE = ("train.py", "pkg/model.py", "pkg/data/words.txt")
CACHES = (".venv/lib/a.py", "pkg/__pycache__/model.pyc", "node_modules/a/index.js", "env39/pyvenv.cfg", "env39/bin/a")


@pytest.fixture(params=["git", "no git"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A project, once as a git repository."""
    place = tmp_path / "project"
    place.mkdir()
    write(place, *CODE)
    if request.param == "git":
        git(place, "init", "--quiet")
        (place / ".git" / "info" / "exclude").write_text("env39\n")
        git(place, "add", "train.py")
    return place


def write(folder: Path, *names: str) -> None:
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def names(found: ProjectFiles) -> list[str]:
    return [file.path for file in found.files]


def test_files_of_the_project_are_sent_and_caches_are_not(folder: Path) -> None:
    write(folder, *CACHES)
    (folder / "train.py").chmod(0o755)
    found = project_files(folder)
    assert names(found) == sorted(CODE)
    assert [file.path for file in found.files if file.is_executable] == ["train.py"]
    assert found.size == sum(map(len, CODE))


def test_an_ignore_file_of_tfjob_is_honoured(folder: Path) -> None:
    write(folder, "runs/1/events", "pkg/data/big.bin", "keep.bin", "top/only/x", "sub/top/x")
    (folder / ".tfjobignore").write_text("# outputs\nruns/\n*.bin\n!keep.bin\n/top\n\n")
    assert names(project_files(folder)) == sorted([*CODE, ".tfjobignore", "keep.bin", "sub/top/x"])


def test_files_named_like_secrets_are_left_out_and_listed(folder: Path) -> None:
    secrets = (".env", ".env.local", "prod.env", "pkg/id_rsa", "tls/server.key", "gcp/service-account-1.json", "A.PEM")
    harmless = (".env.example", "pkg/keys.py", "tokenizer.json", "pkg/credentials.py")
    write(folder, *secrets, *harmless)
    found = project_files(folder)
    assert sorted(found.secrets) == sorted(secrets)
    assert set(harmless) < set(names(found))


def test_a_file_that_only_looks_like_a_secret_can_be_sent(folder: Path) -> None:
    write(folder, "vocabulary.key", ".env")
    (folder / ".tfjobignore").write_text("!vocabulary.key\n.env\n")
    found = project_files(folder)
    assert "vocabulary.key" in names(found)
    assert found.secrets == []


def test_links_stay_links_unless_they_lead_out(folder: Path) -> None:
    (folder / "same.py").symlink_to("pkg/model.py")
    (folder / "folder").symlink_to("pkg")
    (folder / "out.py").symlink_to("../other.py")
    (folder / "absolute").symlink_to(folder / "pkg")
    os.mkfifo(folder / "pipe")
    found = project_files(folder)
    assert {file.path: file.link for file in found.files if file.link} == {"same.py": "pkg/model.py", "folder": "pkg"}
    assert found.links == ["absolute", "out.py"]


def test_what_git_ignores_is_not_sent_and_what_is_not_committed_is(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    write(tmp_path, "train.py", "new.py", "gone.py", "data/1", "other/x.py", "other/y.tmp", "kept.tmp")
    (tmp_path / ".gitignore").write_text("data/\n*.tmp\n")
    git(tmp_path, "add", "train.py", "gone.py")
    git(tmp_path, "add", "--force", "kept.tmp")
    (tmp_path / "gone.py").unlink()
    assert names(project_files(tmp_path)) == [".gitignore", "kept.tmp", "new.py", "other/x.py", "train.py"]
    assert names(project_files(tmp_path / "other")) == ["x.py"]


def test_a_repository_inside_another_is_sent(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "library/a.py", "library/b.tmp")
    git(tmp_path, "init", "--quiet")
    git(tmp_path / "library", "init", "--quiet")
    (tmp_path / "library" / ".gitignore").write_text("*.tmp\n")
    assert names(project_files(tmp_path)) == ["library/.gitignore", "library/a.py", "train.py"]


def test_a_repository_that_git_cannot_read_is_an_error(tmp_path: Path) -> None:
    """The files that it ignores, such as data and secrets, would be sent otherwise."""
    write(tmp_path, "train.py", ".git/HEAD")
    with pytest.raises(InvalidRequest, match="git"):
        project_files(tmp_path)


@pytest.mark.parametrize("name", ["home", ""])
def test_the_home_folder_is_not_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InvalidRequest, match="project"):
        project_files(tmp_path if name else Path("/"))


PATTERNS = [
    ("*.py", "pkg/a.py", True),
    ("*.py", "a.pyc", None),
    ("pkg", "pkg/a.py", True),
    ("pkg/", "pkg", None),
    ("/a.py", "pkg/a.py", None),
    ("pkg/a.py", "other/pkg/a.py", None),
    ("**/a.py", "x/y/a.py", True),
    ("**/a.py", "a.py", True),
    ("pkg/**/a.py", "pkg/a.py", True),
    ("pkg/**", "pkg/x/y", True),
    ("a?.[ch]", "ab.c", True),
    ("a[!b].c", "ab.c", None),
    ("*", "x/.y", True),
    ("a+b(1).txt", "a+b(1).txt", True),
    ("# a", "# a", None),
    ("!a.py", "a.py", False),
]


@pytest.mark.parametrize(("pattern", "path", "expected"), PATTERNS)
def test_a_pattern_matches_as_in_a_gitignore(pattern: str, path: str, expected: bool | None) -> None:
    assert Patterns([pattern]).match(path) is expected

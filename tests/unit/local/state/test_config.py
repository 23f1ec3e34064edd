"""tfjob.toml and the user's config.toml: what they mean together and how mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.golden import Wording
from tfjob.local.state import config
from tfjob.local.state.config import ConfigError


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_nothing_written_means_the_defaults(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert config.load(tmp_path, {}) == config.Config()


def test_the_project_stands_over_the_user_key_by_key(tmp_path: Path) -> None:
    write(
        tmp_path / "home/.config/tfjob/config.toml",
        '[images.one]\npython = "user"\n[images.two]\npython = "user"\n[volumes]\na = "/user"\nb = "/user"\n'
        '[local]\nlevel = "ports"\nlimits = "off"\n',
    )
    project = write(
        tmp_path / "project/tfjob.toml",
        '[images.one]\nvirtualenv = "venv"\n[volumes]\na = "data"\n[local]\nlevel = "full"\nlog_max_bytes = "1Mi"\n',
    )
    (tmp_path / "project/deep/er").mkdir(parents=True)
    made = config.load(tmp_path / "project/deep/er", {"HOME": str(tmp_path / "home")})
    assert (made.level, made.limits, made.log_max_bytes, made.log_files) == ("full", "off", 1024**2, 5)
    assert made.volumes == {"a": tmp_path / "project/data", "b": Path("/user")}
    assert (made.images["one"].virtualenv, made.images["one"].python) == (tmp_path / "project/venv", "")
    assert made.images["two"].python == "user"
    assert list(made.images) == ["one", "two"]
    assert made.files[0] == project


def test_xdg_config_home_moves_the_users_file(tmp_path: Path) -> None:
    write(tmp_path / "xdg/tfjob/config.toml", "[local]\nlog_files = 2\n")
    (tmp_path / ".git").mkdir()
    assert config.load(tmp_path, {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}).log_files == 2


def test_the_search_ends_at_the_repositorys_root(tmp_path: Path) -> None:
    write(tmp_path / "tfjob.toml", "[local]\nlog_files = 2\n")
    (tmp_path / "repository/.git").mkdir(parents=True)
    (tmp_path / "repository/jobs").mkdir()
    assert config.project_file(tmp_path / "repository/jobs") is None


def test_a_folder_that_everyone_may_write_to_is_not_searched(tmp_path: Path) -> None:
    write(tmp_path / "shared/tfjob.toml", "[local]\nlog_files = 2\n")
    (tmp_path / "shared/mine").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    assert config.project_file(tmp_path / "shared/mine") is None
    assert config.project_file(tmp_path / "shared") == tmp_path / "shared/tfjob.toml"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[image.x]\n", "images"),
        ("[local]\nlevels = 'full'\n", "local.levels"),
        ("[local]\nlevel = 'best'\n", "local.level"),
        ("[local]\nlog_files = 1\n", "local.log_files"),
        ("[local]\nlog_files = true\n", "local.log_files"),
        ("[local]\nlog_max_bytes = '10 apples'\n", "local.log_max_bytes"),
        ("[local]\ngpu = 1\n", "local.gpu"),
        ("local = 1\n", "local"),
        ("[images]\n'a/b:1' = 'x'\n", 'images."a/b:1"'),
        ("[images.a]\ncommand = 'python x'\n", 'images."a".command'),
        ("[images.a]\nenv = { A = 1 }\n", 'images."a".env.A'),
        ("[images.a]\npython = 3\n", 'images."a".python'),
        ("[images.a]\npython = 'p'\nvirtualenv = 'v'\n", "virtualenv"),
        ("[volumes]\ndata = 1\n", "volumes.data"),
        ("[local\n", "TOML"),
    ],
)
def test_a_mistake_is_told_with_file_and_key(tmp_path: Path, text: str, key: str, wording: Wording) -> None:
    file = write(tmp_path / "tfjob.toml", text)
    with pytest.raises(ConfigError) as caught:
        config.load(tmp_path, {})
    assert str(caught.value).startswith(f"{file}: ")
    assert key in str(caught.value)
    wording(caught.value)


def test_a_file_that_is_not_text_is_told(tmp_path: Path, wording: Wording) -> None:
    (tmp_path / "tfjob.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="UTF-8") as caught:
        config.load(tmp_path, {})
    wording(caught.value)

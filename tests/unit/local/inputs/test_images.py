"""Which interpreter, folder and command stand in for an image."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from support.golden import Wording
from support.local.interpreters import fake_python, resolve
from tfjob.local.inputs import images
from tfjob.local.inputs.images import ImageError, Runtime
from tfjob.local.state.config import Config, ConfigError, overlay


def configured(folder: Path, text: str) -> Config:
    (folder / "tfjob.toml").write_text(text)
    return overlay(Config(), folder / "tfjob.toml")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    return tmp_path


def test_a_command_alone_runs_with_our_own_interpreter_in_the_manifests_folder(project: Path) -> None:
    made = resolve({"image": "x", "command": ["python"]}, Config(), project)
    assert (made.python, made.workdir, made.command) == (Path(sys.executable), project, [])


def test_the_nearest_virtualenv_upward_is_taken_and_the_command_lines_choice_before_it(project: Path) -> None:
    venv = fake_python(project / ".venv/bin/python")
    (project / ".venv/pyvenv.cfg").touch()
    other = fake_python(project / "other/bin/python")
    (project / "jobs").mkdir()
    container = {"image": "x", "command": ["python"]}
    assert resolve(container, Config(), project / "jobs").python == venv
    assert resolve(container, Config(), project / "jobs", python=other).python == other
    assert resolve(container, Config(), project / "jobs", python=project / "other").python == other


def test_a_virtualenv_without_its_interpreter_is_told(project: Path, wording: Wording) -> None:
    (project / ".venv").mkdir()
    (project / ".venv/pyvenv.cfg").touch()
    with pytest.raises(ImageError, match=r"\.venv") as caught:
        resolve({"image": "x", "command": ["python"]}, Config(), project)
    wording(str(caught.value).replace(str(project), "PROJECT"))


def test_an_entry_gives_interpreter_folder_command_and_variables(project: Path) -> None:
    python = fake_python(project / "v/bin/python")
    config = configured(
        project,
        '[images."team/train"]\nvirtualenv = "v"\nworkdir = "src"\n'
        'command = ["python", "-m", "train"]\nenv = { A = "1" }\n',
    )
    made = resolve({"image": "team/train:v3@sha256:abc"}, config, project)
    assert (made.python, made.workdir, made.env) == (python, project / "src", {"A": "1"})
    assert made.command == ["python", "-m", "train"]


def test_an_entry_says_what_the_images_folders_are_here(project: Path) -> None:
    (project / "src").mkdir()
    (project / "lib").mkdir()
    config = configured(project, '[images.x]\nfolders = { "/opt/train/" = "src", "/opt/train/lib" = "lib" }\n')
    made = resolve({"image": "x", "command": ["a"]}, config, project)
    assert made.folders == {"/opt/train": project / "src", "/opt/train/lib": project / "lib"}


@pytest.mark.parametrize(
    "folders",
    [
        '{ "/opt" = "gone" }',
        '{ "opt" = "src" }',
        '{ "/" = "src" }',
        '["/opt"]',
    ],
)
def test_a_folder_that_cannot_stand_in_for_the_images_is_refused_with_its_key(
    project: Path, folders: str, wording: Wording
) -> None:
    with pytest.raises(ConfigError, match=r"images.+x.+folders") as caught:
        resolve({"image": "x", "command": ["a"]}, configured(project, f"[images.x]\nfolders = {folders}\n"), project)
    wording(str(caught.value).replace(str(project), "PROJECT"))


def test_the_manifests_working_folder_stands_over_the_entrys(project: Path) -> None:
    config = configured(project, '[images.x]\nworkdir = "src"\n')
    assert resolve({"image": "x", "command": ["a"], "workingDir": "/app"}, config, project).workdir == Path("/app")


@pytest.mark.parametrize(
    ("image", "entry"),
    [
        ("reg.example:5000/a/b:1", "exact"),
        ("reg.example:5000/a/b:2", "bare"),
        ("reg.example:5000/a/b@sha256:00", "bare"),
        ("reg.example:5000/a/c:2", "pattern"),
        ("other/c", None),
    ],
)
def test_an_image_is_found_by_name_then_without_tag_then_by_pattern(
    project: Path, image: str, entry: str | None
) -> None:
    config = configured(
        project,
        '[images."reg.example:5000/*"]\nworkdir = "pattern"\n[images."reg*"]\nworkdir = "late"\n'
        '[images."reg.example:5000/a/b"]\nworkdir = "bare"\n[images."reg.example:5000/a/b:1"]\nworkdir = "exact"\n',
    )
    found = images.find_entry(image, config)
    assert (found and found.workdir and found.workdir.name) == entry


@pytest.mark.parametrize(
    ("container", "entry", "expected"),
    [
        ({"command": ["c"], "args": ["a"]}, (["e"], ["d"]), ["c", "a"]),
        ({"command": ["c"]}, (["e"], ["d"]), ["c"]),
        ({"args": ["a"]}, (["e"], ["d"]), ["e", "a"]),
        ({}, (["e"], ["d"]), ["e", "d"]),
        ({}, ([], ["d"]), ["d"]),
        ({"args": ["$(V)", "$$(V)"]}, (["$(V)"], []), ["$(V)", "1", "$(V)"]),
        ({"command": ["sh", "$(V)"]}, ([], []), ["sh", "1"]),
    ],
)
def test_command_and_args_follow_kubernetes_rule(
    container: dict[str, Any], entry: tuple[list[str], list[str]], expected: list[str]
) -> None:
    runtime = Runtime(Path("/p"), Path("/"), *entry, env={}, links=(), folders={})
    assert images.argv(container, runtime, {"V": "1"}) == expected


@pytest.mark.parametrize("text", ["", '[images."a/b:1"]\nworkdir = "x"\n'])
def test_an_image_without_any_command_is_refused_with_the_lines_to_add(
    project: Path, text: str, wording: Wording
) -> None:
    with pytest.raises(ImageError) as caught:
        resolve({"image": "a/b:1", "args": ["--x"]}, configured(project, text), project)
    assert "tensorflow" in caught.value.message
    assert '[images."a/b:1"]\ncommand = ["python", "main.py"]' in caught.value.hint
    wording(caught.value.message, caught.value.hint.replace(str(project), "PROJECT"))


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ('python = "gone/python"', "python"),
        ('python = "no-such-python"', "python"),
        ('virtualenv = "gone"', "virtualenv"),
    ],
)
def test_a_missing_interpreter_names_the_key(project: Path, setting: str, key: str, wording: Wording) -> None:
    config = configured(project, f"[images.x]\n{setting}\n")
    with pytest.raises(ConfigError, match=f'images."x".{key}') as caught:
        resolve({"image": "x", "command": ["python"]}, config, project)
    assert caught.value.path == project / "tfjob.toml"
    wording(str(caught.value).replace(str(project), "PROJECT"))


def test_a_missing_choice_of_the_command_line_is_told(project: Path, wording: Wording) -> None:
    with pytest.raises(ImageError, match="--python /no/python") as caught:
        resolve({"image": "x", "command": ["python"]}, Config(), project, python=Path("/no/python"))
    wording(caught.value)


def test_a_virtualenv_needs_no_links(project: Path) -> None:
    made = resolve({"image": "x", "command": ["python"]}, Config(), project, python=Path(sys.executable))
    assert made.links == ()
    assert images.write_links(made, project / "links") is None


ENTRY = ["--port=8500", "--rest_api_port=8501", "--model_name=mnist", "--model_base_path=/models/mnist"]


def words(container: dict[str, Any], project: Path, text: str = "") -> list[str]:
    """Return the arguments that run a container."""
    runtime = resolve(container, configured(project, text), project)
    return images.argv(container, runtime, {"MODEL_NAME": "mnist"})


@pytest.mark.parametrize(
    ("container", "arguments"),
    [
        ({"args": ["/usr/bin/tensorflow_model_server", "--port=9000"]}, ["--port=9000"]),
        ({"command": ["tensorflow_model_server"], "args": ["--port=1"]}, ["--port=1"]),
        ({"image": "tensorflow/serving:2.20.0"}, ENTRY),
        ({"image": "tensorflow/serving", "args": ["--v=1"]}, [*ENTRY, "--v=1"]),
    ],
)
def test_the_model_server_of_an_image_is_ours(project: Path, container: dict[str, Any], arguments: list[str]) -> None:
    assert words(container, project) == [sys.executable, "-P", "-m", "tfjob.serve", *arguments]


def test_the_image_of_tensorflow_serving_has_its_environment(project: Path) -> None:
    assert resolve({"image": "tensorflow/serving"}, Config(), project).env == {
        "MODEL_NAME": "model",
        "MODEL_BASE_PATH": "/models",
    }
    assert resolve({"args": ["tensorflow_model_server"]}, Config(), project).env == {}


def test_tensorboard_of_an_image_is_that_of_an_interpreter_of_this_machine(project: Path) -> None:
    found = words({"image": "x", "args": ["/usr/local/bin/tensorboard", "--logdir", "/logs"]}, project)
    assert found[:2] == [sys.executable, "-c"]
    assert found[3:7] == ["--logdir", "/logs", "--host", "127.0.0.1"]


def test_a_configured_image_keeps_its_own_server(project: Path) -> None:
    container = {"image": "tensorflow/serving:2", "command": ["/opt/tensorflow_model_server", "--port=1"]}
    assert words(container, project, '[images."tensorflow/serving"]\nworkdir = "x"\n') == container["command"]


@pytest.mark.parametrize("missing", ["grpc", "google.protobuf", "tensorflow"])
def test_a_missing_package_of_the_model_server_is_named(
    project: Path, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "_is_installed", lambda module: module != missing)
    with pytest.raises(ImageError, match="model server") as caught:
        resolve({"image": "tensorflow/serving"}, Config(), project)
    assert "tensorflow" in caught.value.hint
    assert ("tfjob[serve" in caught.value.hint) is (missing != "tensorflow")

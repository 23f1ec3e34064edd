"""Which containers run servers that tfjob brings, and the words of their commands."""

from __future__ import annotations

from typing import Any

import pytest

from tfjob.api import servers
from tfjob.api.servers import MODEL_SERVER, TENSORBOARD


@pytest.mark.parametrize(
    ("container", "server", "has_entry_point"),
    [
        ({"command": ["tensorboard", "--logdir", "/logs"]}, TENSORBOARD, False),
        ({"image": "tensorflow/tensorflow:1.8.0", "args": ["/usr/local/bin/tensorboard"]}, TENSORBOARD, False),
        ({"command": ["/usr/bin/tensorflow_model_server"], "args": ["--port=9000"]}, MODEL_SERVER, False),
        (
            {"image": "a.example/x/tf-model-server-cpu:v1", "args": ["/usr/bin/tensorflow_model_server"]},
            MODEL_SERVER,
            0,
        ),
        ({"image": "a.example/x/tf-model-server-cpu:v1", "args": ["--port=9000"]}, MODEL_SERVER, True),
        ({"image": "tensorflow/serving"}, MODEL_SERVER, True),
        ({"image": "docker.io/tensorflow/serving:2.20.0", "args": ["--model_name=m"]}, MODEL_SERVER, True),
        ({"image": "tensorflow/serving@sha256:0a"}, MODEL_SERVER, True),
        ({"image": "tensorflow/serving", "args": ["bash"]}, "", True),
        ({"image": "tensorflow/serving", "command": ["sleep", "1"]}, "", True),
        ({"image": "a.example/tf-model-server/tools", "args": ["--x"]}, "", True),
        ({"image": "tensorflow/serving-devel"}, "", True),
        ({"command": ["python", "tensorboard"]}, "", True),
        ({"command": ["tensorboard.sh"]}, "", True),
        ({}, "", True),
    ],
)
def test_a_server_is_found_by_its_program_or_image(
    container: dict[str, Any], server: str, has_entry_point: bool
) -> None:
    assert servers.server_of(container) == server
    assert servers.has_entry_point(container) is bool(has_entry_point)


@pytest.mark.parametrize(
    ("given", "added"),
    [
        (["--logdir", "/logs"], ["--host", "127.0.0.1", "--load_fast=false", "--reload_multifile=true"]),
        (["--bind_all"], ["--load_fast=false", "--reload_multifile=true"]),
        (["--host=0.0.0.0", "--load_fast=auto"], ["--reload_multifile=true"]),
    ],
)
def test_tensorboard_gets_the_options_that_are_missing(given: list[str], added: list[str]) -> None:
    assert servers.arguments_of(TENSORBOARD, given) == [*given, *added]


def test_the_image_of_tensorflow_serving_takes_the_model_from_the_environment() -> None:
    ports = ["--port=8500", "--rest_api_port=8501"]
    assert servers.entry_arguments({}) == [*ports, "--model_name=model", "--model_base_path=/models/model"]
    given = servers.entry_arguments({"MODEL_NAME": "m", "MODEL_BASE_PATH": "/x"})
    assert given == [*ports, "--model_name=m", "--model_base_path=/x/m"]


def test_the_model_server_gets_the_arguments_as_they_are() -> None:
    assert servers.arguments_of(MODEL_SERVER, ["--port=9000"]) == ["--port=9000"]
    assert servers.command_of(MODEL_SERVER, "/p") == ["/p", "-P", "-m", "tfjob.serve"]

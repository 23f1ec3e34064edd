"""Servers that tfjob brings for this machine in place of the programs of well-known images.

A container runs one if its command, or its arguments without a command, begin with `tensorboard` or
`tensorflow_model_server` at any path, or if its image is one of TensorFlow Serving and it has no other command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from posixpath import basename
from typing import Any

TENSORBOARD, MODEL_SERVER = "tensorboard", "tensorflow_model_server"
MODEL_SERVER_MODULE = "tfjob.serve"
MODEL_SERVER_ENV = {"MODEL_NAME": "model", "MODEL_BASE_PATH": "/models"}
"""The environment of TensorFlow Serving's image."""
_SERVING_IMAGES = re.compile(r"(?:.*/)?(?:tensorflow/serving|[^/:@]*tf-model-server[^/:@]*)(?:[:@].*)?", re.ASCII)

TENSORBOARD_PROGRAM = """
import sys, types
if "://" not in " ".join(sys.argv):
    # Run without TensorFlow: importing it takes seconds and half a gigabyte.
    sys.modules["tensorboard.compat.notf"] = types.ModuleType("notf")
from tensorboard.main import run_main
sys.argv[0] = "tensorboard"
run_main()
"""
"""TensorBoard on this machine. It needs TensorFlow only for folders in object stores."""
TENSORBOARD_OPTIONS = ("--load_fast=false", "--reload_multifile=true")
_HOST_OPTIONS = ("--host", "--bind_all")


def server_of(container: Mapping[str, Any]) -> str:
    """Return the server that a container runs, `tensorboard` or `tensorflow_model_server`, or an empty string."""
    words = container.get("command") or container.get("args") or []
    name = basename(words[0]) if words else ""
    if name in (TENSORBOARD, MODEL_SERVER):
        return name
    is_entry = not container.get("command") and all(word.startswith("-") for word in words[:1])
    return MODEL_SERVER if is_entry and _SERVING_IMAGES.fullmatch(container.get("image") or "") else ""


def has_entry_point(container: Mapping[str, Any]) -> bool:
    """Return whether a container with a server gets its program from the image, instead of naming it."""
    words = container.get("command") or container.get("args") or [""]
    return basename(words[0]) not in (TENSORBOARD, MODEL_SERVER)


def entry_arguments(variables: Mapping[str, str]) -> list[str]:
    """Return what the entry point of TensorFlow Serving's image passes before the arguments of the container."""
    found = {**MODEL_SERVER_ENV, **variables}
    name, folder = found["MODEL_NAME"], found["MODEL_BASE_PATH"]
    return ["--port=8500", "--rest_api_port=8501", f"--model_name={name}", f"--model_base_path={folder}/{name}"]


def command_of(server: str, python: str) -> list[str]:
    """Return the command that runs a server of ours with an interpreter."""
    if server == TENSORBOARD:
        return [python, "-c", TENSORBOARD_PROGRAM]
    # With -P, modules in the working folder do not replace those that the server imports.
    return [python, "-P", "-m", MODEL_SERVER_MODULE]


def arguments_of(server: str, arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a container, and the options without which the server would not be reachable or fast."""
    if server != TENSORBOARD:
        return list(arguments)
    names = {word.partition("=")[0] for word in arguments}
    host = [] if names.intersection(_HOST_OPTIONS) else ["--host", "127.0.0.1"]
    return [*arguments, *host, *(one for one in TENSORBOARD_OPTIONS if one.partition("=")[0] not in names)]

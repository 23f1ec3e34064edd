from __future__ import annotations

from pathlib import Path

import pytest

from support.golden import Wording
from tfjob.serve.config import InvalidConfig, Loading, ModelConfig, parse, usage

MODEL = "--model_base_path=/models/mnist"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], {"port": 8500, "rest_api_port": 0, "model_name": "default", "file_system_poll_wait_seconds": 1}),
        (["--port=9000", "--rest_api_port", "8501"], {"port": 9000, "rest_api_port": 8501}),
        ([], {"enable_batching": True}),
        (["--enable_batching=false"], {"enable_batching": False}),
        (
            ["--enable_batching", "--batching_parameters_file=x"],
            {"enable_batching": True, "batching_parameters_file": "x"},
        ),
        (["--enable_batching", "true", "--port=1"], {"enable_batching": True, "port": 1}),
        (["--enable_model_warmup=false"], {"enable_model_warmup": False}),
        (["--enable_model_warmup=0", "--enable_model_warmup=TRUE"], {"enable_model_warmup": True}),
        (["--port=0", "--grpc_socket_path=/tmp/x"], {"port": 0, "grpc_socket_path": "/tmp/x"}),
        (["--grpc_channel_arguments=a=1,b=x,c=-2"], {"channel_arguments": (("a", 1), ("b", "x"), ("c", -2))}),
        (["--saved_model_tags=serve, gpu"], {"tags": ("serve", "gpu")}),
        (["--model_name=m"], {"model": ModelConfig("m", Path("/models/mnist"))}),
    ],
)
def test_flags_become_settings(arguments: list[str], expected: dict[str, object]) -> None:
    parsed = parse([MODEL, *arguments], {})
    assert {name: getattr(parsed.config, name) for name in expected} == expected
    assert parsed.warnings == []


def test_flags_about_versions_become_loading() -> None:
    arguments = [MODEL, "--load_retry_interval_micros=1500000", "--max_num_load_retries=2", "--enable_model_warmup=0"]
    loading = parse(arguments, {}).config.loading(b"x")
    assert loading == Loading(session_config=b"x", retries=2, retry_seconds=1.5, warmup=False)


@pytest.mark.parametrize(
    ("arguments", "environ", "host"),
    [
        ([], {}, "127.0.0.1"),
        ([], {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, ""),
        (["--host=0.0.0.0"], {}, "0.0.0.0"),
        (["--host=127.0.0.1"], {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "127.0.0.1"),
    ],
)
def test_only_a_pod_listens_on_all_addresses(arguments: list[str], environ: dict[str, str], host: str) -> None:
    assert parse([MODEL, *arguments], environ).config.host == host


@pytest.mark.parametrize(
    ("argument", "warned"),
    [
        ("--rest_api_num_threads=4", True),
        ("--enable_profiler", True),
        ("--flush_filesystem_caches=false", True),
        ("--enable_grpc_healthcheck_service=true", False),
        ("--xla_cpu_compilation_enabled=false", False),
        ("--per_process_gpu_memory_fraction=0.0", False),
        ("--platform_config_file=", False),
    ],
)
def test_flags_without_effect_are_accepted(argument: str, warned: bool) -> None:
    parsed = parse([MODEL, argument], {})
    assert len(parsed.warnings) == warned
    assert all(argument.split("=")[0] in warning for warning in parsed.warnings)


def test_flags_of_a_model_have_no_effect_with_a_file_of_models() -> None:
    (warning,) = parse([MODEL, "--model_config_file=models"], {}).warnings
    assert "--model_config_file" in warning
    assert parse(["--model_config_file=models"], {}).warnings == []


@pytest.mark.parametrize("question", ["version", "help"])
def test_a_question_needs_no_model(question: str) -> None:
    assert parse([f"--{question}"], {}).question == question


INVALID = {
    "misspelled": [MODEL, "--model_nam=x"],
    "with dashes": [MODEL, "--rest-api-port=8501"],
    "unknown": [MODEL, "--frobnicate"],
    "no flag": [MODEL, "mnist"],
    "one dash": [MODEL, "-port=9000"],
    "no value": [MODEL, "--port"],
    "flag as value": [MODEL, "--model_name", "--port=9000"],
    "no number": [MODEL, "--port=x"],
    "no boolean": [MODEL, "--enable_batching=maybe"],
    "no fraction": [MODEL, "--per_process_gpu_memory_fraction=x"],
    "negative": [MODEL, "--file_system_poll_wait_seconds=-1"],
    "too large a port": [MODEL, "--port=65536"],
    "unsupported": [MODEL, "--platform_config_file=x"],
    "unsupported XLA": [MODEL, "--xla_gpu_compilation_enabled"],
    "unsupported GPU": [MODEL, "--per_process_gpu_memory_fraction=0.5"],
    "no port": [MODEL, "--port=0"],
    "one port": [MODEL, "--port=8501", "--rest_api_port=8501"],
    "no model": [],
    "no name": [MODEL, "--model_name="],
    "no tags": [MODEL, "--saved_model_tags=,"],
    "batching without the flag": [MODEL, "--batching_parameters_file=x"],
    "batching turned off": [MODEL, "--batching_parameters_file=x", "--enable_batching=false"],
    "threads twice": [MODEL, "--tensorflow_session_parallelism=1", "--tensorflow_intra_op_parallelism=1"],
    "no pair": [MODEL, "--grpc_channel_arguments=x"],
}


def test_an_invalid_flag_is_an_error_with_a_hint(wording: Wording) -> None:
    lines = []
    for name, arguments in INVALID.items():
        with pytest.raises(InvalidConfig) as caught:
            parse(arguments, {})
        assert caught.value.hint
        lines.append(f"{name}: {caught.value.message}. {caught.value.hint}")
    wording(*lines)


def test_the_help_lists_every_flag_with_its_default() -> None:
    lines = usage().splitlines()
    assert "--port=int (default 8500)" in lines
    assert "--enable_model_warmup=bool (default true)" in lines
    assert "--model_base_path=str" in lines

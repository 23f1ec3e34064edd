from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.golden import Wording
from tfjob.serve import config_files, protos
from tfjob.serve.config import All, Batching, InvalidConfig, Latest, ModelConfig, ServerConfig, Specific
from tfjob.serve.config_files import METRICS_PATH, Tls

Read = Callable[[Path], object]
MODEL = 'name: "m" base_path: "/m" model_platform: "tensorflow"'
PEM = "-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----"


def written(folder: Path, text: str) -> Path:
    path = folder / "file.txt"
    path.write_text(text)
    return path


def models_text(*configs: str) -> str:
    return "model_config_list {\n" + "\n".join(f"  config {{ {config} }}" for config in configs) + "\n}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MODEL, ModelConfig("m", Path("/m"))),
        (MODEL + " model_version_policy { latest { num_versions: 2 } }", ModelConfig("m", Path("/m"), Latest(2))),
        (MODEL + " model_version_policy { latest {} }", ModelConfig("m", Path("/m"), Latest(1))),
        (MODEL + " model_version_policy { all {} }", ModelConfig("m", Path("/m"), All())),
        (
            MODEL + " model_version_policy: < specific < versions: 2 versions: 1 > > # both\n",
            ModelConfig("m", Path("/m"), Specific((1, 2))),
        ),
        (
            MODEL + ' version_labels { key: "stable" value: 1 } version_labels { key: "canary" value: 2 }',
            ModelConfig("m", Path("/m"), labels={"stable": 1, "canary": 2}),
        ),
        ("name: 'm' base_path: '/m' model_type: TENSORFLOW", ModelConfig("m", Path("/m"))),
    ],
)
def test_a_model_has_a_policy_and_labels(text: str, expected: ModelConfig, tmp_path: Path) -> None:
    assert config_files.read_models(written(tmp_path, models_text(text))) == ([expected], [])


def test_a_relative_base_path_starts_at_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = models_text(MODEL.replace("/m", "models/m"))
    ((model,), _) = config_files.read_models(written(tmp_path, text))
    assert model.base_path == tmp_path / "models/m"


def test_logging_of_requests_is_ignored_with_a_warning(tmp_path: Path) -> None:
    text = models_text(MODEL, MODEL.replace('"m"', '"n"') + " logging_config {}")
    models, (warning,) = config_files.read_models(written(tmp_path, text))
    assert [model.name for model in models] == ["m", "n"]
    assert "config[1].logging_config" in warning


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Batching(max_batch_size=1000, max_enqueued_batches=10)),
        (
            "max_batch_size { value: 8 } max_enqueued_batches { value: 3 } num_batch_threads { value: 2 }"
            ' allowed_batch_sizes: 1 allowed_batch_sizes: 8 thread_pool_name { value: "x" }',
            Batching(max_batch_size=8, max_enqueued_batches=3, threads=2, sizes=(1, 8)),
        ),
    ],
)
def test_batching_parameters(text: str, expected: Batching, tmp_path: Path) -> None:
    assert config_files.read_batching(written(tmp_path, text)) == (expected, [])


def test_the_server_warns_that_it_never_waits_for_requests(tmp_path: Path) -> None:
    _, (warning,) = config_files.read_batching(written(tmp_path, "batch_timeout_micros { value: 1000 }"))
    assert "batch_timeout_micros" in warning


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("prometheus_config { enable: true }", METRICS_PATH),
        ('prometheus_config { enable: true path: "/metrics" }', "/metrics"),
        ('prometheus_config { path: "/metrics" }', ""),
        ("", ""),
    ],
)
def test_the_metrics_page_has_a_path_if_it_is_enabled(text: str, path: str, tmp_path: Path) -> None:
    assert config_files.read_monitoring(written(tmp_path, text)) == path


def test_tls_has_pem_texts(tmp_path: Path) -> None:
    text = f'server_key: "{PEM}" server_cert: "{PEM}" custom_ca: "{PEM}" client_verify: true'
    pem = PEM.replace("\\n", "\n")
    assert config_files.read_tls(written(tmp_path, text)) == Tls(pem, pem, pem, client_verify=True)


@pytest.mark.parametrize(
    ("config", "text", "threads"),
    [
        (ServerConfig(), "", (0, 0)),
        (ServerConfig(tensorflow_session_parallelism=3), "", (3, 3)),
        (ServerConfig(tensorflow_intra_op_parallelism=1, tensorflow_inter_op_parallelism=2), "", (1, 2)),
        (ServerConfig(tensorflow_session_parallelism=3), "intra_op_parallelism_threads: 5", (5, 3)),
    ],
)
def test_threads_of_a_session(config: ServerConfig, text: str, threads: tuple[int, int], tmp_path: Path) -> None:
    if text:
        config = ServerConfig(**{**vars(config), "tensorflow_session_config_file": str(written(tmp_path, text))})
    found = protos.ConfigProto.FromString(config_files.session_config(config))
    assert (found.intra_op_parallelism_threads, found.inter_op_parallelism_threads) == threads


INVALID: list[tuple[Read, str]] = [
    (config_files.read_models, "model_config_list {"),
    (config_files.read_models, models_text(MODEL + " nam: 1")),
    (config_files.read_models, models_text('name: "m" base_path: "/m"')),
    (config_files.read_models, models_text('name: "m" base_path: "/m" model_platform: "caffe"')),
    (config_files.read_models, models_text('base_path: "/m" model_platform: "tensorflow"')),
    (config_files.read_models, models_text('name: "m" model_platform: "tensorflow"')),
    (config_files.read_models, models_text(MODEL, MODEL)),
    (config_files.read_models, models_text(MODEL + " model_version_policy { specific {} }")),
    (config_files.read_models, "custom_model_config {}"),
    (config_files.read_batching, "max_batch_size { value: 0 }"),
    (config_files.read_batching, "num_batch_threads { value: -1 }"),
    (config_files.read_batching, "pad_variable_length_inputs: true"),
    (config_files.read_batching, "enable_large_batch_splitting { value: true }"),
    (config_files.read_batching, "max_execution_batch_size { value: 8 }"),
    (config_files.read_batching, "max_batch_size { value: 8 } allowed_batch_sizes: 4 allowed_batch_sizes: 2"),
    (config_files.read_batching, "max_batch_size { value: 8 } allowed_batch_sizes: 4"),
    (config_files.read_monitoring, 'prometheus_config { enable: true path: "metrics" }'),
    (config_files.read_tls, 'server_key: "/etc/key.pem"'),
    (config_files.read_tls, f'server_key: "{PEM}" server_cert: "{PEM}" client_verify: true'),
]


def test_an_invalid_file_is_an_error_with_its_place(tmp_path: Path, wording: Wording) -> None:
    errors = []
    for read, text in INVALID:
        path = written(tmp_path, text)
        with pytest.raises(InvalidConfig) as caught:
            read(path)
        assert str(path) in caught.value.message
        errors.append(str(caught.value).replace("\n", " | "))
    wording(*errors)


@pytest.mark.parametrize("content", [None, b"\xff"])
def test_an_unreadable_file_is_an_error(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "models"
    if content:
        path.write_bytes(content)
    with pytest.raises(InvalidConfig, match=str(path)):
        config_files.read_models(path)

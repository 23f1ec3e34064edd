"""The page docs/reference/model-server.md, with flags, status codes and metrics from the code."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import get_type_hints

from tfjob.serve import metrics
from tfjob.serve.config import IGNORED, UNSUPPORTED, ServerConfig
from tfjob.serve.errors import Code
from tfjob.serve.rest_server import LARGEST_BODY

Row = list[str]
Describe = Callable[[dict[str, str], str], str]
Table = Callable[[list[str], list[Row]], str]

INTRODUCTION = """# Model server

`tfjob serve` starts this server. You can also start it with `python -m tfjob.serve` and the flags of
`tensorflow_model_server`, for example
`python -m tfjob.serve --rest_api_port=8501 --model_name=mnist --model_base_path=/models/mnist`. The server needs the
extras `serve` and `tensorflow`. It listens on loopback, and in a pod on all addresses.

The ports open when the server has tried to load each model once. After SIGTERM, the server stops listening within
0.3 s, finishes running requests within 30 s, and exits with code 0. An invalid flag or file ends it with code 255.
"""
ROUTES = {
    "GET /v1/models/M": "the status of each version",
    "GET /v1/models/M/metadata": "the signatures",
    "POST /v1/models/M:predict": "predictions for `instances` (rows) or `inputs` (columns)",
    "POST /v1/models/M:classify": "labels and scores for `examples`",
    "POST /v1/models/M:regress": "numbers for `examples`",
    "GET /v2": "name and version of the server (Open Inference Protocol)",
    "GET /v2/health/live": "whether the server runs",
    "GET /v2/health/ready": "whether every model has an available version",
    "GET /v2/models": "every model with its available versions",
    "GET /v2/models/M": "inputs and outputs of the default signature",
    "GET /v2/models/M/ready": "whether the model has an available version",
    "POST /v2/models/M/infer": "outputs for `inputs` with a name, shape, datatype and data",
    "GET /healthz": "200 as long as the server runs",
    "GET /readyz": "200 if every model has an available version; otherwise 503 with the reasons",
    "GET /monitoring/prometheus/metrics": "the metrics below; `--monitoring_config_file` changes the path",
}
METRICS = {
    "_requests": "requests",
    "_latency": "duration of successful requests in microseconds",
    "_runtime": "duration of runs of the model in microseconds",
    "_example_counts": "rows of requests",
    "_example_total": "rows of all requests",
    "_warmup": "duration of warm-ups in microseconds",
    "_queuing": "how long requests waited for their run, in microseconds",
    "_load_attempts": "attempts to load a version; the status is `success` or `fail`",
    "_load_latency": "duration of all loads in microseconds",
    "_queue": "requests that wait for a run",
    "_batches": "rows of runs",
}
GAUGES = [
    ["`tfjob_serving_resident_memory_bytes`", "", "gauge", "RAM that the server uses"],
    ["`tfjob_serving_version_state`", "model_name, version, state", "gauge", "1 for the state of each version"],
]


def page(describe: Describe, table: Table) -> str:
    types = get_type_hints(ServerConfig)
    flags = [
        [f"`--{one.name}`", types[one.name].__name__, _default(one.default), one.metadata["description"]]
        for one in dataclasses.fields(ServerConfig)
    ]
    codes = [[f"`{code.name}`", str(code.number), str(code.http)] for code in Code]
    counters = [
        [f"`{family.name}`", ", ".join(family.labels), family.kind, describe(METRICS, attribute)]
        for attribute, family in vars(metrics.Metrics()).items()
        if hasattr(family, "kind")
    ]
    return (
        f"{INTRODUCTION}\n## Flags\n\n"
        + table(["flag", "type", "default", ""], flags)
        + f"\nThe server accepts these flags, but they have no effect: {_listed(IGNORED)}.\n"
        + f"\nThe server rejects these flags, unless their value turns the feature off: {_listed(UNSUPPORTED)}.\n"
        + "\n## REST\n\n`M` is the name of a model. `M/versions/V` and, below `/v1`, `M/labels/L` name one of its"
        + f" versions. The body of a request has at most {LARGEST_BODY >> 20} MiB and may be compressed with gzip."
        + ' An error is `{"error": "..."}`.\n\n'
        + table(["route", "reply"], [[f"`{route}`", text] for route, text in ROUTES.items()])
        + "\n## Status codes\n\n"
        + table(["code", "gRPC", "HTTP"], codes)
        + "\n## Metrics\n\n"
        + table(["metric", "labels", "type", ""], [*counters, *GAUGES])
    )


def _default(value: object) -> str:
    return f"`{str(value).lower()}`" if value != "" else ""


def _listed(names: dict[str, type]) -> str:
    return ", ".join(f"`--{name}`" for name in names)

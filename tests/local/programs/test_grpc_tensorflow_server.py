"""The program of the default parameter server, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.golden import check_golden
from support.running import ending
from tfjob.plan.build.parameter_server import program

GOLDEN = Path(__file__).parents[2] / "support" / "data" / "plan" / "golden"


WRONG: list[tuple[list[str], str, str]] = [
    ([], "", "--cluster_spec"),
    ([], "{", "JSONDecodeError"),
    ([], '{"cluster": {}}', "'task'"),
    ([], '{"cluster": {"ps": ["a"]}, "task": {"type": "ps", "index": 0}}', "'a'"),
    ([], '{"cluster": {"ps": ["a:1"]}, "task": {"type": "x", "index": 0}}', "'x'"),
    ([], '{"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": -1}}', "-1"),
    ([], '{"cluster": {"ps": {"1": "a:1"}}, "task": {"type": "ps", "index": 0}}', "index 0"),
    (["--job_name", "ps"], "", "--cluster_spec"),
    (["--cluster_spec", "ps|a:1"], "", "--job_name"),
    (["--cluster_spec", "ps", "--job_name", "ps"], "", "TYPE|HOST:PORT;HOST:PORT"),
    (["--cluster_spec", "ps|a:1|b:1", "--job_name", "ps"], "", "TYPE|HOST:PORT"),
    (["--cluster_spec", "ps|a:1;", "--job_name", "ps"], "", "''"),
    (["--cluster_spec", "ps|a:1,ps|b:1", "--job_name", "ps"], "", "twice"),
    (["--cluster_spec", "ps|a:1", "--job_name", "ps", "--task_id", "1"], "", "index 1"),
    (["--cluster_spec", "ps|a:1", "--job_name", "ps", "--task_id", "x"], "", "--task_id"),
    (["--gpu_memory_fraction", "2"], "", "--gpu_memory_fraction"),
    (["--verbose", "maybe"], "", "'maybe'"),
]


@pytest.fixture(scope="module")
def ended() -> list[subprocess.CompletedProcess[str]]:
    """Every case of WRONG, run once."""
    return [
        subprocess.run(
            [sys.executable, "-", *words],
            input=program(),
            env={"TF_CONFIG": tf_config},
            capture_output=True,
            text=True,
            check=False,
        )
        for words, tf_config, _ in WRONG
    ]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_the_program_says_in_one_line_what_is_wrong(ended: list[subprocess.CompletedProcess[str]], case: int) -> None:
    assert ended[case].returncode == 2
    (line,) = ended[case].stderr.splitlines()
    assert line.startswith("grpc_tensorflow_server.py: ")
    assert WRONG[case][2] in line


def test_every_error_of_the_program_has_its_golden_text(ended: list[subprocess.CompletedProcess[str]]) -> None:
    cases = (f"{words} TF_CONFIG={tf_config}" for words, tf_config, _ in WRONG)
    text = "\n".join(f"{case}\n{done.stderr}" for case, done in zip(cases, ended, strict=True))
    check_golden(GOLDEN / "parameter-server-program.txt", text)


OF_TENSORFLOW = """
class ConfigProto:
    class gpu_options:
        per_process_gpu_memory_fraction = 0

class Server:
    target = "grpc://here"
    def __init__(self, spec, job_name, task_index, protocol, config, start):
        print(spec, job_name, task_index, config.gpu_options.per_process_gpu_memory_fraction)

class train:
    ClusterSpec = dict
"""
SHAPES = {
    1: f"{OF_TENSORFLOW}train.Server = Server",
    2: f"{OF_TENSORFLOW}class compat: v1 = type('v1', (), dict(ConfigProto=ConfigProto))\ndel ConfigProto\n"
    "class distribute: Server = Server",
}
"""The names that the program uses, where each version has them; with the real one it takes part in trainings."""


@pytest.mark.parametrize("version", SHAPES)
@pytest.mark.parametrize(
    ("words", "tf_config", "started"),
    [
        (
            ["--cluster_spec", "ps|a:1;b:2,worker|c:3", "--job_name", "ps", "--task_id", "1", "--verbose"],
            '{"task": {"type": "worker", "index": 7}}',
            [
                "cluster: {'ps': ['a:1', 'b:2'], 'worker': ['c:3']}",
                "{'ps': ['a:1', 'b:2'], 'worker': ['c:3']} ps 1 0",
                "ps 1 is serving at grpc://here",
            ],
        ),
        (
            ["--gpu_memory_fraction", "0.5"],
            '{"cluster": {"ps": ["a:1"], "worker": {}}, "task": {"type": "ps", "index": 3}, "environment": "cloud"}',
            ["{'ps': {3: 'a:1'}} ps 3 0.5", "ps 3 is serving at grpc://here"],
        ),
    ],
    ids=["flags before TF_CONFIG", "TF_CONFIG of dynamic workers"],
)
def test_the_program_serves_until_sigterm_and_then_ends_at_once(
    tmp_path: Path, version: int, words: list[str], tf_config: str, started: list[str]
) -> None:
    (tmp_path / "tensorflow.py").write_text(SHAPES[version])
    (tmp_path / "server.py").write_text(program())
    starting = subprocess.Popen(
        [sys.executable, tmp_path / "server.py", *words],
        env={"TF_CONFIG": tf_config, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with ending(starting) as server:
        assert server.stdout is not None
        lines = [server.stdout.readline().rstrip() for _ in started]
        server.terminate()
        assert server.wait(60) == 143
    assert [line.replace('"', "'") for line in lines] == started

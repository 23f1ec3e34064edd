from __future__ import annotations

from typing import Any

import pytest

from support.golden import Wording
from tfjob.local.warm.policy import Cold, Program, Start, judge, read_at_import, refuse_setting

PYTHON = "/venv/bin/python"


def start(*argv: str, env: dict[str, str] | None = None, **changes: Any) -> Start:
    return Start(argv=list(argv), env={"PYTHONUNBUFFERED": "1", **(env or {})}, **{"program": PYTHON, **changes})


@pytest.mark.parametrize(
    ("asked", "program"),
    [
        (start("python", "train.py"), Program(1)),
        (start("python", "train.py", "--steps", "-c"), Program(1)),
        (start("python3", "/app/train.py"), Program(1)),
        (start("/venv/bin/python3.12", "train.py"), Program(1)),
        (start("python", "-u", "train.py"), Program(2)),
        (start("python", "-m", "team.train", "-m"), Program(2, module=True)),
        (start("python", "-u", "-m", "team.train"), Program(3, module=True)),
        (start("python", "train.py", env={"TF_CONFIG": "{}", "PYTHONPATH": "/app"}), Program(1)),
    ],
)
def test_a_python_program_may_be_forked(asked: Start, program: Program) -> None:
    assert judge(asked) == program


@pytest.mark.parametrize(
    ("asked", "keyword"),
    [
        (start("sh", "-c", "python train.py"), "sh"),
        (start("python-config", "train.py"), "python-config"),
        (start(), "command"),
        (start("python", "train.py", program=""), "python"),
        (start("python"), "python"),
        (start("python", "-u"), "python"),
        (start("python", "-"), "-"),
        (start("python", "-c", "pass"), "-c"),
        (start("python", "-O", "train.py"), "-O"),
        (start("python", "-X", "dev", "train.py"), "-X"),
        (start("python", "-Werror", "train.py"), "-Werror"),
        (start("python", "-u", "train.py", env={"PYTHONUNBUFFERED": ""}), "-u"),
        (start("python", "-m"), "-m"),
        (start("python", "trainer"), "trainer"),
        (start("python", "trainer.zip"), "trainer.zip"),
        (start("python", "train.py", env={"PYTHONINSPECT": "1"}), "PYTHONINSPECT"),
        (start("python", "train.py", env={"PYTHONSAFEPATH": "1"}), "PYTHONSAFEPATH"),
        (start("python", "train.py", containers=2), "container"),
        (start("python", "train.py", gpus=True), "GPU"),
        (
            start("python", "train.py", memory_limit=True),
            "memory",
        ),
        (
            start("python", "train.py", linux=False),
            "Linux",
        ),
    ],
)
def test_what_is_not_known_to_be_the_same_starts_cold(asked: Start, keyword: str, wording: Wording) -> None:
    found = judge(asked)
    assert isinstance(found, Cold)
    assert keyword in found.reason
    wording(found.reason)


@pytest.mark.parametrize(
    ("name", "matters"),
    [
        ("TF_USE_LEGACY_KERAS", True),
        ("TF_ENABLE_ONEDNN_OPTS", True),
        ("KERAS_BACKEND", True),
        ("OMP_NUM_THREADS", True),
        ("LD_PRELOAD", True),
        ("PYTHONPATH", True),
        ("HOME", True),
        ("LC_ALL", True),
        ("TF_CONFIG", False),
        ("CUDA_VISIBLE_DEVICES", False),
        ("TF_NUM_INTRAOP_THREADS", False),
        ("BATCH_SIZE", False),
        ("HOSTNAME", False),
        ("PATH", False),
    ],
)
def test_a_fork_needs_a_process_born_with_the_variables_that_an_import_reads(name: str, matters: bool) -> None:
    assert read_at_import({name: "1"}) == ({name: "1"} if matters else {})


@pytest.mark.parametrize(
    ("names", "late"),
    [
        (["BATCH_SIZE", "TF_USE_LEGACY_KERAS", "OMP_NUM_THREADS"], "TF_USE_LEGACY_KERAS"),
        (["OMP_NUM_THREADS"], "OMP_NUM_THREADS"),
        (["TF_CONFIG", "CUDA_VISIBLE_DEVICES", "TF_CPP_MIN_LOG_LEVEL", "TMPDIR"], ""),
        ([], ""),
    ],
)
def test_a_program_that_sets_what_an_import_reads_starts_cold(names: list[str], late: str) -> None:
    reason = f"it sets {late}, which TensorFlow reads when it is imported"
    assert refuse_setting(names) == (Cold(reason) if late else None)

"""Tests that fail in the middle, with what the tests use to start processes: nothing of them is left."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.root]

ROOT = Path(__file__).parents[3]
FAILING = """
import socket
import subprocess

import pytest

from support.command_line import MANIFESTS
from support.local.pod_harness import FULL, at
from support.local.warm_pods import warm_pods
from support.operating import operating
from support.pseudo_terminal import PseudoTerminal
from support.running import Running, ending, workload_pid
from support.tmux import tmux

SLEEPER = str(MANIFESTS / "sleeper.yaml")


def fail():
    pytest.fail("in the middle")


def test_detached_run(cli):
    cli("submit", "sleeper.yaml")
    cli("wait", "sleeper", "--for", "running", "--timeout", "90s")
    fail()


def test_state_folder(tool, home):
    assert tool.tfjob(home, "submit", SLEEPER).returncode == 0
    workload_pid(home, "sleeper-worker-0")
    fail()


def test_shared_run(running):
    fail()


def test_attached_run(tool, tmp_path):
    with Running(tool, tmp_path / "home", SLEEPER) as run:
        run.wait_for("worker-0 | up")
        fail()


def test_attached_run_in_terminals(cli, tmp_path):
    command = [*cli.tool.command, "run", SLEEPER]
    env = cli.environment()
    with PseudoTerminal(command, env | {"TERM": "xterm"}, tmp_path), tmux(env, tmp_path, 80, 24) as other:
        other.type(" ".join([*command, "--name", "other"]))
        for name in ("sleeper", "other"):
            workload_pid(cli.home, f"{name}-worker-0")
        fail()


@at(FULL)
def test_pod(pods):
    pods.launch(pods.container("sh", "-c", "setsid sleep 600 & sleep 600")).until_running()
    fail()


@at(FULL)
def test_warm_pod(pods, tmp_path):
    with warm_pods(pods) as warm:
        (warm.home.path / "program.py").write_text("import time; time.sleep(600)")
        warm.launch("program.py", cwd=warm.home.path).until_running()
        fail()


def test_operator(tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        kubeconfig.write_text(KUBECONFIG % silent.getsockname()[1])
        with operating(kubeconfig, wait="tfjob operator"):
            fail()


def test_other_process():
    with ending(subprocess.Popen(["sleep", "600"])):
        fail()


KUBECONFIG = '''
apiVersion: v1
kind: Config
current-context: nowhere
contexts: [{name: nowhere, context: {cluster: nowhere, user: me}}]
clusters: [{name: nowhere, cluster: {server: "http://127.0.0.1:%d"}}]
users: [{name: me, user: {token: secret}}]
'''
"""


def test_tests_that_fail_in_the_middle_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_failing.py").write_text(FAILING)
    plugins = ["-p", "conftest", "-p", "local.conftest", "-p", "local.cli.conftest"]
    pytest_call = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), *plugins, "test_failing.py"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "leftovers.py"), "guard", *pytest_call],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environ | {"COLUMNS": "200", "PYTHONPATH": f"{ROOT / 'tests'}:{ROOT}"},
        timeout=280,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    failed = set(re.findall(r"^FAILED .*::(\w+)\S* - Failed: in the middle$", done.stdout, re.MULTILINE))
    assert failed == set(re.findall(r"^def (test_\w+)", FAILING, re.MULTILINE)), done.stdout
    assert done.stdout.endswith("leftovers: 0\n"), done.stdout

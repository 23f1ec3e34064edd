"""A command whose extra is missing prints the command that installs it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from support.command_line import GOLDEN
from support.golden import check_golden
from tfjob.cli import exit_codes

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
IMPORTED = {package.replace("-", "_"): module for module, package in exit_codes.DISTRIBUTIONS.items()}
"""The modules of packages with other names."""
COMMAND = """
import sys
sys.modules.update(dict.fromkeys({blocked!r}))
from tfjob.cli import exit_codes

def command(**_):
    {body}

exit_codes.guarded(command)
"""


@pytest.mark.parametrize(
    ("blocked", "body", "extra"),
    [
        ("aiohttp", "import aiohttp.web", "kube"),
        ("prometheus_client", "import prometheus_client", "operator"),
        ("aiohttp", "with exit_codes.needs('operator'): import aiohttp", "operator"),
        ("google", "with exit_codes.needs('serve'): import google", "serve"),
    ],
)
def test_a_missing_module_of_an_extra_is_told_with_its_install_line(blocked: str, body: str, extra: str) -> None:
    done = run(COMMAND.format(blocked=[blocked], body=body))
    install = f"{sys.executable} -m pip install 'tfjob[{extra}]'"
    assert done.returncode == 2
    package = exit_codes.DISTRIBUTIONS.get(blocked, blocked)
    assert package in done.stderr
    assert install in done.stderr
    shown = done.stderr.replace(install, "INSTALL").replace(package, "MODULE")
    check_golden(GOLDEN / "missing-extra.txt", shown)


@pytest.mark.parametrize("body", ["import no_such_module", "with exit_codes.needs('kube'): import no_such_module"])
def test_any_other_missing_module_is_a_fault_of_ours(body: str) -> None:
    done = run(COMMAND.format(blocked=[], body=body))
    assert done.returncode == exit_codes.BUG
    assert "No module named 'no_such_module'" in done.stderr


def test_the_model_server_prints_what_it_lacks() -> None:
    program = "import runpy, sys; sys.modules['uvloop'] = None; runpy.run_module('tfjob.serve', run_name='__main__')"
    done = run(program)
    assert done.returncode == 1
    assert "uvloop is not installed" in done.stderr
    assert "'tfjob[serve,tensorflow]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_extra_of_the_package_is_known_with_all_that_it_brings() -> None:
    assert exit_codes.EXTRAS.keys() == PROJECT["optional-dependencies"].keys()
    for name, requirements in PROJECT["optional-dependencies"].items():
        brought = {requirement.split(">")[0].replace("-", "_") for requirement in requirements}
        assert {IMPORTED.get(one, one) for one in brought if not one.startswith("tfjob[")} - {"tensorflow_cpu"} == set(
            exit_codes.EXTRAS[name]
        )


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

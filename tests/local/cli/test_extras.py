"""A command that needs an extra which is not installed ends with the line that installs it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tfjob.cli import exit_codes

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
COMMAND = """
import sys
sys.modules.update(dict.fromkeys({blocked!r}))
from tfjob.cli import exit_codes

def command(**_):
    {body}

exit_codes.guarded(command)
"""


@pytest.mark.parametrize(
    ("blocked", "body", "code", "told"),
    [
        (
            ["aiohttp"],
            "import aiohttp.web",
            2,
            "error: this needs aiohttp, which is not installed\nInstall it: {kube}\n",
        ),
        (
            ["prometheus_client"],
            "import prometheus_client",
            2,
            "error: this needs prometheus_client, which is not installed\nInstall it: {operator}\n",
        ),
        (
            ["aiohttp"],
            "with exit_codes.needs('operator'): import aiohttp",
            2,
            "error: this needs aiohttp, which is not installed\nInstall it: {operator}\n",
        ),
    ],
)
def test_a_missing_module_of_an_extra_is_told_with_its_install_line(
    blocked: list[str], body: str, code: int, told: str
) -> None:
    lines = {name: f"{sys.executable} -m pip install 'tfjob[{name}]'" for name in exit_codes.EXTRAS}
    done = run(COMMAND.format(blocked=blocked, body=body))
    assert (done.returncode, done.stderr) == (code, told.format(**lines))


@pytest.mark.parametrize("body", ["import no_such_module", "with exit_codes.needs('kube'): import no_such_module"])
def test_any_other_missing_module_is_a_fault_of_ours(body: str) -> None:
    done = run(COMMAND.format(blocked=[], body=body))
    assert done.returncode == exit_codes.BUG
    assert "No module named 'no_such_module'" in done.stderr


def test_every_extra_of_the_package_is_known_with_all_that_it_brings() -> None:
    assert exit_codes.EXTRAS.keys() == PROJECT["optional-dependencies"].keys()
    for name, requirements in PROJECT["optional-dependencies"].items():
        brought = {requirement.split(">")[0].replace("-", "_") for requirement in requirements}
        assert {one for one in brought if not one.startswith("tfjob[")} - {"tensorflow_cpu"} == set(
            exit_codes.EXTRAS[name]
        )


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

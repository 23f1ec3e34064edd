"""The exit code of a command in a container."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tfjob.kube.jobs.exec import ExecFailed, exit_code


def ended(code: str) -> dict[str, Any]:
    causes = [{"reason": "ExitCode", "message": code}]
    return {
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: {code}",
        "details": {"causes": causes},
    }


def failed(message: str) -> dict[str, Any]:
    return {"status": "Failure", "message": message, "code": 500}


NO_PROGRAM = 'error executing: OCI runtime exec failed: exec: "nosuch": executable file not found in $PATH: unknown'


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ({"metadata": {}, "status": "Success"}, 0),
        (ended("7"), 7),
        (ended("137"), 137),
        (failed(NO_PROGRAM), 127),
        (failed('exec: "/etc/passwd": permission denied: unknown'), 126),
    ],
)
def test_the_exit_code_of_the_command_is_returned(
    status: dict[str, Any], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(json.dumps(status).encode()) == code
    said = capsys.readouterr().err
    assert ("tfjob: exec: " in said) is (code in (126, 127))
    assert "OCI" not in said


def test_a_command_that_could_not_be_run_is_an_error() -> None:
    with pytest.raises(ExecFailed, match="container not found"):
        exit_code(json.dumps(failed("container not found")).encode())

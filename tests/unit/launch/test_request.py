"""The folder to which a job belongs, and the printed form of a manifest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfjob.api.objects import LAST_APPLIED
from tfjob.launch.request import Request, ScriptRequest, hidden_secret, source_folder

REQUESTS = {
    "a script": (Request("one/train.py"), "one"),
    "a script elsewhere": (Request("../other/train.py"), "../other"),
    "a manifest": (Request("one/job.yaml"), "one"),
    "stdin": (Request("-"), "."),
    "a module": (Request("", script=ScriptRequest(module="one.train")), "one"),
    "a module, with arguments": (Request("data", script=ScriptRequest(module="one.train")), "one"),
    "a package": (Request("", script=ScriptRequest(module="one")), "."),
    "the main module of a package": (Request("", script=ScriptRequest(module="one.__main__")), "."),
    "an installed module": (Request("", script=ScriptRequest(module="json.tool")), "."),
    "a command with a module": (Request("", script=ScriptRequest(arguments=["python", "-m", "two.train"])), "two"),
    "a command with a file": (Request("", script=ScriptRequest(arguments=["bash", "two/train.sh", "x"])), "two"),
    "a command with a file elsewhere": (Request("", script=ScriptRequest(arguments=["sh", "/usr/bin/x.sh"])), "."),
    "another command": (Request("", script=ScriptRequest(arguments=["make", "one/train"])), "."),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_a_job_belongs_to_the_folder_of_its_program(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two programs named `train` in two folders have different jobs and checkpoints, also as modules."""
    for name in ("project/one", "project/two", "other"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    request, folder = REQUESTS[case]
    assert source_folder(request) == (tmp_path / "project" / folder).resolve()


def test_a_secret_is_shown_with_its_keys_and_without_what_they_hold() -> None:
    """Also in the annotation of `kubectl apply`."""
    noted = '{"kind":"Secret","stringData":{"password":"open sesame"}}'
    secret = {
        "kind": "Secret",
        "metadata": {"name": "login", "annotations": {LAST_APPLIED: noted, "team": "vision"}},
        "data": {"token": "b3BlbiBzZXNhbWU="},
        "stringData": {"password": "open sesame"},
    }

    shown = hidden_secret(secret)

    assert shown["metadata"] == {"name": "login", "annotations": {LAST_APPLIED: "(secret)", "team": "vision"}}
    assert (shown["data"], shown["stringData"]) == ({"token": "(secret)"}, {"password": "(secret)"})

"""What of the calling shell reaches a replica: the variables that the reference names, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from support.conformance.manifests import tfjob
from support.installed import Installed
from support.local.warm_pods import end_fork_servers, standin_python
from tfjob.local.sandbox.processes import MARK
from tfjob.plan.build.job_storage import CHECKPOINTS, OUTPUT, SCRATCH

pytestmark = pytest.mark.faults

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "configuration.md"

GOES = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "no_proxy": "localhost", "NO_PROXY": "localhost", "CUDA_CACHE_PATH": "/c"}
STAYS = {
    **dict.fromkeys(("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "LD_LIBRARY_PATH", "USER"), "canary"),
    **dict.fromkeys(("TF_CONFIG", "TF_CPP_MIN_LOG_LEVEL", "KUBECONFIG", "VIRTUAL_ENV", "CUDA", "TFJOB_ODD"), "canary"),
}
OWN = {"HOSTNAME", "PYTHONUNBUFFERED", "TF_CONFIG", MARK, CHECKPOINTS, OUTPUT, SCRATCH, "DECLARED"}
"""What a replica gets from elsewhere: the pod's, the job's and the manifest's."""

PROGRAM = """
import json, os
born = open('/proc/self/environ', errors='replace').read().split(chr(0))
print('found', json.dumps([dict(os.environ), [one.partition('=')[0] for one in born if '=' in one]]))
print('canary', 'canary' in ''.join(born))
"""


def documented() -> tuple[set[str], tuple[str, ...]]:
    """Return the variables that, by the reference, a replica gets from the shell, and prefixes of such names."""
    (line,) = [line for line in REFERENCE.read_text().splitlines() if line.startswith("A replica inherits ")]
    names = re.findall(r"`([\w*]+)`", line.partition(" from your shell")[0])
    plain = {name for name in names if not name.endswith("*")}
    return plain | {name.upper() for name in plain}, tuple(name[:-1] for name in names if name.endswith("*"))


@pytest.mark.parametrize("way", ["--cold", "--warm"])
def test_nothing_reaches_a_replica_but_what_is_documented(tool: Installed, tmp_path: Path, way: str) -> None:
    home, python = tmp_path / "home", standin_python(tmp_path / "venv")
    container = {
        "name": "tensorflow",
        "image": "standin:1",
        "command": ["python", "look.py"],
        "env": [{"name": "DECLARED", "value": "yes"}],
    }
    (tmp_path / "look.py").write_text(PROGRAM)
    job = tfjob("look", {"Worker": {"template": {"spec": {"containers": [container]}}}})
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    shell = Installed(tool.command, {**tool.env, **GOES, **STAYS})
    try:
        done = shell.tfjob(home, "run", str(tmp_path / "job.yaml"), way, "--python", str(python), "--no-limits")
    finally:
        end_fork_servers(home)
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line.partition(" | ")[2] for line in done.stdout.splitlines() if " | " in line]
    assert "canary False" in said
    (found,) = [json.loads(line.removeprefix("found ")) for line in said if line.startswith("found ")]
    variables, born = found
    names, beginnings = documented()
    others = {*variables, *born} - names - OWN
    assert {name for name in others if not name.startswith(beginnings)} == set()
    assert GOES.items() <= variables.items()
    assert "canary" not in json.dumps(variables)

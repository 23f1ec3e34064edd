"""Programs and scripts that are not on this machine: a warning before the start, and no false alarm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.golden import Wording
from tfjob.api.types import ReplicaSpec, TFJob, TFJobSpec
from tfjob.local.admission import absent_programs
from tfjob.local.admission.admission import Host
from tfjob.local.inputs.references import Node
from tfjob.local.state.config import Config, ImageEntry

PATH = {"PATH": "/usr/bin:/bin"}


def found(project: Path, config: Config | None = None, **container: Any) -> list[tuple[str, str]]:
    (project / "hello.py").touch()
    (project / "run.sh").touch(0o755)
    spec = {"containers": [{"name": "tensorflow", "image": "x", **container}]}
    job = TFJob(spec=TFJobSpec(tf_replica_specs={"Worker": ReplicaSpec(replicas=1, template={"spec": spec})}))
    host = Host(config=config or Config(), project=project, node=Node("laptop", cpus=1, memory=1), environ=PATH)
    warnings = absent_programs.problems(job, host)
    assert all(one.warning for one in warnings)
    assert all("docs/guides/images.md" in one.hint for one in warnings)
    return [
        (one.path.rpartition("containers[0].")[2], f"{one.message}; {one.hint}".replace(str(project), "PROJECT"))
        for one in warnings
    ]


@pytest.mark.parametrize(
    ("container", "path", "keyword"),
    [
        ({"command": ["pyhton", "hello.py"]}, "command[0]", "pyhton"),
        ({"command": ["./rnu.sh"]}, "command[0]", "./rnu.sh"),
        ({"command": ["/opt/no/train"]}, "command[0]", "/opt/no/train"),
        ({"command": ["python", "helo.py"]}, "command[1]", "PROJECT/helo.py"),
        (
            {"command": ["python3", "-u", "-W", "error", "a.py"]},
            "command[4]",
            "PROJECT/a.py",
        ),
        ({"command": ["python"], "args": ["-B", "a.py"]}, "args[1]", "PROJECT/a.py"),
        (
            {"command": ["python", "/opt/no/train.py"], "volumeMounts": [{"mountPath": "/opt/non"}]},
            "command[1]",
            "/opt/no/train.py",
        ),
        (
            {"command": ["python", "train.py"], "workingDir": "/opt/no"},
            "workingDir",
            "/opt/no",
        ),
        (
            {"command": ["sh", "-c", "true"], "env": [{"name": "PATH", "value": "/opt/no"}]},
            "command[0]",
            "sh",
        ),
    ],
)
def test_what_is_not_on_this_machine_is_told(
    tmp_path: Path, container: dict[str, Any], path: str, keyword: str, wording: Wording
) -> None:
    ((where, told),) = found(tmp_path, **container)
    assert where == path
    assert keyword in told
    wording(told)


@pytest.mark.parametrize(
    "container",
    [
        {"command": ["python", "hello.py", "nothing.py"]},
        {"command": ["python"], "args": ["-u", "hello.py"]},
        {"command": ["./run.sh"]},
        {"command": ["python", "-m", "nothing"]},
        {"command": ["python", "-um", "nothing"]},
        {"command": ["python", "-c", "nothing"]},
        {"command": ["python", "-Xdev", "-Werror", "hello.py"]},
        {"command": ["python", "-"]},
        {"command": ["python", "--version"]},
        {"command": ["python"]},
        {"command": ["python", "$(SCRIPT)"]},
        {"command": ["$(PROGRAM)"]},
        {"command": ["sh", "-c", "pyhton helo.py"]},
        {"command": ["python", "train.py"], "workingDir": "/code", "volumeMounts": [{"mountPath": "/code"}]},
        {"command": ["python", "/code/train.py"], "volumeMounts": [{"mountPath": "/code/"}]},
        {"command": ["python", "/code/train.py"], "volumeMounts": [{"mountPath": "/code/train.py"}]},
        {"command": ["/code/bin/train"], "volumeMounts": [{"mountPath": "/code"}]},
        {
            "command": ["train"],
            "env": [{"name": "PATH", "value": "/code/bin"}],
            "volumeMounts": [{"mountPath": "/code"}],
        },
        {"command": ["train"], "envFrom": [{"configMapRef": {"name": "may-say-path"}}]},
        {"command": ["train"], "env": [{"name": "PATH", "valueFrom": {"configMapKeyRef": {}}}]},
    ],
)
def test_what_is_there_or_cannot_be_known_beforehand_is_not_told(tmp_path: Path, container: dict[str, Any]) -> None:
    assert found(tmp_path, **container) == []


def test_the_words_of_an_image_s_entry_are_looked_for_too(tmp_path: Path, wording: Wording) -> None:
    entry = ImageEntry(name="x", file=tmp_path / "tfjob.toml", command=("python", "main.py"))
    ((where, told),) = found(tmp_path, Config(images={"x": entry}), args=["--epochs", "3"])
    assert (where, "PROJECT/main.py" in told) == ("image", True)
    wording(told)

"""Where the 2017 TfJob may be special: in its dialect, its kind, its storage, and where versions are served."""

from __future__ import annotations

import re
from pathlib import Path

import tfjob

SPECIAL = re.compile(r"\b(TENSORFLOW|TF_JOBS?|TF_JOB_\w+|TfJobKind|TensorFlowOrgStorage|is_tensorflow_org)\b|\"TfJob\"")
HERE = (
    "api/dialect.py",
    "api/versions/",
    "api/crd/older.py",
    "plan/kind.py",
    "kinds.py",
    "kube/cluster/tensorflow_org.py",
)
"""What describes it."""
SERVED = ("operator/", "cli/commands/operator.py")
"""What installs, serves and tests API groups by their names."""
OTHER_WORDS = {
    "local/warm/start.py": "TENSORFLOW",
    "local/warm/source_scan.py": "TENSORFLOW",
    "plan/policy/restarts.py": "TF_JOB_TABLE",
    "jobs/output.py": "TF_JOB_TABLE",
    "plan/build/tensorboard.py": "TF_JOB_NAME_LABEL",
    "launch/cluster.py": "TensorFlowOrgStorage",
    "serve/config_files.py": "TENSORFLOW",
    "serve/server.py": "TENSORFLOW",
}
"""The library TensorFlow, the table for `tfjob explain`, a label that TensorBoards of every version have, and how a dry
run wraps pods."""


def test_only_these_modules_know_the_tf_job_of_2017() -> None:
    root = Path(tfjob.__file__).parent
    found = {}
    for file in sorted(root.rglob("*.py")):
        name = str(file.relative_to(root))
        words = {match[0] for match in SPECIAL.finditer(file.read_text())} - {OTHER_WORDS.get(name, "")}
        if words and not name.startswith((*HERE, *SERVED)):
            found[name] = words
    assert found == {}

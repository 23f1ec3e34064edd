"""The Keras layer of a replica: the environment variables that load it, and the file that it writes when it is used.

The layer (`programs/keras_layer`) makes Keras 3 train under MultiWorkerMirroredStrategy. A cold start imports it
through PYTHONPATH; a warm start loads it after the fork (`warm/program`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

FOLDER = str(Path(__file__).parents[2] / "programs" / "keras_layer")
SWITCH = "TFJOB_KERAS_LAYER"
REPORT = "TFJOB_KERAS_REPORT"
TO_LOG = "log"
"""The value of REPORT with which the layer reports its use in the log, in pods of a cluster."""
REPORT_FILE = "keras-layer"
"""In the folder of a pod."""
_VERSION = re.compile(r"[\w.]{1,30}")


def with_layer(env: Mapping[str, str], pod_folder: Path) -> dict[str, str]:
    """Return the variables of a container, with the layer if it trains together with other workers."""
    if env.get(SWITCH) == "0" or not _has_peers(env.get("TF_CONFIG", "")):
        return dict(env)
    places = [FOLDER, *filter(None, [env.get("PYTHONPATH")])]
    return {**env, "PYTHONPATH": os.pathsep.join(places), REPORT: str(pod_folder / REPORT_FILE)}


def without_layer(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without the layer: those that decide which fork server a warm start uses."""
    first, _, others = env.get("PYTHONPATH", "").partition(os.pathsep)
    if first != FOLDER:
        return dict(env)
    rest = {name: value for name, value in env.items() if name not in ("PYTHONPATH", REPORT)}
    return {**rest, "PYTHONPATH": others} if others else rest


def reported_version(pod_folder: Path) -> str:
    """Return the version of Keras that a replica uses with the layer; empty if it has not reported one yet."""
    try:
        text = (pod_folder / REPORT_FILE).read_text(errors="replace")
    except OSError:
        return ""
    # The file is empty while the replica is writing it.
    return text if _VERSION.fullmatch(text) else ""


def _has_peers(tf_config: str) -> bool:
    """Return whether TF_CONFIG describes several workers without parameter servers."""
    try:
        cluster = json.loads(tf_config)["cluster"]
        return "ps" not in cluster and sum(len(cluster.get(kind, ())) for kind in ("chief", "master", "worker")) > 1
    except (ValueError, KeyError, TypeError, AttributeError):
        return False

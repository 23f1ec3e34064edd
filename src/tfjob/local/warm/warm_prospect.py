"""Whether the programs of a project can start warm, as far as can be seen without a fork server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tfjob.local.inputs.images import chosen_interpreter
from tfjob.local.sandbox.probe import Capability
from tfjob.local.state import config
from tfjob.local.state.errors import Refusal
from tfjob.local.warm import policy
from tfjob.local.warm.pool import OLDEST_PYTHON

_TOO_OLD, _NO_TENSORFLOW = 3, 4
START_SECONDS = 10.0
_PROGRAM = f"""import importlib.util, sys
sys.path = [place for place in sys.path if place]
if sys.version_info < {OLDEST_PYTHON}: sys.exit({_TOO_OLD})
if importlib.util.find_spec("tensorflow") is None: sys.exit({_NO_TENSORFLOW})"""


def prospect(project: Path, environ: Mapping[str, str]) -> Capability:
    """For the interpreter that jobs of this folder get; whether importing TensorFlow goes well is not tried."""
    if sys.platform != "linux":
        return Capability("warm starts", policy.ONLY_LINUX)
    try:
        if config.load(project, environ).warm is False:
            return Capability("warm starts", "warm = false in the configuration", "For one run: --warm.")
        python = chosen_interpreter(None, project)
        done = subprocess.run(
            [python, "-c", _PROGRAM], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=START_SECONDS
        )
    except (Refusal, OSError) as error:
        return Capability("warm starts", str(error))
    except subprocess.TimeoutExpired:
        return Capability("warm starts", f"{python} does not start within {START_SECONDS:.0f} s")
    problem = {
        0: "",
        _TOO_OLD: f"{python} is older than {'.'.join(map(str, OLDEST_PYTHON))}",
        _NO_TENSORFLOW: f"{python} has no TensorFlow",
    }
    text = problem.get(done.returncode, f"{python} does not start")
    return Capability("warm starts", text, "Jobs that use another interpreter may (--python)." if text else "")

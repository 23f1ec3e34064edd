"""What a base install lacks: a module of an extra that is missing is told with the line that installs it.

Every command may import such modules where it needs them; `outcome` turns a failure into that line. A command whose
whole purpose is an extra says so with `needs`, so that it asks for all of it at once:

    with extras.needs("operator"):
        from tfjob.operator.process.manager import run
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tfjob.cli import exit_codes

EXTRAS = {
    "tensorflow": ("tensorflow",),
    "tensorboard": ("tensorboard",),
    "kube": ("aiohttp",),
    "operator": ("cryptography", "prometheus_client", "uvloop"),
}
"""The modules that each extra of the package brings, by the names they are imported under."""


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Ends the command with the install line of `extra` if a module of any extra is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        stop = missing(error, extra)
        if stop is None:
            raise
        raise stop from None


def missing(error: ModuleNotFoundError, extra: str = "") -> exit_codes.Stop | None:
    """What to say of a missing module; None if no extra brings it, so that the fault is ours."""
    module = (error.name or "").partition(".")[0]
    found = next((name for name, modules in EXTRAS.items() if module in modules), None)
    if found is None:
        return None
    line = f"{sys.executable} -m pip install 'tfjob[{extra or found}]'"
    return exit_codes.Stop(exit_codes.BAD_INPUT, f"this needs {module}, which is not installed", f"Install it: {line}")

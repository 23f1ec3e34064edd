"""`kubectl proxy` as a test needs it: at a port of its own, for a while."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from devcluster.client import Client


@contextmanager
def kubectl_proxy(client: Client) -> Iterator[str]:
    """Where `kubectl proxy` listens."""
    process = subprocess.Popen(
        ["kubectl", "proxy", "--port=0"], env=client.environment(), stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        found = re.search(r"127\.0\.0\.1:\d+", process.stdout.readline())
        assert found is not None
        yield f"http://{found[0]}"
    finally:
        process.terminate()
        process.communicate()

"""Every pod that a namespace ever had, kept by a kubectl that watches: what a list at the end cannot tell."""

from __future__ import annotations

import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from devcluster.client import Client
from running import wait_until

FIRST = "history-begins"
COLUMNS = r'{.type} {.object.metadata.name} {.object.metadata.uid}{"\n"}'


class PodHistory:
    """The uids that each name has had, in the order in which they came."""

    def __init__(self) -> None:
        self.uids: dict[str, list[str]] = defaultdict(list)

    def counts(self, job: str) -> dict[str, int]:
        """How many pods each task of a job has had."""
        prefix = f"{job}-"
        return {name.removeprefix(prefix): len(uids) for name, uids in self.uids.items() if name.startswith(prefix)}

    def add(self, line: str) -> None:
        """Takes an event of the watch."""
        kind, name, uid = line.split()
        if kind == "ADDED":
            self.uids[name].append(uid)


@contextmanager
def pod_history(cluster: Client, namespace: str) -> Iterator[PodHistory]:
    """Keeps the history of a namespace for the time of a block."""
    words = ["get", "pods", "-n", namespace, "--watch", "--output-watch-events", f"-o=jsonpath={COLUMNS}"]
    watch = subprocess.Popen(
        [str(cluster.programs / "kubectl"), *words], env=cluster.environment(), stdout=subprocess.PIPE, text=True
    )
    history = PodHistory()

    def read() -> None:
        assert watch.stdout is not None
        with watch.stdout as lines:
            for line in lines:
                history.add(line)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        cluster.kubectl("run", FIRST, "-n", namespace, "--image=none")
        wait_until(lambda: FIRST in history.uids, 60)
        cluster.kubectl("delete", "pod", FIRST, "-n", namespace, "--now")
        yield history
        assert watch.poll() is None, "the watch ended, so the history has a gap"
    finally:
        watch.kill()
        watch.wait()
        reader.join()

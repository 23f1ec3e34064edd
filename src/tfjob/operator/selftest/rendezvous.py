"""A program that replaces a training: the tasks of a job connect to each other at the addresses in TF_CONFIG.

    python -m tfjob.operator.selftest.rendezvous

Every task listens on its port. The chief exits when it has reached all other tasks; they run until they are stopped.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, NoReturn

CHIEFS = ("chief", "master")
CONNECT_SECONDS, PAUSE_SECONDS = 2.0, 0.2


def main(environ: Mapping[str, str] = os.environ) -> int:
    # The first process of a container ignores signals without a handler.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
    config = json.loads(environ["TF_CONFIG"])
    cluster: dict[str, list[str]] = config["cluster"]
    task: dict[str, Any] = config["task"]
    print(f"REPLICA_TYPE={task['type']},REPLICA_INDEX={task['index']}", flush=True)
    own = cluster[task["type"]][task["index"]]
    with socket.create_server(("", _port(own)), reuse_port=True) as server:
        if task["type"] not in CHIEFS:
            _welcome(server)
        threading.Thread(target=_welcome, args=(server,), daemon=True).start()
        for address in (one for addresses in cluster.values() for one in addresses if one != own):
            _reach(address)
            print(f"reached {address}", flush=True)
    return 0


def _welcome(server: socket.socket) -> NoReturn:
    while True:
        server.accept()[0].close()


def _reach(address: str) -> None:
    """Retry until the peer answers, or until the job's time limit ends this process."""
    while True:
        try:
            socket.create_connection((address.rpartition(":")[0], _port(address)), CONNECT_SECONDS).close()
        except OSError:
            time.sleep(PAUSE_SECONDS)
        else:
            return


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


if __name__ == "__main__":
    sys.exit(main())

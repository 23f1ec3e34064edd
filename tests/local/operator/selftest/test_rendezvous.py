"""The program of the self-test: its replicas meet."""

from __future__ import annotations

import json
import subprocess
import sys
from signal import SIGTERM

from support.ports import free_port
from support.running import ending


def test_the_chief_of_a_meeting_ends_when_it_has_reached_all_and_the_others_when_they_are_told() -> None:
    addresses = {kind: [f"127.0.0.1:{free_port()}"] for kind in ("master", "worker", "ps")}

    def start(kind: str) -> subprocess.Popen[str]:
        config = {"cluster": addresses, "task": {"type": kind, "index": 0}}
        command = [sys.executable, "-m", "tfjob.operator.selftest.rendezvous"]
        return subprocess.Popen(command, env={"TF_CONFIG": json.dumps(config)}, stdout=subprocess.PIPE, text=True)

    with ending(start("master")) as master, ending(start("worker")) as worker, ending(start("ps")) as server:
        said, _ = master.communicate(timeout=120)
        assert master.returncode == 0
        assert said.splitlines()[0] == "REPLICA_TYPE=master,REPLICA_INDEX=0"
        assert sorted(said.splitlines()[1:]) == sorted(f"reached {addresses[kind][0]}" for kind in ("worker", "ps"))
        for other in (worker, server):
            assert other.poll() is None
            other.send_signal(SIGTERM)
            other.communicate(timeout=120)
            assert other.returncode == 128 + SIGTERM

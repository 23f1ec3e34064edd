"""An operator in a process of its own, as a test starts, watches, stops and kills it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import yaml

from devcluster.client import Client
from support.ports import free_port
from support.room import Room, room
from support.running import wait_until
from tfjob.durations import VARIABLE

READY, LEADS, WAITS, LOST = "workers started", "lease acquired", "waiting for the lease", "lost the lease"
"""Messages of the log that tests wait for; their times count, so no metric can replace them."""
TOOL = ("-m", "tfjob")
Lengths = Mapping[str, float | Sequence[float]]


class OperatorProcess:
    """`tfjob operator run` with ports of its own; its log as it comes.

    `program` stands in for the tool, and `durations` are the lengths that it should have, in seconds.
    """

    def __init__(
        self, kubeconfig: Path, *words: str, program: Sequence[str] = TOOL, durations: Lengths | None = None
    ) -> None:
        self.health, self.metrics = free_port(), free_port()
        self.lines: list[str] = []
        ports = (
            f"--health-probe-bind-address=127.0.0.1:{self.health}",
            f"--metrics-bind-address=127.0.0.1:{self.metrics}",
        )
        # What is said last counts, so a test may set the ports itself.
        self.process = subprocess.Popen(
            [sys.executable, *program, "operator", "run", *ports, *words],
            env={
                "PATH": os.environ["PATH"],
                "LANG": "C.UTF-8",
                "KUBECONFIG": str(kubeconfig),
                "TFJOB_DEBUG": "1",
                **({VARIABLE: json.dumps(durations)} if durations else {}),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def log(self) -> list[dict[str, Any]]:
        """What it logged so far."""
        return [json.loads(line) for line in list(self.lines) if line.startswith("{")]

    def said(self, text: str) -> bool:
        """Whether a line contains `text`."""
        return any(text in line for line in list(self.lines))

    def wait_for(self, text: str = READY, timeout: float = 90) -> None:
        """Waits until a line contains `text`."""
        wait_until(
            lambda: self.said(text) or self.process.poll() is not None,
            timeout,
            lambda: f"no {text!r} in:\n" + "\n".join(self.lines),
        )
        if not self.said(text):
            self._reader.join(60)
        assert self.said(text), "\n".join(self.lines)

    def signal(self, number: Signals) -> None:
        """Sends it a signal."""
        self.process.send_signal(number)

    def end(self, number: Signals = SIGTERM, timeout: float = 60) -> int:
        """Asks it to end, or kills it, and returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.finish(timeout)

    def finish(self, timeout: float = 90) -> int:
        """Waits for its end and returns its exit code."""
        code = self.process.wait(timeout)
        self._reader.join(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def ask(self, path: str, port: int = 0) -> tuple[int, str]:
        """What its probes, or its metrics, answer: code and text."""
        try:
            with urlopen(f"http://127.0.0.1:{port or self.health}{path}", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def samples(self, name: str) -> list[tuple[dict[str, str], float]]:
        """The values of one of its metrics, each with its labels."""
        _, text = self.ask("/metrics", self.metrics)
        found = []
        for line in text.splitlines():
            head, _, value = line.rpartition(" ")
            found_name, _, labels = head.partition("{")
            if found_name == name:
                found.append((dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value)))
        return found

    def total(self, name: str, /, **labels: str) -> float:
        """The sum of a metric over all that have these labels."""
        return sum(value for found, value in self.samples(name) if found.items() >= labels.items())

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))


@contextmanager
def operating(
    kubeconfig: Path,
    *words: str,
    wait: str = READY,
    program: Sequence[str] = TOOL,
    durations: Lengths | None = None,
) -> Iterator[OperatorProcess]:
    """An operator at work; whatever becomes of it, it is gone afterwards."""
    operator = OperatorProcess(kubeconfig, *words, program=program, durations=durations)
    try:
        if wait:
            operator.wait_for(wait)
        yield operator
    finally:
        operator.end(SIGKILL)


@contextmanager
def operated_room(cluster: Client, *words: str) -> Iterator[Room]:
    """Yield a new namespace with an operator of its own."""
    namespace = cluster.namespace()
    with (
        room(cluster.kubeconfig, namespace) as found,
        operating(cluster.kubeconfig, f"--namespace={namespace}", *words),
    ):
        yield found
    cluster.delete_namespace(namespace)


def known_as(name: str, kubeconfig: Path, folder: Path) -> Path:
    """A kubeconfig for the same cluster whose user the audit log knows by another name."""
    config = yaml.safe_load(kubeconfig.read_text())
    for user in config["users"]:
        user["user"] |= {"as": name, "as-groups": ["system:masters"]}
    return _written(config, folder / f"{name}.kubeconfig")


def with_token(token: str, kubeconfig: Path, folder: Path, namespace: str = "") -> Path:
    """A kubeconfig for the same cluster with a token instead of a certificate."""
    config = yaml.safe_load(kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {"token": token}
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace or "default"
    return _written(config, folder / "token.kubeconfig")


def _written(config: dict[str, Any], file: Path) -> Path:
    file.write_text(yaml.safe_dump(config))
    return file

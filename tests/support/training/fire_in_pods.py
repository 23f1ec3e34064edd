"""Trainings under fire as pods: how they begin, on which nodes they are, and a disk of theirs that can be filled."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.client import Client
from support.installed import Installed
from support.room import Room
from support.training.fire import PROGRAM, Fire, documents
from support.training.fire_anywhere import Start
from support.training.pods import Training, training

Object = dict[str, Any]


@contextmanager
def trainings(tool: Installed, client: Client, team: Room, folder: Path, chance: random.Random) -> Iterator[Start]:
    """What starts a training of a shape; `change` may alter its documents before."""
    with ExitStack() as stack:

        def begin(
            shape: str, *options: str, change: Callable[[list[Object]], None] = lambda _: None, **more: Any
        ) -> Fire:
            written = documents(shape, folder / "fire", *options, **more)
            change(written)
            at_work = training(written, PROGRAM.parent, client, team, tool, folder)
            return Fire(stack.enter_context(at_work), folder / "fire", chance)

        yield begin


def pods(fire: Fire) -> Training:
    """The pods of a training."""
    assert isinstance(fire.place, Training)
    return fire.place


def pin(written: list[Object], nodes: Mapping[str, str]) -> None:
    """Has the tasks of each type on a node."""
    for kind, replicas in written[0]["spec"]["tfReplicaSpecs"].items():
        replicas["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": nodes[kind]}


@dataclass(frozen=True)
class Disk:
    """A small disk of a node, which the machine beside it does not see."""

    client: Client
    node: str
    folder: Path

    def fill(self) -> None:
        """Takes all room that it has."""
        self._shell(f"dd if=/dev/zero of={self._filler} bs=64k 2>/dev/null || true")

    def clear(self) -> None:
        """Gives the room back."""
        self._shell(f"rm {self._filler}")

    @property
    def _filler(self) -> Path:
        return self.folder / "filler"

    def _shell(self, line: str) -> None:
        self.client.node_command(self.node, "sh", "-c", line)


@contextmanager
def small_disk(client: Client, node: str, folder: Path, size: str = "2m") -> Iterator[Disk]:
    """A disk with room for a few checkpoints, on one node."""
    folder.mkdir()
    client.node_command(node, "mount", "--no-mtab", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    try:
        yield Disk(client, node, folder)
    finally:
        client.node_command(node, "umount", "--lazy", str(folder))  # pods that are about to go may still have it

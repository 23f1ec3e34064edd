"""Warm starts of one run: which of its pods are forked from a fork server, and why the others are not."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import msgspec

from tfjob.api.objects import Pod
from tfjob.local import gpus
from tfjob.local.assembly import Assembled, Machine
from tfjob.local.fork_servers import ForkServer, NotWarm
from tfjob.local.home import Home, write_whole
from tfjob.local.pod_spec import ContainerSpec
from tfjob.plan.warm import Cold, Start, judge, read_at_import

HOW = "tfjob/start"
"""Annotation of a pod: `warm`, or `cold: ` and the reason; none where nobody asked for warm starts."""
WARM, COLD = "warm", "cold: "


class WarmStart:
    """Starts the pods of a run, warm where that is sound."""

    def __init__(self, home: Home, machine: Machine) -> None:
        self._home = home
        self._idle = machine.config.warm_idle
        self._gpus = bool(gpus.found(machine.environ))
        self._servers: dict[tuple[str, tuple[tuple[str, str], ...]], ForkServer] = {}
        self._refused: dict[tuple[str, tuple[tuple[str, str], ...]], str] = {}
        self._distrust = ""

    def launch(self, folder: Path, ready: Assembled) -> str | None:
        """Starts a pod's supervisor by a fork, if it may: how the pod starts, as the annotation says it.

        Nothing was started if that is cold, or None because its fork server is not up yet.
        """
        try:
            server = self._server(ready)
            if server is None:
                return None
            write_whole(folder / "spec.json", msgspec.json.encode(ready.spec))
            server.launch(folder, msgspec.json.encode(ready.secrets))
        except NotWarm as error:
            return f"{COLD}{error}"
        return WARM

    def distrust(self, reason: str) -> None:
        """From now on every start of this run is cold."""
        self._distrust = self._distrust or reason

    @property
    def folders(self) -> list[Path]:
        """Where its fork servers tell that they are up."""
        return [server.folder for server in self._servers.values()]

    def close(self) -> None:
        """Lets go of the fork servers."""
        for server in self._servers.values():
            server.close()

    def _server(self, ready: Assembled) -> ForkServer | None:
        """The fork server for a pod once it can be asked; notes in the pod's spec what its fork becomes."""
        if self._distrust:
            raise NotWarm(f"of another replica: {self._distrust}")
        container = ready.spec["containers"][0]
        env = ready.secrets["env"][container["name"]]
        argv = container["argv"]  # as people may see it: the reason for a cold start names words of it
        program = _program(argv, container["cwd"], env)
        judged = judge(self._facts(ready, container, program))
        if isinstance(judged, Cold):
            raise NotWarm(judged.reason)
        whole = ready.secrets.get("argv", {}).get(container["name"], argv)
        if whole[: judged.at + 1] != argv[: judged.at + 1]:
            raise NotWarm("a Secret says what to run")
        container["warm"] = {"at": judged.at, "module": judged.module}
        key = (program, tuple(read_at_import(env).items()))
        if key in self._refused:
            raise NotWarm(self._refused[key])
        if key not in self._servers:
            self._servers[key] = ForkServer(self._home, program, dict(key[1]), self._idle)
        server = self._servers[key]
        try:
            return server if server.ready() else None
        except NotWarm as error:
            self._refused[key] = str(error)
            raise

    def _facts(self, ready: Assembled, container: ContainerSpec, program: str) -> Start:
        env = ready.secrets["env"][container["name"]]
        return Start(
            argv=container["argv"],
            env=env,
            program=program,
            containers=len(ready.spec["containers"]) + len(ready.spec["initContainers"]),
            memory_limit=container["memory"] > 0 and container["limits"] != "off",
            gpus=self._gpus and env.get(gpus.VISIBLE) not in ("", gpus.NONE),
            linux=sys.platform == "linux",
        )


def how(pod: Pod) -> str:
    """How a pod was started, for people; empty if nobody asked for a warm start."""
    return pod.metadata.annotations.get(HOW, "")


def _program(argv: list[str], cwd: str, env: dict[str, str]) -> str:
    """The file that a container's first word means, as exec would look for it on the host."""
    word = argv[0] if argv else ""
    if "/" in word:
        path = Path(cwd) / word
        return str(path) if os.access(path, os.X_OK) else ""
    return shutil.which(word, path=env.get("PATH", os.defpath)) or ""

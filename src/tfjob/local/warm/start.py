"""Warm starts of one run: which of its pods are forked from a fork server, and why the others are not.

By default only programs that import TensorFlow are forked, because others would gain nothing. `prospect` reports
whether the programs of a project can start warm, as far as this can be known without a fork server.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from tfjob.durations import USUAL, Durations, durations_from
from tfjob.local.inputs import gpus, keras_layer
from tfjob.local.inputs.images import chosen_interpreter
from tfjob.local.pod.assembly import Assembled, Machine
from tfjob.local.sandbox.pod_spec import ContainerSpec
from tfjob.local.state import config
from tfjob.local.state.errors import Refusal
from tfjob.local.state.home import Home, write_whole
from tfjob.local.warm import policy
from tfjob.local.warm.policy import Cold, Program, Start, judge, read_at_import, refuse_setting
from tfjob.local.warm.pool import OLDEST_PYTHON, ForkServer, NotWarm
from tfjob.local.warm.source_scan import ProgramText, find_module, read_program

if TYPE_CHECKING:
    from tfjob.local.sandbox.capabilities import Capability

HOW = "tfjob/start"
"""The annotation of a pod that tells how it was started: `warm`, or `cold: ` and the reason."""
WARM, COLD = "warm", "cold: "
TURNED_OFF = f"{COLD}{policy.TURNED_OFF}"
EXPECTED = {TURNED_OFF, f"{COLD}{policy.NOT_SEEN}"}
"""Cold starts that are not reported."""
_TOO_OLD, _NO_TENSORFLOW = 3, 4
_PROGRAM = f"""import importlib.util, sys
sys.path = [place for place in sys.path if place]
if sys.version_info < {OLDEST_PYTHON}: sys.exit({_TOO_OLD})
if importlib.util.find_spec("tensorflow") is None: sys.exit({_NO_TENSORFLOW})"""


class WarmStart:
    """Starts the pods of a run warm where that is safe."""

    def __init__(self, home: Home, machine: Machine, durations: Durations = USUAL) -> None:
        self._home = home
        self._machine = machine
        self._durations = durations
        self._servers: dict[tuple[str, tuple[tuple[str, str], ...]], ForkServer] = {}
        self._refused: dict[tuple[str, tuple[tuple[str, str], ...]], str] = {}
        self._distrust = ""

    def launch(self, folder: Path, ready: Assembled) -> str | None:
        """Fork a pod's supervisor and return its annotation: cold if nothing was started, None to call again later."""
        container = ready.spec["containers"][0]
        start = self._facts(ready, container)
        named = policy.program(start)
        text = _text(start, named, container)
        if not self.asked and not text.imports_tensorflow:
            return f"{COLD}{policy.NOT_SEEN}"
        try:
            argv = ready.secrets.get("argv", {}).get(container["name"], start.argv)
            if isinstance(named, Program) and argv[: named.at + 1] != start.argv[: named.at + 1]:
                raise NotWarm("its command comes from a Secret")
            server = self._server(start, container, text)
            if server is None:
                return None
            write_whole(folder / "spec.json", msgspec.json.encode(ready.spec))
            server.launch(folder, msgspec.json.encode(ready.secrets))
        except NotWarm as error:
            return f"{COLD}{error}"
        return WARM

    def distrust(self, reason: str) -> None:
        """Start the remaining pods of this run cold."""
        self._distrust = self._distrust or reason

    @property
    def asked(self) -> bool:
        """Whether the user requested warm starts, so that a cold start is a warning."""
        return self._machine.warm is True

    @property
    def folders(self) -> list[Path]:
        return [server.folder for server in self._servers.values()]

    def close(self) -> None:
        for server in self._servers.values():
            server.close()

    def _server(self, start: Start, container: ContainerSpec, text: ProgramText) -> ForkServer | None:
        """Return the fork server for a pod once it is ready; write into the pod's spec what the fork runs."""
        if self._distrust:
            raise NotWarm(f"a warm start of another replica failed: {self._distrust}")
        judged = refuse_setting(text.variables(start.env)) or judge(start)
        if isinstance(judged, Cold):
            raise NotWarm(judged.reason)
        life = self._durations.fork_life.total_seconds()
        container["warm"] = {"at": judged.at, "module": judged.module, "life": life}
        key = (start.program, tuple(read_at_import({**start.env, **text.log_variables(start.env)}).items()))
        if key in self._refused:
            raise NotWarm(self._refused[key])
        if key not in self._servers:
            idle = self._machine.config.warm_idle
            self._servers[key] = ForkServer(self._home, start.program, dict(key[1]), idle, self._durations)
        server = self._servers[key]
        try:
            return server if server.ready() else None
        except NotWarm as error:
            self._refused[key] = str(error)
            raise

    def _facts(self, ready: Assembled, container: ContainerSpec) -> Start:
        env = keras_layer.without_layer(ready.secrets["env"][container["name"]])
        argv = container["argv"]  # without the values of Secrets: the reason for a cold start may quote it
        return Start(
            argv=argv,
            env=env,
            program=_file(argv, container["cwd"], env),
            containers=len(ready.spec["containers"]) + len(ready.spec["initContainers"]),
            memory_limit=container["memory"] > 0 and container["limits"] != "off",
            gpus=env.get(gpus.VISIBLE) not in ("", gpus.NONE) and self._gpus,
            linux=sys.platform == "linux",
        )

    @cached_property
    def _gpus(self) -> bool:
        return bool(gpus.found(self._machine.environ))


def _text(start: Start, named: Program | Cold, container: ContainerSpec) -> ProgramText:
    """Scan the source of the program, if it is on this machine."""
    if not isinstance(named, Program):
        return ProgramText()
    word = start.argv[named.at]
    if not named.module:
        return read_program(_on_host(word, container))
    found = find_module(word, partial(_on_host, container=container))
    return read_program(*found) if found else ProgramText()


def _on_host(path: str, container: ContainerSpec) -> Path:
    """Return the host's path of a path in the container."""
    path = os.path.normpath(PurePosixPath(container["cwd"], path))
    inner = PurePosixPath(path)
    for mount in sorted(container["mounts"], key=lambda mount: len(mount["target"]), reverse=True):
        if inner.is_relative_to(mount["target"]):
            return Path(mount["source"], inner.relative_to(mount["target"]))
    return Path(path)


def _file(argv: list[str], cwd: str, env: dict[str, str]) -> str:
    """Return the file that exec would run on the host; empty if there is none."""
    word = argv[0] if argv else ""
    if "/" in word:
        word = str(Path(cwd) / word)
    return shutil.which(word, path=env.get("PATH", os.defpath)) or ""


def prospect(project: Path, environ: Mapping[str, str]) -> Capability:
    """Check the interpreter that jobs of this project get, without importing TensorFlow."""
    from tfjob.local.sandbox.capabilities import Capability  # imported late: drivers do not need it

    if sys.platform != "linux":
        return Capability("warm starts", policy.ONLY_LINUX)
    seconds = durations_from(environ).helper_program.total_seconds()
    try:
        if config.load(project, environ).warm is False:
            return Capability("warm starts", "warm = false in the configuration", "For one run, use --warm.")
        python = chosen_interpreter(None, project)
        done = subprocess.run(
            [python, "-c", _PROGRAM], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=seconds
        )
    except (Refusal, OSError) as error:
        return Capability("warm starts", str(error))
    except subprocess.TimeoutExpired:
        return Capability("warm starts", f"{python} did not start within {seconds:.0f} s")
    problem = {
        0: "",
        _TOO_OLD: f"{python} is older than {'.'.join(map(str, OLDEST_PYTHON))}",
        _NO_TENSORFLOW: f"TensorFlow is not installed for {python}",
    }
    text = problem.get(done.returncode, f"{python} failed to start")
    fix = "Jobs that use another interpreter (--python) may still start warm."
    return Capability("warm starts", text, fix if text else "")

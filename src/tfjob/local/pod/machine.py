"""What this machine offers a run: the possible level and limits, and the resolved options."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tfjob.api.objects import ConfigMap
from tfjob.controller.kind import Key
from tfjob.local.inputs import environment
from tfjob.local.inputs.references import Node, References, Secrets
from tfjob.local.pod.assembly import Machine
from tfjob.local.sandbox.pod_spec import Level, Limits
from tfjob.local.state import config
from tfjob.local.state.config import Config
from tfjob.local.state.errors import Refusal
from tfjob.local.state.home import Home
from tfjob.local.state.options import Options
from tfjob.local.state.store import Run, Store
from tfjob.local.volumes.claims import Claims

LEVELS: tuple[Level, ...] = ("ports", "addresses", "full")
"""From the least separation to the most."""


@dataclass(frozen=True)
class Choice:
    """A level and a way to enforce limits, with notes on why they are not the best ones."""

    level: Level
    limits: Limits
    notes: list[str]


def choose(wanted_level: str, wanted_limits: str) -> Choice:
    """Return what this machine can do; `auto` means the best. Raises Refusal for a request beyond that."""
    from tfjob.local.sandbox import capabilities  # imported late: drivers do not need it

    found = capabilities.probe()
    best = capabilities.level(found)
    notes = []
    level = best if wanted_level == "auto" else cast("Level", wanted_level)
    if wanted_level == "auto" and best != "full":
        notes.append(f"level {best}: {capabilities.shortfall(found)}; see `tfjob doctor`")
    if LEVELS.index(level) > LEVELS.index(best):
        raise Refusal(
            f"level {level} is not possible on this machine: {capabilities.shortfall(found)}",
            f"Use --level {best} or lower; `tfjob doctor` explains what higher levels need.",
        )
    limits = wanted_limits
    if limits == "auto":
        limits = "cgroup" if found["memory_cgroup"].ok else "poll"
    if limits == "cgroup" and not found["memory_cgroup"].ok:
        text = f"cgroup limits are not possible on this machine: {found['memory_cgroup'].problem}"
        raise Refusal(text, 'Set limits = "auto" under [local] in tfjob.toml.')
    return Choice(level, cast("Limits", limits), notes)


def machine_of(home: Home, store: Store, run: Run) -> Machine:
    kept = kept_references(home, store, run.key.namespace)

    def config_map(name: str) -> Mapping[str, Any] | None:
        own = (one for one in store.children(ConfigMap, run.uid) if one.metadata.name == name)
        return next(({"data": one.data} for one in own), None) or kept.config_map(name)

    options = Options.load(run.folder)
    settings = config.load(Path(options.project), os.environ)
    return machine_with(home, options, References(config_map, kept.secret), settings)


def kept_references(home: Home, store: Store, namespace: str) -> References:
    secrets = Secrets(home.secrets)
    return References(
        config_map=lambda name: store.object(Key(namespace, name, "ConfigMap")),
        secret=lambda name: secrets.get(Key(namespace, name, "Secret")),
    )


def machine_with(home: Home, options: Options, references: References, settings: Config) -> Machine:
    return Machine(
        config=settings,
        level=options.level,
        limits=options.limits,
        project=Path(options.project),
        source=options.source,
        python=Path(options.python) if options.python else None,
        cpu=options.cpu,
        warm=options.warm,
        volumes={name: Path(folder) for name, folder in options.volumes.items()},
        claims=Claims(home.claims),
        references=references,
        node=node(),
        environ=options.environ,
        passed=passed(options, os.environ),
    )


def passed(options: Options, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a script gets from the calling shell. Only their names are stored."""
    found = {name: environ[name] for name in options.pass_env if name in environ}
    for file in options.env_files:
        found |= environment.read_env_file(Path(file), environ)
    return found


def kept_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the part of the caller's environment that replicas get; it is stored, so that restarts get the same."""
    return {**environment.from_host(environ), "PATH": environ.get("PATH", environment.DEFAULT_PATH)}


def node() -> Node:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Node(name=socket.gethostname(), cpus=os.cpu_count() or 1, memory=memory)

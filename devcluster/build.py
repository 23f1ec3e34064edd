"""Build programs from Go modules, once per version."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from devcluster import golang, versions
from devcluster.cache import built, say, scratch
from devcluster.errors import Refused
from devcluster.parts import Part

SOURCES = Path(__file__).parent / "go"


def programs(parts: Iterable[Part]) -> dict[str, Path]:
    """Return the path of every program of these parts, by name; build what is missing."""
    found = {}
    for part in parts:
        folder = binaries(part)
        found.update({name: folder / name for name in (part.name, *part.links)})
    return found


def binaries(part: Part) -> Path:
    key = hashlib.sha256(f"{part}{_source(part)}".encode()).hexdigest()[:8]
    return built(f"{part.name}-{part.version}-{key}", lambda folder: _build(part, folder)) / "bin"


def module(part: Part) -> Path:
    """Return the folder in which Go keeps the sources of a part's module, manifests included."""
    return Path(_download(part)["Dir"])


def _source(part: Part) -> str:
    return "" if part.package else (SOURCES / f"{part.name}.go").read_text()


def _build(part: Part, folder: Path) -> None:
    began = time.monotonic()
    say(f"{part.name} {part.version}: building with Go ({part.duration} the first time) ...")
    go, env = golang.go(), _environment(part)
    with scratch() as name:
        place = Path(name)
        (place / "go.mod").write_text(_go_mod(part))
        if part.package:
            _run([go, "get", f"{part.package}@v{part.version}"], place, env, part)
        else:
            (place / "main.go").write_text(_source(part))
            _run([go, "mod", "tidy"], place, env, part)
        flags = " ".join(["-s", "-w", *(f"-X {stamp}" for stamp in part.stamps)])
        output = folder / "bin" / part.name
        command = [go, "build", "-trimpath", "-ldflags", flags, "-o", str(output), part.package or "."]
        _run(command, place, env, part)
    for link in part.links:
        (folder / "bin" / link).symlink_to(part.name)
    say(f"{part.name} {part.version}: built in {time.monotonic() - began:.1f} s")


def _go_mod(part: Part) -> str:
    language = ".".join(map(str, versions.GO_MINIMUM))
    lines = [f"module devcluster/{part.name}", "", f"go {language}", ""]
    if part.module and not part.package:
        lines.append(f"require {part.module} v{part.version}")
    if part.staging:
        text = Path(_download(part)["GoMod"]).read_text()
        lines += [f"replace {name} => {name} v{part.staging}" for name in staged_modules(text)]
    return "\n".join(lines) + "\n"


def staged_modules(go_mod: str) -> list[str]:
    """Return the modules that a go.mod replaces with folders below ./staging; a build names their releases instead."""
    return re.findall(r"^\s*(?:replace\s+)?(\S+)\s+=>\s+\./staging/", go_mod, re.MULTILINE)


def _download(part: Part) -> dict[str, str]:
    """Download a part's module; return the paths that Go reports."""
    command = [golang.go(), "mod", "download", "-json", f"{part.module}@v{part.version}"]
    found: dict[str, str] = json.loads(_run(command, SOURCES, _environment(part), part))
    return found


def _environment(part: Part) -> dict[str, str]:
    return golang.environment() | ({"GONOSUMDB": "*"} if part.unlisted else {})


def _run(command: list[str], place: Path, env: dict[str, str], part: Part) -> str:
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        if done.returncode < 0:
            raise Refused(
                f"the build of {part.name} {part.version} was killed by signal {-done.returncode}; run it again"
            )
        end = "\n".join(done.stderr.strip().splitlines()[-15:])
        raise Refused(f"{part.name} {part.version} does not build: `{' '.join(command)}` failed:\n{end}")
    return done.stdout

"""Programs from packages of the machine's distribution, unpacked into the cache; nothing is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from devcluster import versions
from devcluster.cache import built, say, scratch
from devcluster.errors import Refused


@dataclass(frozen=True)
class Tree:
    """Unpacked packages, used in addition to the machine's programs."""

    folder: Path

    def environment(self) -> dict[str, str]:
        """Return environment variables with which the programs find each other, their libraries and their plugins."""
        paths = [*(self.folder / name for name in ("sbin", "bin", "usr/sbin", "usr/bin")), *map(Path, _SYSTEM_PATH)]
        libraries = sorted({file.parent for file in self.folder.rglob("*.so.*")})
        env = {"PATH": os.pathsep.join(map(str, paths)), "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries))}
        plugins = sorted(self.folder.glob("usr/lib/*/xtables"))
        return {**env, "XTABLES_LIBDIR": str(plugins[0])} if plugins else env

    def program(self, name: str) -> Path:
        found = shutil.which(name, path=self.environment()["PATH"])
        if not found:
            raise Refused(
                f"{name} is not on this machine and not in the packages {', '.join(versions.DEBIAN_PACKAGES)}"
            )
        return Path(found)

    @property
    def cni(self) -> Path:
        own = self.folder / "usr/lib/cni"
        return own if own.is_dir() else Path("/usr/lib/cni")


_SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


def tree() -> Tree:
    """Return the packages that the machine lacks, unpacked once per release."""
    if not shutil.which("apt-get"):
        raise Refused("nodes need Debian or Ubuntu: apt-get provides containerd and the other programs of a node")
    release = Path("/etc/os-release").read_text()
    fields = dict(line.split("=", 1) for line in release.splitlines() if "=" in line)
    name = "-".join(fields.get(key, "").strip('"') for key in ("ID", "VERSION_ID"))
    return Tree(built(f"packages-{name}", _unpack))


def _unpack(folder: Path) -> None:
    began = time.monotonic()
    say(f"packages {', '.join(versions.DEBIAN_PACKAGES)}: downloading ...")
    with scratch() as name:
        place = Path(name)
        try:
            _download(place)
        except Refused:  # the machine's package lists are missing or old
            _apt(["update", "--quiet"], place)
            _download(place)
        for archive in sorted(place.glob("*.deb")):
            subprocess.run(["dpkg", "-x", str(archive), str(folder)], check=True)
    _link_iptables(folder)
    say(f"packages: unpacked in {time.monotonic() - began:.1f} s")


def _download(place: Path) -> None:
    """Download the packages and their dependencies that are not installed."""
    plan = _apt(["install", "--simulate", "--no-install-recommends", *versions.DEBIAN_PACKAGES], place)
    lines = [line.split() for line in plan.splitlines()]
    missing = [f"{words[1]}={words[2].lstrip('(')}" for words in lines if words[:1] == ["Inst"]]
    if missing:
        _apt(["download", *missing], place)


def _apt(words: list[str], place: Path) -> str:
    command = ["apt-get", "-o", "APT::Sandbox::User=root", *words]
    done = subprocess.run(
        command, cwd=place, env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Refused(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout


def _link_iptables(folder: Path) -> None:
    """Add the plain names that Debian's package installation would create."""
    for name in ("iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"):
        programs = folder / "usr/sbin"
        if (programs / "xtables-nft-multi").exists() and not (programs / name).exists():
            (programs / name).symlink_to("xtables-nft-multi")

"""Servers of this machine, and our image of TensorBoard alone in its root file system."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from support.board import tensorboard_image
from support.ports import free_port
from support.running import wait_until
from tfjob.plan.build.tensorboard import USER_ID


def call(url: str, data: bytes | None = None, method: str = "GET", kind: str = "application/json") -> bytes:
    with urlopen(Request(url, data, {"Content-Type": kind}, method=method), timeout=60) as answer:
        content: bytes = answer.read()
        return content


@contextmanager
def running(command: list[str], ready: str, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A server, from when `ready` answers."""
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def answers() -> bool:
        assert process.poll() is None, f"{command[0]} ended with {process.returncode}"
        try:
            call(ready)
        except (URLError, ConnectionError, TimeoutError) as error:
            return getattr(error, "code", None) is not None  # it refuses, and so it is there
        return True

    try:
        wait_until(answers, 90, lambda: f"{command[0]} does not answer")
        yield process
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def serving(
    volume: Path, words: str, env: dict[str, str] | None = None
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The image's TensorBoard and where it listens; `volume` is mounted at /tmp/volume."""
    root = tensorboard_image.image() / "rootfs"
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    # In a mount namespace of its own it gets what a container runtime adds: devices, names, volumes.
    tmp = f"mount -t tmpfs none {root}/tmp && mkdir {root}/tmp/volume"
    binds = {"/dev": f"{root}/dev", "/etc/hosts": f"{root}/etc/hosts", str(volume): f"{root}/tmp/volume"}
    mounts = " && ".join([tmp, *(f"mount --rbind {source} {target}" for source, target in binds.items())])
    variables = " ".join(f"{name}={value}" for name, value in (tensorboard_image.variables() | (env or {})).items())
    chroot = f"exec /usr/sbin/chroot --userspec={USER_ID}:{USER_ID} --groups= {root} /usr/local/bin/tensorboard"
    (root / "etc/hosts").touch()
    (root / "dev").mkdir(exist_ok=True)
    command = f"{mounts} && export {variables} && {chroot} {words} --host 127.0.0.1 --port {port}"
    with running(["unshare", "--mount", "sh", "-c", command], f"{url}/data/environment") as server:
        yield url, server


def scalars(url: str) -> dict[str, dict[str, object]]:
    """The scalars that a TensorBoard serves, by run, as soon as it does."""
    tags: dict[str, dict[str, object]] = {}

    def loaded() -> bool:
        with suppress(URLError, ConnectionError, TimeoutError):
            tags.update(json.loads(call(f"{url}/data/plugin/scalars/tags")))
        return any(tags.values())

    wait_until(loaded, 90, lambda: f"{url}: no scalars")
    return tags

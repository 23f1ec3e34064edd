"""Run a command in a container of a pod, over a web socket of the API server, with this process's input and output.

Every message begins with the number of its channel. The error channel reports the result at the end. Version 5 of the
protocol can close a channel, which tells the command that its input has ended.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import termios
import tty as terminals
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import Thread

import aiohttp
import msgspec

from tfjob.api.resources import PODS
from tfjob.kube.access.errors import KubeError, Status
from tfjob.kube.client.client import Client

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
CLOSE = 255
VERSION_5 = "v5.channel.k8s.io"
CHUNK = 32 * 1024
SIZE_SECONDS = 0.2
"""How often to check the size of the terminal: only the main thread could handle its signal, SIGWINCH."""
NOT_FOUND, NOT_EXECUTABLE = 127, 126


class ExecFailed(KubeError):
    """The command could not run, or its result is unknown."""


async def execute(client: Client, namespace: str, pod: str, container: str, command: list[str], *, tty: bool) -> int:
    """Run a command and return its exit code; with `tty`, connect its terminal to ours."""
    wants_input = sys.stdin is not None and not sys.stdin.closed
    params = [
        ("container", container),
        *(("command", word) for word in command),
        ("stdin", str(wants_input).lower()),
        ("stdout", "true"),
        ("stderr", str(not tty).lower()),
        ("tty", str(tty).lower()),
    ]
    async with client.websocket(PODS.object_path(namespace, pod, "exec"), params) as socket:
        with _raw_terminal() if tty else nullcontext():
            following = asyncio.create_task(_follow_size(socket)) if tty else None
            if wants_input:
                _send_input(socket)
            try:
                return await _receive(socket)
            finally:
                if following is not None:
                    following.cancel()


async def _receive(socket: aiohttp.ClientWebSocketResponse) -> int:
    async for message in socket:
        data: bytes = message.data if isinstance(message.data, bytes) else str(message.data).encode()
        if not data:
            continue
        channel, content = data[0], data[1:]
        if channel in (STDOUT, STDERR):
            await asyncio.to_thread(_write, 1 if channel == STDOUT else 2, content)
        elif channel == ERROR and content:
            return exit_code(content)
    raise ExecFailed("the connection to the container broke before the command finished")


def exit_code(status: bytes) -> int:
    """Return the exit code in a command's final status. Raises ExecFailed if the command could not run."""
    result = msgspec.json.decode(status, type=Status)
    if result.reason == "NonZeroExitCode" and result.details:
        for cause in result.details.causes or ():
            if cause.reason == "ExitCode" and cause.message.isdecimal():
                return int(cause.message)
    if not result.message:
        return 0
    if "executable file not found" in result.message or "no such file or directory" in result.message:
        return _cannot(result.message, NOT_FOUND)
    if "permission denied" in result.message:
        return _cannot(result.message, NOT_EXECUTABLE)
    raise ExecFailed(result.message)


def _cannot(message: str, code: int) -> int:
    """Report why the program cannot run; return the exit code of a shell in that case, as local `exec` does."""
    reason = re.search(r'exec: "[^"]*": [^:]+', message)  # runtimes add the names of all their parts
    sys.stderr.write(f"tfjob: {reason[0] if reason else message}\n")
    sys.stderr.flush()
    return code


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _send_input(socket: aiohttp.ClientWebSocketResponse) -> None:
    """Start to copy our input. A thread reads it, because an event loop cannot wait for a file as for a pipe."""
    loop = asyncio.get_running_loop()
    closing = socket.protocol == VERSION_5

    def send(message: bytes) -> None:
        asyncio.run_coroutine_threadsafe(socket.send_bytes(message), loop).result()

    def copy() -> None:
        try:
            while data := os.read(0, CHUNK):
                send(bytes([STDIN]) + data)
            if closing:
                send(bytes([CLOSE, STDIN]))
        except (OSError, RuntimeError, aiohttp.ClientError):
            return  # the command and the connection have ended

    Thread(target=copy, daemon=True).start()


async def _follow_size(socket: aiohttp.ClientWebSocketResponse) -> None:
    """Send the size of our terminal now and whenever it changes."""
    known = None
    while True:
        size = os.get_terminal_size(0)
        if size != known:
            known = size
            await socket.send_bytes(
                bytes([RESIZE]) + msgspec.json.encode({"Width": size.columns, "Height": size.lines})
            )
        await asyncio.sleep(SIZE_SECONDS)


@contextmanager
def _raw_terminal() -> Iterator[None]:
    before = termios.tcgetattr(0)
    terminals.setraw(0, termios.TCSADRAIN)  # keep what the user has typed for the command
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)

"""`tfjob ps -w`: a line per change in a pipe, and a list that stays up to date in a terminal."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from support.command_line import GOLDEN, MANIFESTS, CommandLine
from support.golden import check_golden
from support.installed import Installed
from support.kube.api_server import Answer, ApiServer, reply
from support.running import Running, command_of, processes_of, wait_until
from support.tmux import Tmux, tmux

SPEC = {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [{"name": "tensorflow", "image": "x"}]}}}}}
ABOUT = {"name": "there", "namespace": "team", "uid": "1", "creationTimestamp": "2026-01-02T03:04:05Z"}
JOB: dict[str, Any] = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": ABOUT, "spec": SPEC}


def test_a_piped_watch_adds_a_line_for_every_change(cli: CommandLine) -> None:
    cli("run", "hello.yaml", "-q")
    with Running(cli.tool, cli.home, "-w", command="ps") as watch:
        watch.wait_for("hello")
        cli("run", str(MANIFESTS / "fails.yaml"), "-q", code=1)
        watch.wait_for("Failed")
        cli("delete", "hello", "-q")
        watch.wait_for("Deleted")
        watch.process.send_signal(signal.SIGINT)
        assert watch.finish() == 130
    assert watch.lines[0].split()[:2] == ["NAME", "STATE"]
    assert sum("hello" in line for line in watch.lines) == 2
    assert [line.split()[:2] for line in watch.lines if line][-1] == ["hello", "Deleted"]


def test_a_piped_watch_in_json_is_an_object_a_line(cli: CommandLine) -> None:
    cli("run", "hello.yaml", "-q")
    with Running(cli.tool, cli.home, "-w", "-o", "json", command="ps") as watch:
        watch.wait_for("hello")
        watch.process.send_signal(signal.SIGINT)
        watch.finish()
    (shape,) = map(json.loads, filter(None, watch.lines))
    assert (shape["kind"], shape["name"], shape["state"]) == ("Job", "hello", "Succeeded")


@pytest.fixture
def window(cli: CommandLine) -> Iterator[Tmux]:
    """A shell of 24 rows; without COLUMNS, which would not follow the window."""
    env = {name: value for name, value in cli.environment().items() if name != "COLUMNS"}
    with tmux(env, MANIFESTS, 80, 24) as terminal:
        yield terminal


def watch(cli: CommandLine, window: Tmux, *words: str) -> None:
    """Type the command."""
    window.type(f"clear; {' '.join([*cli.tool.command, 'ps', '-w', *words])}; echo code $?")


def is_as_found(window: Tmux) -> bool:
    """Return whether the terminal shows its cursor and echoes typed characters."""
    return window.has_cursor and "-echo " not in window.answer("stty -a")


def test_a_watch_in_a_terminal_keeps_one_list_and_leaves_the_terminal_as_it_was(cli: CommandLine, window: Tmux) -> None:
    cli("run", "hello.yaml", "-q")
    watch(cli, window, "-o", "wide")
    window.wait_for("hello +Succeeded")
    assert window.has_cursor
    cli("run", "fails.yaml", "-q", code=1)
    window.wait_for("fails +Failed")
    window.resize(50, 20)
    window.wait_for("^default +fails .*…$")
    window.resize(80, 24)
    window.wait_for("^default +fails +Failed .{40}")
    wait_until(lambda: window.everything().count("NAMESPACE") == 1, 90, window.everything)
    window.press("C-c")
    window.wait_for("code 130$")
    assert re.search(r"NAMESPACE .*\ndefault +hello .*\ndefault +fails .*\n+code 130", window.everything())
    assert is_as_found(window)


def test_of_30_runs_a_watch_in_24_rows_shows_the_newest_and_counts_the_rest(cli: CommandLine, window: Tmux) -> None:
    cli("run", "hello.yaml", "-q")
    with sqlite3.connect(cli.home / "state.db") as store:
        for number in range(2, 31):
            uid = f"uid-{number}"
            store.execute(
                "insert into runs select ?, ?, attached, boot, folder, created, ?, settled_until"
                " from runs where number = 1",
                (uid, number, uid),
            )
            store.execute(
                "insert into objects select ?, kind, namespace, name, '', 0, version,"
                " cast(json_set(cast(data as text), '$.metadata.uid', ?) as blob)"
                " from objects where kind = 'TFJob' and current",
                (uid, uid),
            )
    watch(cli, window, "-a")
    window.wait_for(r"^hello\.30 ")
    lines = window.screen().splitlines()
    assert lines[0].startswith("NAME")
    assert lines[1] == "… 9 more"
    assert [line.split()[0] for line in lines[2:]] == [f"hello.{number}" for number in range(10, 31)]
    window.press("C-c")
    window.wait_for("code 130$")


@pytest.mark.parametrize(("key", "said"), [("C-z", "Stopped"), ("TERM", "Terminated"), ("HUP", "Hangup")])
def test_whatever_ends_or_stops_a_watch_the_terminal_is_given_back(
    cli: CommandLine, window: Tmux, key: str, said: str
) -> None:
    cli("run", "hello.yaml", "-q")
    watch(cli, window)
    window.wait_for("^hello +Succeeded")
    if key == "C-z":
        window.press(key)
    else:
        (pid,) = [pid for pid in processes_of(cli.home) if b"\0-w" in command_of(pid)]
        os.kill(pid, getattr(signal, f"SIG{key}"))
    window.wait_for(said)
    assert is_as_found(window)
    if key == "C-z":
        window.type("clear; fg")
        window.wait_for("^hello +Succeeded")
        window.press("C-c")
        window.wait_for_prompt()


def test_a_watch_goes_on_through_a_silence_of_the_api_server(tool: Installed, tmp_path: Path) -> None:
    async def watched() -> tuple[int | None, list[str], str]:
        async with ApiServer(otherwise=listing(JOB)) as server:
            process = await asyncio.create_subprocess_exec(
                *tool.command,
                *("ps", "-w", "--on", "k8s", "-n", "team", "-o", "name"),
                env={**tool.environment(tmp_path / "home"), "KUBECONFIG": str(server.kubeconfig(tmp_path))},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            assert process.stdout is not None
            assert process.stderr is not None
            try:
                first = await asyncio.wait_for(process.stdout.readline(), 120)
                server.otherwise = reply({"kind": "Status", "code": 503, "message": "etcd is away"}, 503)
                complaint = await asyncio.wait_for(process.stderr.readline(), 120)
                another = {**JOB, "metadata": {**JOB["metadata"], "name": "later", "uid": "2"}}
                server.otherwise = listing(JOB, another)
                second = await asyncio.wait_for(process.stdout.readline(), 120)
                process.send_signal(signal.SIGINT)
                await asyncio.wait_for(process.communicate(), 120)
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        return process.returncode, [first.decode().strip(), second.decode().strip()], complaint.decode()

    code, names, complaint = asyncio.run(watched())
    assert (code, names) == (130, ["there", "later"])
    assert "etcd is away" in complaint
    check_golden(GOLDEN / "ps-watch-outage.txt", complaint)


def listing(*jobs: dict[str, Any]) -> Answer:
    """Answer with these TFJobs, and without TfJobs."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response({"metadata": {}, "items": jobs if "/kubeflow.org/" in request.path else []})

    return answer

"""Starts, versions, memory and idle connections of a server, and the C program that its engine is compared with."""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
from serving.servers import HERE, LONGEST, PREDICT, Request, Server, ours, reference, version

from tfjob.serve import protos, savedmodel

RELOAD = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"
IDLE = 10_000
CYCLES = 25
SWITCHES, REQUESTS, CLIENTS = 20, 5000, 4
NEWER = 5


def starts(models: Path) -> Iterator[tuple[str, float]]:
    """Start each server once; yield its name and the seconds to its first reply."""
    with Server(ours(models / "small"), "small") as server:
        yield "server", server.start_seconds
    with tempfile.TemporaryDirectory(prefix="tfjob-bench-") as home:
        environ = {"TFJOB_HOME": home}
        tool = [str(Path(sys.executable).with_name("tfjob"))]
        words = ["serve", str(models / "small"), "--detach"]
        try:
            with Server(
                lambda port, rest: [*tool, *words, f"--port={port}", f"--rest-port={rest}"], "small", environ
            ) as one:
                yield "tool", one.start_seconds
        finally:
            done = subprocess.run(
                [*tool, "delete", "small-serving", "-y"],
                env={**os.environ, **environ},
                capture_output=True,
                check=False,
            )
            if done.returncode:
                print(done.stderr.decode(), file=sys.stderr)
    with Server(reference(models / "small/1"), "small", {"TF_CPP_MIN_LOG_LEVEL": "3"}) as server:
        yield "reference", server.start_seconds


def publish(source: Path, base: Path, number: int) -> None:
    part = base / f"{number}.tmp"
    shutil.copytree(source, part)
    part.rename(base / str(number))


def newer_versions(models: Path) -> list[float]:
    """Return the seconds from the rename of a newer version to its first reply."""
    message = Request("small").body()
    with tempfile.TemporaryDirectory() as name:
        base = Path(name, "small")
        publish(models / "small/1", base, 1)
        taken = []
        with Server(ours(base), "small") as server:
            for number in range(2, 2 + NEWER):
                publish(models / "small/1", base, number)
                begun = time.perf_counter()
                while version(server.ask(message)) != number:
                    if time.perf_counter() - begun > LONGEST:
                        raise SystemExit(f"version {number} does not answer")
                    time.sleep(0.01)
                taken.append(time.perf_counter() - begun)
        return taken


def cycles(models: Path) -> list[float]:
    """Return the megabytes of anonymous memory after each of 26 loads of a large model; each unloads the one before."""
    used = []
    with tempfile.TemporaryDirectory() as name:
        base = Path(name, "large")
        for number in (1, 2):
            publish(models / "large/1", base, number)
        with Server(ours(base), "large") as server:
            for cycle in range(CYCLES + 1):
                wanted = 1 + cycle % 2
                reload(server, base, wanted)
                wait_for_version_alone(server, wanted)
                server.ask(Request("large").body())
                used.append(server.anonymous())
    return used


def reload(server: Server, base: Path, number: int) -> None:
    request = protos.ReloadConfigRequest()
    config = request.config.model_config_list.config.add(
        name=base.name, base_path=str(base), model_platform="tensorflow"
    )
    config.model_version_policy.specific.versions.append(number)
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        channel.unary_unary(RELOAD)(request.SerializeToString(), timeout=LONGEST)


def wait_for_version_alone(server: Server, number: int) -> None:
    """Wait until no other version is in memory."""
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        rows = json.loads(server.page("/v1/models/large"))["model_version_status"]
        if [row["version"] for row in rows if row["state"] != "END"] == [str(number)]:
            return
        time.sleep(0.02)
    raise SystemExit("a version is not unloaded")


def idle_connections(server: Server) -> float:
    """Return the megabytes that idle connections cost, half of them over gRPC and half over REST."""
    message = Request("small").body()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < IDLE + 100:
        raise SystemExit(f"the limit of open files is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, IDLE + 100), hard))
    server.load(Request("small"), 8, 1)
    before = server.anonymous()
    with ExitStack() as connections:
        for number in range(IDLE):
            port = server.port if number % 2 else server.rest_port
            connections.enter_context(socket.create_connection(("127.0.0.1", port), timeout=LONGEST))
        server.ask(message)
        server.page("/readyz")
        return server.anonymous() - before


def switches(models: Path) -> tuple[int, int]:
    """Return the numbers of requests, and of those that failed, while versions change under a load."""
    message = Request("small").body()
    counts: list[tuple[int, int]] = []
    stop = threading.Event()

    def ask(port: int) -> None:
        sent = failed = newest = 0
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
            call = channel.unary_unary(PREDICT)
            while not stop.is_set():
                sent += 1
                try:
                    number = version(call(message, timeout=LONGEST))
                except grpc.RpcError:
                    failed += 1
                    continue
                failed += number < newest  # an older version must not answer after a newer one
                newest = max(newest, number)
        counts.append((sent, failed))

    with tempfile.TemporaryDirectory() as name:
        base = Path(name, "small")
        publish(models / "small/1", base, 1)
        with Server(ours(base), "small") as server:
            threads = [threading.Thread(target=ask, args=[server.port]) for _ in range(CLIENTS)]
            for thread in threads:
                thread.start()
            try:
                for number in range(2, 2 + SWITCHES):
                    publish(models / "small/1", base, number)
                    end = time.monotonic() + LONGEST
                    while version(server.ask(message)) != number and time.monotonic() < end:
                        time.sleep(0.05)
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
    sent, failed = (sum(column) for column in zip(*counts, strict=True))
    if sent < REQUESTS:
        print(f"  only {sent} requests fitted between the switches")
    return sent, failed


def c_program(folder: Path) -> Path | None:
    """Compile floor.c; None without a compiler."""
    spec = importlib.util.find_spec("tensorflow")
    if shutil.which("cc") is None or spec is None or not spec.submodule_search_locations:
        return None
    tensorflow, program = Path(spec.submodule_search_locations[0]), folder / "floor"
    libraries = [str(tensorflow / f"libtensorflow_{one}.so.2") for one in ("cc", "framework")]
    words = ["-O2", f"-I{tensorflow / 'include'}", f"-Wl,-rpath,{tensorflow}", "-o", str(program)]
    subprocess.run(["cc", *words, str(HERE / "floor.c"), *libraries], check=True)
    return program


def c_call(program: Path, folder: Path, calls: int = 5000) -> float:
    """Return the median microseconds of a call of the C program."""
    signature = savedmodel.read(folder).signatures["serving_default"]
    (given,) = signature.inputs.values()
    words = [given.name.partition(":")[0]]
    for spec in signature.outputs.values():
        operation, _, index = spec.name.partition(":")
        words += [operation, index]
    environ = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [str(program), str(folder), *words, str(calls)],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=LONGEST,
    )
    return float(done.stdout)

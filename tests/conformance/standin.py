"""A small process that stands in for a TensorFlow program: it listens, meets its peers, dies and lives as it is told.

python standin.py STEP...

say TEXT          print a line
config            print TF_CONFIG
sleep SECONDS     wait
serve             listen on the port that TF_CONFIG gives this task, on every address, as TensorFlow does
meet              connect to every peer in TF_CONFIG until all answered
until FILE        wait until FILE exists
once FILE         exit 0 if FILE exists, else make it and go on: tells the first attempt from the next
exit CODE         end with an exit code
kill SIGNAL       end by a signal
deaf              ignore SIGTERM
eat MIB           allocate memory
follow            run until a peer that was met goes away, then exit 1: how collectives die
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time


def main(words: list[str]) -> None:
    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    task = config.get("task", {})
    peers = [
        (kind, index, *address.rsplit(":", 1))
        for kind, addresses in config.get("cluster", {}).items()
        for index, address in enumerate(addresses)
    ]
    connections: list[socket.socket] = []
    eaten = []
    while words:
        step, *words = words
        if step == "say":
            print(words.pop(0), flush=True)
        elif step == "config":
            print(os.environ.get("TF_CONFIG", "no TF_CONFIG"), flush=True)
        elif step == "sleep":
            time.sleep(float(words.pop(0)))
        elif step == "serve":
            own = next(port for kind, index, _, port in peers if (kind, index) == (task["type"], task["index"]))
            serve(int(own))
        elif step == "meet":
            for kind, index, host, port in peers:
                if (kind, index) != (task["type"], task["index"]):
                    connections.append(meet(host, int(port), (f"{kind}-", f"-{index}")))
            print(f"met {len(connections)}", flush=True)
        elif step == "until":
            while not os.path.exists(words[0]):
                time.sleep(0.05)
            words.pop(0)
        elif step == "once":
            path = words.pop(0)
            if os.path.exists(path):
                sys.exit(0)
            with open(path, "x"):
                pass
        elif step == "exit":
            sys.exit(int(words.pop(0)))
        elif step == "kill":
            sys.stdout.flush()
            os.kill(os.getpid(), getattr(signal, words.pop(0)))
            time.sleep(60)
        elif step == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        elif step == "eat":
            eaten.append(b"x" * (int(words.pop(0)) << 20))
        elif step == "follow":
            for connection in connections:
                connection.settimeout(None)
            follow(connections)
        else:
            sys.exit(f"unknown step {step}")


def serve(port: int) -> None:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("0.0.0.0", port))
    server.listen(64)
    held: list[socket.socket] = []

    def accept() -> None:
        while True:
            connection, _ = server.accept()
            connection.sendall(os.environ.get("HOSTNAME", "?").encode() + b"\n")
            held.append(connection)

    threading.Thread(target=accept, daemon=True).start()


def meet(host: str, port: int, name: tuple[str, str]) -> socket.socket:
    deadline = time.monotonic() + 20
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=2)
            greeting = connection.recv(256).decode()
            if not greeting:
                raise ConnectionResetError(f"{name} hung up")
            assert name[0] in greeting, f"{host}:{port} is {greeting!r}, not {name}"
            assert greeting.strip().endswith(name[1]), f"{host}:{port} is {greeting!r}, not {name}"
            return connection
        except OSError:
            if time.monotonic() > deadline:
                sys.exit(f"{name} does not answer at {host}:{port}")
            time.sleep(0.05)


def follow(connections: list[socket.socket]) -> None:
    import select

    while True:
        for connection in select.select(connections, [], [], 1.0)[0]:
            try:
                if connection.recv(256) == b"":
                    sys.exit("a peer is gone: Connection reset by peer")
            except OSError:
                sys.exit("a peer is gone: Connection reset by peer")


if __name__ == "__main__":
    main(sys.argv[1:])

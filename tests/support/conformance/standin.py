"""A small process that stands in for a TensorFlow program: it listens, meets its peers, dies and lives as it is told.

python standin.py STEP...

say TEXT          print a line
config            print TF_CONFIG
sleep SECONDS     wait
serve             listen on the port that TF_CONFIG gives this task, on every address, as TensorFlow does
meet              connect to every peer in TF_CONFIG until all answered
hosted            wait until every peer has connected to what `serve` began
until FILE        wait until FILE exists
make FILE         make FILE
once FILE         exit 0 if FILE exists, else make it and go on: tells the first attempt from the next
first FILE STEP   do the next step only if FILE does not exist, and make it: what only the first attempt does
exit CODE         end with an exit code
kill SIGNAL       end by a signal
deaf              ignore SIGTERM
eat MIB           allocate memory
follow            run until a peer that was met goes away, then exit 1: how collectives die
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import threading
import time

MEETING_SECONDS = 300
"""How long peers may take to come up, on a machine that does much else."""
WORDS_OF_A_STEP = {"serve": 1, "meet": 1, "hosted": 1, "config": 1, "deaf": 1, "follow": 1}


def main(words: list[str]) -> None:
    config = json.loads(os.environ.get("TF_CONFIG", "{}"))
    task = config.get("task", {})
    peers = [
        (kind, index, *address.rsplit(":", 1))
        for kind, addresses in config.get("cluster", {}).items()
        for index, address in enumerate(addresses)
    ]
    connections: list[socket.socket] = []
    guests: list[socket.socket] = []
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
            guests = serve(int(own))
        elif step == "meet":
            for kind, index, host, port in peers:
                if (kind, index) != (task["type"], task["index"]):
                    connections.append(meet(host, int(port), (f"{kind}-", f"-{index}")))
            print(f"met {len(connections)}", flush=True)
        elif step == "hosted":
            while len(guests) < len(peers) - 1:
                time.sleep(0.05)
        elif step == "until":
            while not os.path.exists(words[0]):
                time.sleep(0.05)
            words.pop(0)
        elif step == "make":
            make(words.pop(0))
        elif step == "first":
            path = words.pop(0)
            if os.path.exists(path):
                del words[: WORDS_OF_A_STEP.get(words[0], 2)]
            else:
                make(path)
        elif step == "once":
            path = words.pop(0)
            if os.path.exists(path):
                sys.exit(0)
            make(path)
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


def make(path: str) -> None:
    with open(path, "x"):
        pass


def serve(port: int) -> list[socket.socket]:
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
    return held


def meet(host: str, port: int, name: tuple[str, str]) -> socket.socket:
    deadline = time.monotonic() + MEETING_SECONDS
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=2)
            greeting = connection.recv(256).decode()
            if not greeting:
                raise ConnectionResetError(f"{name} hung up")
            assert name[0] in greeting, f"{host}:{port} is {greeting!r}, not {name}"
            # A pod of a Job has five letters more.
            fits = re.search(rf"{name[1]}(-[0-9a-z]{{5}})?$", greeting.strip())
            assert fits, f"{host}:{port} is {greeting!r}, not {name}"
            return connection
        except OSError:
            if time.monotonic() > deadline:
                sys.exit(f"{name} does not answer at {host}:{port}")
            time.sleep(0.05)


def follow(connections: list[socket.socket]) -> None:
    """Ends when a peer is gone, and as late as a collective notices it: the peer's own end is known by then."""
    import select

    while True:
        for connection in select.select(connections, [], [], 1.0)[0]:
            try:
                gone = connection.recv(256) == b""
            except OSError:
                gone = True
            if gone:
                time.sleep(1.5)
                sys.exit("a peer is gone: Connection reset by peer")


def stay_behind() -> None:
    """Leaves the work to a child and ends as that does.

    The kernel spares the first process of a container the signals that it does not handle, its own ones too; images
    of real programs have a small init for that.
    """
    child = os.fork()
    if child == 0:
        return
    signal.signal(signal.SIGTERM, lambda number, frame: os.kill(child, number))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    if os.getpid() == 1:
        stay_behind()
    main(sys.argv[1:])

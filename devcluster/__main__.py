"""The command line: `python -m devcluster`."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from devcluster import build, cluster, parts, state
from devcluster.cache import say
from devcluster.cluster import CONTROL_PLANE, DEFAULT, NODE, Shape
from devcluster.errors import Refused
from devcluster.state import Folder


def main(words: Sequence[str] | None = None) -> int:
    options = parser().parse_args(words)
    try:
        return int(options.run(options))
    except Refused as refusal:
        say(f"devcluster: {refusal}")
        return 2
    except KeyboardInterrupt:
        return 130


def up(options: argparse.Namespace) -> int:
    client = cluster.up(options.name, Shape.of(options.profile, options.nodes))
    named = "" if options.name == DEFAULT else f" --name {options.name}"
    say(f"kubeconfig: {client.kubeconfig}")
    say(f'to use it in this shell: eval "$({sys.executable} -m devcluster env{named})"')
    return 0


def down(options: argparse.Namespace) -> int:
    for name in state.names() if options.all else [options.name]:
        say(f"cluster {name}: {'down' if cluster.down(name) else 'was not up'}")
    return 0


def status(options: argparse.Namespace) -> int:
    """Print what is running; return 0 if the cluster is up."""
    folder = Folder(options.name)
    if options.name not in state.names():
        print(f"cluster {options.name}: not up")
        return 1
    is_up, shape = cluster.is_up(folder), Shape(*folder.read("shape") or ())
    print(f"cluster {options.name}: {'up' if is_up else 'broken; `up` restarts it'} ({shape})")
    for one in folder.started():
        print(f"  {one.name:<24} {f'pid {one.pid}' if one.alive() else 'ended'}")
    print(f"  logs in {folder.logs}")
    return 0 if is_up else 1


def env(options: argparse.Namespace) -> int:
    client = cluster.attach(options.name)
    print(f"export KUBECONFIG={shlex.quote(str(client.kubeconfig))}")
    print(f"export PATH={shlex.quote(str(client.programs))}:$PATH")
    return 0


def image(options: argparse.Namespace) -> int:
    if not options.archive.is_file():
        raise Refused(f"{options.archive} is not a file; name an OCI or Docker archive")
    cluster.attach(options.name).load_image(options.archive)
    say(f"cluster {options.name}: loaded {options.archive} into every node")
    return 0


def make(options: argparse.Namespace) -> int:
    """Build programs and print their paths; without names, build all that this user's clusters need."""
    for name in options.parts:
        if name not in parts.ALL:
            raise Refused(f"unknown part {name}; choose from {', '.join(parts.ALL)}")
    if not options.parts:
        cluster.prepare(Shape.of(CONTROL_PLANE if os.geteuid() else NODE, None))
    for name in options.parts or [part.name for part in parts.CONTROL_PLANE]:
        print(build.binaries(parts.ALL[name]) / name)
    return 0


def sweep(options: argparse.Namespace) -> int:
    for name in cluster.sweep():
        say(f"cluster {name}: removed; a killed run had left it")
    return 0


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m devcluster", description="Run a real Kubernetes on this machine.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    named = argparse.ArgumentParser(add_help=False)
    named.add_argument("--name", default=DEFAULT, help="name of the cluster (default: %(default)s)")

    one = commands.add_parser("up", parents=[named], help="start a cluster and wait until it is ready")
    one.add_argument(
        "--profile", choices=(CONTROL_PLANE, NODE), default=CONTROL_PLANE, help="what to start (default: %(default)s)"
    )
    one.add_argument("--nodes", type=int, metavar="N", help="number of nodes, with --profile node (default: 1)")
    one.set_defaults(run=up)
    one = commands.add_parser("down", parents=[named], help="stop a cluster and remove everything it made")
    one.add_argument("--all", action="store_true", help="stop every cluster of this user")
    one.set_defaults(run=down)
    commands.add_parser("status", parents=[named], help="show what is running").set_defaults(run=status)
    commands.add_parser("env", parents=[named], help="print export lines for KUBECONFIG and PATH").set_defaults(run=env)
    one = commands.add_parser("image", parents=[named], help="load an image into every node")
    one.add_argument("verb", choices=["load"], metavar="load")
    one.add_argument("archive", type=Path, metavar="ARCHIVE", help="OCI or Docker archive")
    one.set_defaults(run=image)
    one = commands.add_parser("build", help="build programs into the cache")
    one.add_argument("parts", nargs="*", metavar="PART", help=f"any of: {', '.join(parts.ALL)}")
    one.set_defaults(run=make)
    commands.add_parser("sweep", help="remove clusters that killed test runs left").set_defaults(run=sweep)
    return top


if __name__ == "__main__":
    sys.exit(main())

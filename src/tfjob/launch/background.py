"""The background process that drives a run, with all kinds of this machine."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from tfjob.durations import durations_from
from tfjob.kinds import machine_kinds
from tfjob.local.run.driver import Driver
from tfjob.local.state.home import Home
from tfjob.local.state.store import open_store


def main(arguments: list[str]) -> None:
    """Drive a run; arguments: `HOME UID LOCK`, where LOCK is the inherited descriptor of the driver lock."""
    home, uid, lock = Home(Path(arguments[0])), arguments[1], int(arguments[2])
    os.set_inheritable(lock, False)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    store = open_store(home.database)
    run = store.run(uid)
    if run is not None:
        kinds = machine_kinds(durations_from(os.environ))
        asyncio.run(Driver(home, store, run, kinds, attached=False, lock=lock).drive())


if __name__ == "__main__":
    main(sys.argv[1:])

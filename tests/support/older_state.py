"""A state folder that an older release wrote, laid out as if that release had run on this machine.

`tools/older_state.py` makes the files, before the schema of the database changes.
"""

from __future__ import annotations

import json
import platform
import socket
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from tfjob.local.state.home import Home, boot_id

STATES = Path(__file__).parent / "data" / "local" / "older_state"
SCHEMAS = sorted(int(path.name.removeprefix("schema-")) for path in STATES.iterdir())


def lay_out(schema: int, folder: Path) -> Path:
    """Write the state of a schema below the folder and return the state folder.

    Its runs: `done` succeeded twice, `broken` failed after a restart, `paused` is suspended, `removed` was deleted,
    and `running` was detached when its driver and its pods were killed. All share the claim `kept`.
    """
    home, project = folder / "home", folder / "project"
    project.mkdir(parents=True)
    home.mkdir(mode=0o700)
    for path, text in json.loads(_filled(STATES / f"schema-{schema}" / "files.json", home, project)).items():
        if text is None:
            (home / path).mkdir(mode=0o700)
        else:
            (home / path).write_text(text)
    with closing(sqlite3.connect(Home(home).database)) as connection:
        connection.executescript(_filled(STATES / f"schema-{schema}" / "state.sql", home, project))
    return home


def _filled(file: Path, home: Path, project: Path) -> str:
    text = file.read_text()
    places = {"HOME": home, "PROJECT": project, "PREFIX": sys.prefix, "ROOT": Path(__file__).parents[2]}
    machine = {"BOOT": boot_id(), "MACHINE": platform.platform(), "HOST": socket.gethostname()}
    for placeholder, value in (places | machine).items():
        text = text.replace(f"@{placeholder}@", str(value))
    return text

"""TensorFlow's place in an image of the tests, which has this file as `tensorflow`: a server that only listens.

write(archive, name)    the image: this, and a program that makes the tasks of a job meet
"""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class Server:
    """As much of tf.distribute.Server as the default parameter server uses."""

    def __init__(self, cluster: dict[str, list[str]], *, job_name: str, task_index: int, **_: Any) -> None:
        self.target = cluster[job_name][task_index]
        listener = socket.create_server(("", int(self.target.rpartition(":")[2])))
        threading.Thread(target=self._welcome, args=(listener,), daemon=True).start()

    @staticmethod
    def _welcome(listener: socket.socket) -> None:
        while True:
            listener.accept()[0].close()


ConfigProto = SimpleNamespace
distribute = SimpleNamespace(Server=Server)
train = SimpleNamespace(ClusterSpec=dict)


def write(archive: Path, name: str) -> None:
    """Writes the image as an OCI archive."""
    from devcluster import images
    from support.conformance.standin_image import interpreter

    root = interpreter()
    files = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    (library,) = (path.parent for path in root.glob("usr/local/lib/python*/os.py"))
    files[f"{library.relative_to(root)}/site-packages/tensorflow.py"] = Path(__file__)
    program = Path(__file__).parents[2] / "src" / "tfjob" / "operator" / "selftest" / "rendezvous.py"
    files["opt/meeting.py"] = program
    images.write(archive, name, files, ["python", "/opt/meeting.py"], folders=("tmp",))

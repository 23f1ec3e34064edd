"""What a container says of its end: the file that it may write, or the last lines of its log."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .container_log import ContainerLog
    from .pod_spec import ContainerSpec, Mount

_BYTES, _LINES = 4096, 20
_DEFAULT_PATH = "/dev/termination-log"


class TerminationMessage:
    """The message of one container, in a file of its pod's directory."""

    def __init__(self, pod_dir: str, spec: ContainerSpec) -> None:
        self._file = f"{pod_dir}/termination/{spec['name']}"
        self._path = spec["terminationMessagePath"] or _DEFAULT_PATH
        self._falls_back = spec["terminationMessagePolicy"] == "FallbackToLogsOnError"

    @property
    def mount(self) -> Mount:
        """How the container sees the file."""
        return {"source": self._file, "target": self._path, "readOnly": False}

    def clear(self) -> None:
        """An empty file, for a new run."""
        os.makedirs(os.path.dirname(self._file), mode=0o700, exist_ok=True)
        fd = os.open(self._file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        os.fchmod(fd, 0o666)  # whatever user the program becomes
        os.close(fd)

    def read(self, code: int, log: ContainerLog) -> str:
        """What is to be said of a run that ended with this code."""
        try:
            with open(self._file, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _BYTES))
                text = file.read(_BYTES).decode("utf-8", "replace")
        except OSError:
            text = ""
        if text or code == 0 or not self._falls_back:
            return text
        return log.last_lines(_LINES, _BYTES)

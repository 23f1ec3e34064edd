"""A container's output as rotated files of CRI lines: `<timestamp> stdout F|P <text>`.

P marks a part of a line (too long, or not finished yet), F its last part. A full disk neither blocks nor ends the
writer: it drops what it cannot write, and counts it.

    log, log.1 ... log.N-1   the newest first
    truncated                the number of bytes that rotation has deleted

`TerminationMessage` is the file that a container may write before it ends, or otherwise the last lines of its log.
"""

from __future__ import annotations

import os
import re
import time

from . import pod_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .pod_spec import ContainerSpec, Mount


_PART = 64 * 1024  # the longest record
_PATIENCE = 0.25  # an unfinished line is written after this many seconds
_TAIL = 32 * 1024
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_BYTES, _LINES = 4096, 20
_TRACEBACK = b"Traceback (most recent call last):"
_TRACEBACK_LINES = 500  # Keras may add a hundred frames of three lines or more below the program's own frame
_DEFAULT_PATH = "/dev/termination-log"


def timestamp(seconds: float) -> str:
    whole, micros = divmod(round(seconds * 1_000_000), 1_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{micros:06d}Z"


class ContainerLog:
    """Writes the output of one run of a container below `directory`."""

    def __init__(self, directory: str, max_bytes: int, files: int) -> None:
        self.lost = 0  # bytes that could not be written
        self._unreported = 0  # those of them that no line of the log mentions yet
        self._path = f"{directory}/log"
        self._max_bytes = max_bytes
        self._files = files  # at least 2
        self._partial = b""  # a line that is not finished yet
        self._partial_since = 0.0
        self.tail = b""  # the end of the output, for a termination message
        self._torn = False  # the last record was written only in part
        self._fd = -1
        self._size = 0
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
        except OSError:
            pass  # the disk is full: opening fails too, and is retried with each record
        self._open()

    def feed(self, data: bytes) -> None:
        self.tail = (self.tail + data)[-_TAIL:]
        *lines, rest = (self._partial + data).split(b"\n")
        if lines or not self._partial:
            self._partial_since = time.monotonic()  # when the oldest waiting byte arrived
        if max(map(len, lines), default=0) <= _PART:
            self._write(lines, b"F")
        else:
            for line in lines:
                *parts, last = _parts(line)
                self._write(parts, b"P")
                self._write([last], b"F")
        *parts, self._partial = _parts(rest)
        self._write(parts, b"P")

    def flush_in(self) -> float | None:
        """Return the seconds until `flush` is due; None if nothing is waiting."""
        if not self._partial:
            return None
        return max(0.0, self._partial_since + _PATIENCE - time.monotonic())

    def flush(self) -> None:
        if self._partial:
            self._write([self._partial], b"P")
            self._partial = b""

    def close(self) -> None:
        self.flush()
        self._report_loss()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        try:
            self._fd = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._size = os.fstat(self._fd).st_size
        except OSError:
            self._fd = -1

    def _write(self, texts: list[bytes], tag: bytes) -> None:
        if not texts:
            return
        self._report_loss()
        prefix = timestamp(time.time()).encode() + b" stdout " + tag + b" "
        lost = self._put(prefix + (b"\n" + prefix).join(texts) + b"\n")
        self.lost += lost
        self._unreported += lost

    def _report_loss(self) -> None:
        if self._unreported:
            text = f"[tfjob: lost {self._unreported} bytes of output: writing the log failed]"
            if self._put(f"{timestamp(time.time())} stdout F {text}\n".encode()) == 0:
                self._unreported = 0

    def _put(self, data: bytes) -> int:
        """Append a record; return how many bytes were lost."""
        if self._fd < 0:
            self._open()
        if self._torn:
            data = b"\n" + data
        try:
            written = os.write(self._fd, data)
        except OSError:
            return len(data)
        self._torn = written < len(data)
        self._size += written
        if self._size > self._max_bytes:
            self._rotate()
        return len(data) - written

    def _rotate(self) -> None:
        try:
            self._note_truncation(f"{self._path}.{self._files - 1}")
            for number in range(self._files - 2, 0, -1):
                if os.path.exists(f"{self._path}.{number}"):
                    os.rename(f"{self._path}.{number}", f"{self._path}.{number + 1}")
            os.rename(self._path, f"{self._path}.1")
        except OSError:
            return  # the file keeps growing, and the next record retries
        os.close(self._fd)
        self._open()

    def _note_truncation(self, oldest: str) -> None:
        try:
            gone = os.stat(oldest).st_size
        except FileNotFoundError:
            return
        marker = f"{os.path.dirname(self._path)}/truncated"
        pod_files.write_json(marker, gone + (pod_files.read_json(marker) or 0))


def _parts(line: bytes) -> list[bytes]:
    return [line[start : start + _PART] for start in range(0, len(line), _PART)] or [b""]


def plain_tail(output: bytes, count: int, max_bytes: int) -> str:
    """Return the last lines of raw output as valid text without colors; a redrawn line is shown in its last state."""
    lines = []
    for raw in output.rstrip().split(b"\n")[-count:]:
        visible = raw.rstrip(b"\r").rpartition(b"\r")[2]
        text = _ANSI.sub("", visible.decode("utf-8", "replace"))
        lines.append("".join(char for char in text if char == "\t" or char >= " "))
    return "\n".join(lines).encode()[-max_bytes:].decode("utf-8", "ignore")


class TerminationMessage:
    """The termination message of one container, in a file of its pod's folder."""

    def __init__(self, pod_dir: str, spec: ContainerSpec) -> None:
        self._file = f"{pod_dir}/termination/{spec['name']}"
        self._path = spec["terminationMessagePath"] or _DEFAULT_PATH
        self._falls_back = spec["terminationMessagePolicy"] == "FallbackToLogsOnError"

    @property
    def mount(self) -> Mount:
        return {"source": self._file, "target": self._path, "readOnly": False}

    def clear(self) -> None:
        os.makedirs(os.path.dirname(self._file), mode=0o700, exist_ok=True)
        fd = os.open(self._file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        os.fchmod(fd, 0o666)  # the program may change its user
        os.close(fd)

    def read(self, code: int, log: ContainerLog) -> str:
        """Return the message of a run that ended with this exit code."""
        try:
            with open(self._file, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _BYTES))
                text = file.read(_BYTES).decode("utf-8", "replace")
        except OSError:
            text = ""
        if text or code == 0 or not self._falls_back:
            return text
        if _TRACEBACK in log.tail:
            return plain_tail(log.tail, _TRACEBACK_LINES, _TAIL)
        return plain_tail(log.tail, _LINES, _BYTES)

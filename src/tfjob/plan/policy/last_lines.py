"""The last lines of a failed replica, as the status keeps them.

A Python failure is reduced to what its author can change: the last frame of the program itself and the exception.
Arrays and native stack frames are counted instead of shown. The log keeps everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, takewhile

import msgspec

from tfjob.plan.events import SENTENCE_BYTES, shortened

LINES, BYTES = 20, 4096
FRAME_LINES = 4
"""A frame has its place, its source and a line of carets; Python 3.13 shows several lines of source."""
FEW = 3
"""Fewer lines of numbers or native frames in a row are shown."""

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
TRACEBACK, IGNORED = "Traceback (most recent call last):", "Exception ignored in"
FRAME = re.compile(r'( +)File "([^"]+)", line \d+(?:, in |$)')
LIBRARY = re.compile(r"<|.*/(?:site|dist)-packages/|.*/lib(?:64)?/python3|.*/__autograph_generated_file")
INLINE = ("<string>", "<stdin>")
"""The files of a program that the command line or a pipe contains; libraries use `<string>` too."""
NUMBERS = re.compile(
    r"(?=.*[\[\],])(?=.*(?:\d|\.\.\.))"
    r"(?:[\s\[\](){},.:+>\d-]|e[+-]|nan|inf|True|False|array\(|dtype=\w+|shape=|<tf\.Tensor.*numpy=)+"
)
NATIVE = re.compile(r"\s*(?:@|#\d+)\s+0x[0-9a-f]{6,}|\t[\w:~<>]+::\w|\s*\S+\.so[.\d]*\(.*\)\s*\[0x[0-9a-f]+\]")


def plain_lines(message: str) -> list[str]:
    """Return the lines of a termination message as a terminal shows them, without colors and control characters."""
    return [_plain(line) for line in ANSI.sub("", message).rstrip().split("\n")]


def last_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines that show why a replica failed, limited so that a status stays small."""
    kept = fitting(_of_python(lines) or _without_noise(lines), BYTES)
    return [] if kept == [""] else kept


def fitting(lines: Sequence[str], limit: int) -> list[str]:
    """Return the last lines that fit into `limit` bytes of JSON."""
    kept: list[str] = []
    room = limit
    for line in reversed(lines[-LINES:]):
        cut = _cut(line, limit)
        room -= _size(cut)
        if room < 0:
            break
        kept.append(cut)
    return kept[::-1]


def _of_python(lines: Sequence[str]) -> list[str]:
    """Return the last frame of the program and the exception; empty if no Python failure is visible."""
    start = _start(lines)
    if start is None:
        return []
    header = [TRACEBACK] if lines[start] == TRACEBACK else []
    body = lines[start + len(header) :]
    stack = list(takewhile(lambda line: line.startswith(" "), body))
    exception = [line for line in takewhile(lambda line: not line.startswith(IGNORED), body[len(stack) :]) if line]
    frame = [*header, *_own_frame(stack)]
    head = [shortened(line, SENTENCE_BYTES) for line in (*frame, *exception[:1])]
    rest = _without_noise([*_without_library_frames(exception[1:])])[-(LINES - len(head)) :]
    return [*head, *fitting(rest, max(0, BYTES - sum(map(_size, head))))]


def _start(lines: Sequence[str]) -> int | None:
    """Return where the last traceback starts; the kubelet may have cut its first line."""
    for index in reversed(range(len(lines))):
        if lines[index] == TRACEBACK and not (index and lines[index - 1].startswith(IGNORED)):
            return index
    return next((index for index, line in enumerate(lines) if line.startswith("  File ") and FRAME.match(line)), None)


def _own_frame(stack: Sequence[str]) -> list[str]:
    """Return the last frame that is not in a library, and how many frames of libraries follow it."""
    starts = [index for index, line in enumerate(stack) if FRAME.match(line)]
    if not starts:
        return list(stack[-FRAME_LINES:])
    frames = [stack[start:end] for start, end in zip(starts, [*starts[1:], len(stack)], strict=True)]
    own = [index for index, frame in enumerate(frames) if not LIBRARY.match(_file(frame[0]))]
    inline = [index for index, frame in enumerate(frames) if _file(frame[0]) in INLINE]
    chosen = max(own or inline or [len(frames) - 1])
    hidden = len(frames) - 1 - chosen
    note = f"  [{hidden} library frame{'s' if hidden > 1 else ''}]"
    return [*frames[chosen][:FRAME_LINES], *([note] if hidden else [])]


def _without_library_frames(lines: Iterable[str]) -> Iterator[str]:
    """Drop the frames of libraries that TensorFlow writes into a message, each with the source below it."""
    hidden: str | None = None
    for line in lines:
        if found := FRAME.match(line):
            hidden = found[1] if LIBRARY.match(found[2]) else None
        elif hidden is not None and not line.startswith(f"{hidden} "):
            hidden = None
        if hidden is None:
            yield line


def _without_noise(lines: Sequence[str]) -> list[str]:
    """Replace arrays and native stacks by the number of their lines."""
    if any(map(_noise, lines)):
        lines = [line for line in lines if line]  # empty lines separate the rows of arrays
    kept: list[str] = []
    for noise, group in groupby(lines, _noise):
        run = list(group)
        kept += [f"[{len(run)} {noise}]"] if noise and len(run) >= FEW else run
    return kept


def _noise(line: str) -> str:
    if NUMBERS.fullmatch(line.strip()):
        return "lines of numbers"
    return "native frames" if NATIVE.match(line) else ""


def _file(frame: str) -> str:
    found = FRAME.match(frame)
    return found[2] if found else ""


def _plain(line: str) -> str:
    """Return a line as a terminal shows it: a progress bar overwrites itself, control characters disappear."""
    shown = line.rstrip("\r").rsplit("\r", 1)[-1]
    return CONTROL.sub("", shown.encode(errors="replace").decode())


def _cut(line: str, limit: int) -> str:
    """Cut the beginning of a line that alone exceeds the limit."""
    while line and _size(line) > limit:
        line = line[len(line) // 8 + 1 :]
    return line


def _size(line: str) -> int:
    return len(msgspec.json.encode(line)) + 1

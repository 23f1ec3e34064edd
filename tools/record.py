"""Records a real terminal session and draws it as an animated SVG; needs only the standard library.

    python tools/record.py run docs/recording.cast     run the session, write it in asciicast v2 format
    python tools/record.py draw docs/recording.cast docs/recording.svg

The session is `SESSION` below. Waiting is shortened to `LONGEST_PAUSE` when it is drawn; nothing else is changed.
"""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

WIDTH, HEIGHT = 92, 22
LONGEST_PAUSE = 1.2
HOLD = 6.0
PROMPT = "\x1b[32m$\x1b[0m "


@dataclass(frozen=True)
class Meanwhile:
    """A command that somebody types in another terminal as soon as a text appears in this one."""

    text: str
    command: str


@dataclass(frozen=True)
class Step:
    """A command of the session."""

    command: str
    meanwhile: tuple[Meanwhile, ...] = ()


SESSION = (
    Step(
        "tfjob run examples/mnist/tfjob.yaml",
        (Meanwhile("step 300/600 loss", "tfjob exec mnist worker-0 -- pkill -9 python"),),
    ),
    Step("tfjob ps"),
)


# Recording.


@dataclass
class Recording:
    """What appeared on the terminal, and when."""

    events: list[tuple[float, str]] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def add(self, text: str) -> None:
        """Notes that a text appeared now."""
        self.events.append((time.monotonic() - self.began, text.replace("\r\n", "\n")))

    def write(self, path: Path) -> None:
        """As asciicast v2."""
        head = {"version": 2, "width": WIDTH, "height": HEIGHT}
        lines = [head, *([round(moment, 3), "o", text.replace("\n", "\r\n")] for moment, text in self.events)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def record(target: Path) -> None:
    """Runs the session in a state folder of its own."""
    recording = Recording()
    with tempfile.TemporaryDirectory(prefix="tfjob-") as home:
        environ = {**os.environ, "TFJOB_HOME": home, "TERM": "xterm-256color", "COLUMNS": str(WIDTH)}
        for step in SESSION:
            recording.add(f"{PROMPT}{step.command}\n")
            code = perform(step, environ, recording)
            print(f"{step.command}: exit {code}")
        recording.add(PROMPT)
    recording.write(target)


def perform(step: Step, environ: dict[str, str], recording: Recording) -> int:
    """Runs one command on a terminal of its own and records all that it says."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    process = subprocess.Popen(
        step.command.split(), stdin=theirs, stdout=theirs, stderr=theirs, env=environ, start_new_session=True
    )
    os.close(theirs)
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    waiting = list(step.meanwhile)
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # how Linux says that the other side is closed
            break
        if not data:
            break
        text = decoder.decode(data)
        recording.add(text)
        for other in [other for other in waiting if other.text in text]:
            waiting.remove(other)
            recording.add(f"\x1b[33m# in another terminal: {other.command}\x1b[0m\n")
            subprocess.run(other.command.split(), env=environ, check=True)
    os.close(ours)
    return process.wait()


# Drawing.

COLOURS = {30: "#7f848e", 31: "#e06c75", 32: "#98c379", 33: "#e5c07b", 34: "#61afef", 35: "#c678dd", 36: "#56b6c2"}
CELL, ROW, MARGIN, TOP = 8.4, 19, 18, 44
SGR = re.compile(r"\x1b\[([0-9;]*)m")
OTHER_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-ln-z]|\x1b\][^\x07]*\x07|\r")


@dataclass(frozen=True)
class Line:
    """A line of the terminal with the moment at which it appeared."""

    moment: float
    text: str


def draw(source: Path, target: Path) -> None:
    """An SVG in which every line appears at its moment and the screen scrolls; it ends, holds, and begins again."""
    lines = screen_lines(source)
    total = lines[-1].moment + HOLD
    width, height = WIDTH * CELL + 2 * MARGIN, HEIGHT * ROW + TOP + MARGIN
    styles, rows = [], []
    for number, line in enumerate(lines):
        styles.append(
            f"@keyframes l{number}{{0%{{opacity:0}}{percent(line.moment, total)}{{opacity:1}}to{{opacity:1}}}}"
            f"#l{number}{{animation:l{number} {total:.2f}s step-end infinite}}"
        )
        rows.append(f'<text id="l{number}" y="{number * ROW}">{spans(line.text)}</text>')
    styles.append(scrolling(lines, total))
    target.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}"'
        f' height="{height}" role="img" aria-label="A terminal session: {escape(SESSION[0].command)}">\n'
        "<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        f"fill:#abb2bf;white-space:pre}}{''.join(styles)}</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#1e2127"/>'
        '<circle cx="22" cy="20" r="6" fill="#e06c75"/><circle cx="42" cy="20" r="6" fill="#e5c07b"/>'
        '<circle cx="62" cy="20" r="6" fill="#98c379"/>\n'
        f'<svg x="{MARGIN}" y="{TOP - ROW + 4}" width="{width - MARGIN:.0f}" height="{HEIGHT * ROW + 6}">'
        f'<g id="scroll" xml:space="preserve" transform="translate(0,{ROW - 4 - hidden(lines, len(lines)) * ROW})">\n'
        + "\n".join(rows)
        + "\n</g></svg></svg>\n"
    )


def screen_lines(source: Path) -> list[Line]:
    """The lines of a recording, with long waits shortened."""
    found: list[Line] = []
    moment = last = 0.0
    rest, since = "", 0.0
    for event in source.read_text().splitlines()[1:]:
        at, _, text = json.loads(event)
        moment += min(at - last, LONGEST_PAUSE)
        last = at
        since = since if rest else moment
        *whole, rest = (rest + OTHER_ESCAPES.sub("", text)).split("\n")
        for one in whole:
            found += [Line(since, row) for row in wrapped(one)]
            since = moment
    return [*found, Line(moment, rest)] if rest else found


def wrapped(text: str) -> list[str]:
    """A line as a terminal shows it: what does not fit goes to the next row, in its colour."""
    rows, room, style = [""], WIDTH, ""
    for number, part in enumerate(SGR.split(text)):
        if number % 2:
            style = f"\x1b[{part}m"
            rows[-1] += style
            continue
        while len(part) > room:
            rows[-1] += part[:room]
            rows.append(style)
            part, room = part[room:], WIDTH
        rows[-1] += part
        room -= len(part)
    return rows


def scrolling(lines: list[Line], total: float) -> str:
    """The keyframes that keep the last line on the screen."""
    steps = {percent(line.moment, total): hidden(lines, number + 1) for number, line in enumerate(lines)}
    frames = "".join(f"{at}{{transform:translateY({ROW - 4 - away * ROW}px)}}" for at, away in steps.items())
    last = ROW - 4 - hidden(lines, len(lines)) * ROW
    return (
        f"@keyframes s{{{frames}to{{transform:translateY({last}px)}}}}"
        f"#scroll{{animation:s {total:.2f}s step-end infinite}}"
    )


def hidden(lines: list[Line], shown: int) -> int:
    """How many lines have left the screen when `shown` have appeared."""
    return max(0, min(shown, len(lines)) - HEIGHT)


def percent(moment: float, total: float) -> str:
    """A moment as CSS writes it."""
    return f"{moment / total * 100:.2f}%"


def spans(text: str) -> str:
    """A line's text with its colours."""
    found, style = [], ""
    for number, part in enumerate(SGR.split(text)):
        if number % 2:
            style = styled(style, [int(code or 0) for code in part.split(";")])
        elif part:
            found.append(f'<tspan style="{style}">{escape(part)}</tspan>' if style else escape(part))
    return "".join(found)


def styled(style: str, codes: list[int]) -> str:
    """The CSS after some "select graphic rendition" codes."""
    for code in codes:
        if code == 0:
            style = ""
        elif code in (1, 2):
            style += "font-weight:bold;" if code == 1 else "opacity:.6;"
        elif code % 60 in COLOURS:
            style += f"fill:{COLOURS[code % 60]};"
    return style


def main(arguments: list[str]) -> int:
    """Does what the first word says."""
    match arguments:
        case ["run", target]:
            record(Path(target))
        case ["draw", source, target]:
            draw(Path(source), Path(target))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

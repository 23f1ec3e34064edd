"""Record a real terminal session and draw it as an animated SVG.

    python tools/record.py run docs/recording.cast     run the session, write it in asciicast v2 format
    python tools/record.py draw docs/recording.cast docs/recording.svg

`SESSION` below defines the session. The drawing shortens pauses to `LONGEST_PAUSE`, and joins screens that follow each
other within `SHORTEST_FRAME`. Nothing else is changed.
"""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import pyte  # type: ignore[import-untyped]

WIDTH, HEIGHT = 92, 26
LONGEST_PAUSE = 1.2
SHORTEST_FRAME = 0.25
HOLD = 6.0
PROMPT = "\x1b[32m$\x1b[0m "
OUTPUT, MARK = "o", "m"
"""The kinds of asciicast events in a recording."""
NOTE_SECONDS = 5.0


@dataclass
class Meanwhile:
    """Another terminal, in which a replica is killed by its PID as soon as `text` appears in the recorded one.

    `tfjob status` starts when `early` appears, because it may take longer than the rest of the training.
    """

    early: str
    text: str
    job: str
    replica: str
    status: subprocess.Popen[bytes] | None = None

    def look(self, environ: dict[str, str]) -> None:
        command = ["tfjob", "status", self.job, "-o", "json"]
        self.status = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE)

    def kill(self) -> str:
        """Kill the replica and return the command that does the same."""
        assert self.status is not None
        shown, _ = self.status.communicate()
        pids = {replica["name"]: replica["pid"] for replica in json.loads(shown)["replicas"]}
        os.kill(pids[self.replica], signal.SIGKILL)
        return f"kill -9 {pids[self.replica]}   # {self.replica}, by tfjob status {self.job}"


@dataclass(frozen=True)
class Step:
    """A command of the session."""

    command: str
    meanwhile: tuple[Meanwhile, ...] = ()


SESSION = (
    Step("tfjob init --fast"),
    Step(
        "tfjob run tfjob.yaml",
        (Meanwhile("step 50/", "step 400/", "multi-worker", "worker-1"),),
    ),
    Step("tfjob ps"),
)


# Recording.


@dataclass
class Recording:
    """The output of the terminal, with times."""

    events: list[tuple[float, str, str]] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def add(self, text: str, kind: str = OUTPUT) -> None:
        """Record a text that appeared now, or, with MARK, another event."""
        self.events.append((time.monotonic() - self.began, kind, text.replace("\r\n", "\n")))

    def write(self, path: Path) -> None:
        """Write the recording in asciicast v2 format."""
        head = {"version": 2, "width": WIDTH, "height": HEIGHT}
        lines = [head, *([round(at, 3), kind, text.replace("\n", "\r\n")] for at, kind, text in self.events)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def record(target: Path) -> None:
    """Run the session in a new state folder."""
    recording = Recording()
    with tempfile.TemporaryDirectory(prefix="tfjob-") as home:
        project = Path(home, "project")
        project.mkdir()
        (project / "tfjob.toml").write_text("[local]\nwarm_idle = 0\n")  # no process outlives the recording
        environ = {**os.environ, "TFJOB_HOME": f"{home}/state", "TERM": "xterm-256color"}
        for step in SESSION:
            recording.add(f"{PROMPT}{step.command}\n")
            code = perform(step, environ, project, recording)
            print(f"{step.command}: exit {code}")
        recording.add(PROMPT)
    recording.write(target)


def perform(step: Step, environ: dict[str, str], project: Path, recording: Recording) -> int:
    """Run one command on a new terminal and record its output."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    process = subprocess.Popen(
        step.command.split(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environ,
        cwd=project,
        start_new_session=True,
    )
    os.close(theirs)
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    waiting = list(step.meanwhile)
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # on Linux: the other side is closed
            break
        if not data:
            break
        text = decoder.decode(data)
        recording.add(text)
        for other in list(waiting):
            if other.status is None and other.early in text:
                other.look(environ)
            if other.status is not None and other.text in text:
                waiting.remove(other)
                recording.add(f"in another terminal: {other.kill()}", MARK)
    os.close(ours)
    return process.wait()


# Drawing.

CELL, ROW, MARGIN, TOP = 8.4, 19, 18, 44
PLAIN = "#abb2bf"
COLORS = {
    "black": "#7f848e",
    "red": "#e06c75",
    "green": "#98c379",
    "brown": "#e5c07b",
    "blue": "#61afef",
    "magenta": "#c678dd",
    "cyan": "#56b6c2",
    "white": "#dcdfe4",
}


@dataclass(frozen=True)
class Frame:
    """The rows of the screen as SVG, from a moment on; `note` describes what happens in another terminal."""

    moment: float
    rows: tuple[str, ...]
    note: str = ""


def draw(source: Path, target: Path) -> None:
    """Write an SVG that shows every screen at its moment, holds the last one, and starts again."""
    shown = frames(source)
    total = shown[-1].moment + HOLD
    numbers = {row: number for number, row in enumerate(dict.fromkeys(row for one in shown for row in one.rows if row))}
    rows = [f'<text id="r{number}" xml:space="preserve">{row}</text>' for row, number in numbers.items()]
    styles, groups = [], []
    for number, frame in enumerate(shown):
        ends = shown[number + 1].moment if number + 1 < len(shown) else total
        styles.append(
            f"@keyframes f{number}{{0%{{opacity:0}}{percent(frame.moment, total)}{{opacity:1}}"
            f"{percent(ends, total)}{{opacity:{0 if ends < total else 1}}}to{{opacity:{0 if ends < total else 1}}}}}"
            f"#f{number}{{animation:f{number} {total:.2f}s step-end infinite}}"
        )
        used = [f'<use href="#r{numbers[row]}" y="{at * ROW}"/>' for at, row in enumerate(frame.rows) if row]
        note = f'<text x="70" y="{ROW - TOP - 7}" style="fill:{COLORS["brown"]}">{escape(frame.note)}</text>'
        used += [note] if frame.note else []
        hidden = "" if ends == total else ' opacity="0"'  # a viewer without animation shows the last screen
        groups.append(f'<g id="f{number}"{hidden}>{"".join(used)}</g>')
    width, height = WIDTH * CELL + 2 * MARGIN, HEIGHT * ROW + TOP + MARGIN
    target.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}"'
        f' height="{height}" role="img" aria-label="A terminal session: {escape(SESSION[1].command)}">\n'
        "<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        f"fill:{PLAIN};white-space:pre}}{''.join(styles)}</style>\n"
        f"<defs>\n{chr(10).join(rows)}\n</defs>\n"
        '<rect width="100%" height="100%" rx="8" fill="#1e2127"/>'
        '<circle cx="22" cy="20" r="6" fill="#e06c75"/><circle cx="42" cy="20" r="6" fill="#e5c07b"/>'
        '<circle cx="62" cy="20" r="6" fill="#98c379"/>\n'
        f'<g transform="translate({MARGIN},{TOP + 8})">\n' + "\n".join(groups) + "\n</g></svg>\n"
    )


def frames(source: Path) -> list[Frame]:
    """Return the screens of a recording, with long pauses shortened."""
    screen = pyte.Screen(WIDTH, HEIGHT)
    stream = pyte.Stream(screen)
    found: list[Frame] = []
    moment = last = until = 0.0
    note = ""
    for event in source.read_text().splitlines()[1:]:
        at, kind, text = json.loads(event)
        moment += min(at - last, LONGEST_PAUSE)
        last = at
        if kind == MARK:
            note, until = text, moment + NOTE_SECONDS
        else:
            stream.feed(text)
        rows = tuple(row_of(screen, number) for number in range(HEIGHT))
        frame = Frame(moment, rows, note if moment < until else "")
        if found and frame.moment - found[-1].moment < SHORTEST_FRAME:
            found[-1] = Frame(found[-1].moment, frame.rows, frame.note)
        elif not found or found[-1] != Frame(found[-1].moment, frame.rows, frame.note):
            found.append(frame)
    return found


def row_of(screen: pyte.Screen, number: int) -> str:
    """Return a row of the screen, with one `tspan` per stretch of the same style."""
    cells = [screen.buffer[number][column] for column in range(WIDTH)]
    parts: list[tuple[str, str]] = []
    for cell in cells:
        style = style_of(cell)
        if parts and parts[-1][0] == style:
            parts[-1] = (style, parts[-1][1] + cell.data)
        else:
            parts.append((style, cell.data))
    if parts and not parts[-1][0]:
        parts[-1] = ("", parts[-1][1].rstrip())
    return "".join(
        f'<tspan style="{style}">{escape(text)}</tspan>' if style else escape(text) for style, text in parts if text
    )


def style_of(cell: pyte.screens.Char) -> str:
    color = cell.bg if cell.reverse and cell.bg != "default" else cell.fg
    name = color.removeprefix("bright")
    style = f"fill:{COLORS.get(name, f'#{name}')};" if name != "default" else ""
    return style + ("font-weight:bold;" if cell.bold else "") + ("font-style:italic;" if cell.italics else "")


def percent(moment: float, total: float) -> str:
    return f"{moment / total * 100:.2f}%"


def main(arguments: list[str]) -> int:
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

"""Output that is not made of tidy lines, through the whole tool: nothing is lost, nothing is shown twice."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import yaml

from support.command_line import CommandLine
from support.installed import Installed
from support.running import ending, wait_until, workload_pid

pytestmark = pytest.mark.faults

WILD = r"""
import sys, time
out = sys.stdout.buffer
out.write(b'begin\n')
out.write(b'x' * 5_000_000 + b'\n')
out.write(b'binary \x00\xff\xfe bytes\n')
for step in range(50):
    out.write(b'\r%d/50' % step)
out.write(b'\rbar done\n')
out.write(b'no newline at the end')
"""

CHATTY = r"""
for number in range(20000):
    print('line', number, 'of many ' + '.' * 80)
"""
PACED = f"import time{CHATTY}    if number % 200 == 0: time.sleep(0.02)"


def write_job(folder: Path, name: str, program: str, toml: str = "") -> str:
    container = {"name": "tensorflow", "image": "x:1", "command": ["python", "-c", program]}
    template = {"spec": {"containers": [container]}}
    spec = {"tfReplicaSpecs": {"Worker": {"restartPolicy": "ExitCode", "template": template}}}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": name}, "spec": spec}
    folder.mkdir()
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    (folder / "tfjob.toml").write_text(toml)
    return str(folder / "job.yaml")


def test_wild_output_is_shown_whole_and_readable(tool: Installed, home: Path, tmp_path: Path) -> None:
    """A 5 MB line, binary bytes, a bar of carriage returns and a last line without an end."""
    done = tool.tfjob(home, "run", write_job(tmp_path / "job", "wild", WILD))
    assert done.returncode == 0, done.stderr
    for text in (done.stdout, tool.tfjob(home, "logs", "wild").stdout):
        texts = [line.partition(" | ")[2] for line in text.splitlines() if line.startswith("worker-0")]
        assert sum(line.count("x") for line in texts if line and set(line) == {"x"}) == 5_000_000
        assert "bar done" in texts
        assert not any("/50" in line for line in texts), "only the last state of a bar counts"
        assert any(line.startswith("binary ") and line.endswith(" bytes") for line in texts)
        assert texts[-1] == "no newline at the end"


def test_a_follower_sees_every_line_once_while_logs_rotate(tool: Installed, home: Path, tmp_path: Path) -> None:
    """Twenty thousand lines in files of 256 KiB, of which enough are kept: all there, in order, none twice."""
    toml = '[local]\nlog_max_bytes = "256Ki"\nlog_files = 20\n'
    assert tool.tfjob(home, "submit", write_job(tmp_path / "job", "chatty", PACED, toml)).returncode == 0
    workload_pid(home, "chatty-worker-0")
    followed = tool.tfjob(home, "logs", "chatty", "worker-0", "-f")
    assert followed.returncode == 0
    numbers = [int(line.split()[1]) for line in followed.stdout.splitlines()]
    assert numbers == list(range(20000))
    wait_until(lambda: tool.tfjob(home, "wait", "chatty", "--timeout", "60").returncode == 0, 180)
    files = list(home.glob("runs/default/chatty.1/pods/*/logs/tensorflow/0/log*"))
    assert len(files) > 3, "the logs must have rotated for this to prove anything"


def test_rotation_keeps_the_newest_and_says_what_is_gone(tool: Installed, home: Path, tmp_path: Path) -> None:
    """Two files of 64 KiB: the last lines are there, and a notice tells that earlier ones are not."""
    toml = '[local]\nlog_max_bytes = "64Ki"\nlog_files = 2\n'
    done = tool.tfjob(home, "run", write_job(tmp_path / "job", "forgetful", CHATTY, toml), "-o", "json")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in tool.tfjob(home, "logs", "forgetful", "-o", "json").stdout.splitlines()]
    assert lines[-1]["text"].startswith("line 19999 ")
    assert any(line["notice"] for line in lines)
    assert len(lines) < 5000


UNREAD = r"""
import os, pathlib, signal
begun = pathlib.Path(os.environ['TFJOB_SCRATCH_DIR'], 'begun')
again = begun.exists()
begun.touch()
for number in range(60000):
    print('again' if again else 'first', number, '.' * 80, flush=number == 59999)
if not again:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@contextmanager
def unread(tool: Installed, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run whose job has printed ten megabytes, which no one has read yet, and succeeded in its second attempt."""
    home = tmp_path / "home"
    manifest = write_job(tmp_path / "job", "unread", UNREAD, '[local]\nlog_max_bytes = "64Mi"\n')
    with ending(tool.start(home, "run", manifest)) as process:
        wait_until(lambda: '"state": "Succeeded"' in tool.tfjob(home, "ps", "-o", "json").stdout, 240)
        assert process.poll() is None, "it has not printed all, so it still runs"
        yield process


@pytest.mark.timeout(500)
def test_a_reader_that_reads_nothing_for_a_while_keeps_no_job_waiting_and_misses_no_line(
    tool: Installed, tmp_path: Path
) -> None:
    """`run | less`, Ctrl-S: the job restarts and ends meanwhile, then all of it is there, each attempt in order."""
    with unread(tool, tmp_path) as process:
        printed, _ = process.communicate(timeout=180)
        assert process.returncode == 0
    said = [line.partition(" | ")[2].split()[:2] for line in printed.splitlines() if line.startswith("worker-0")]
    for attempt in ("first", "again"):
        assert [int(number) for which, number in said if which == attempt] == list(range(60000))
    verdict = printed.splitlines()[-1]
    assert verdict.startswith("unread ")
    CommandLine(tool, tmp_path / "home").golden("run-unread", f"{verdict}\n")


@pytest.mark.timeout(500)
def test_one_signal_stops_a_run_whose_reader_never_reads(tool: Installed, home: Path, tmp_path: Path) -> None:
    """The job is stopped in order, and nobody has to ask again because ten megabytes were not read."""
    program = f"{CHATTY.replace('20000', '100000')}\nprint('all', flush=True)\nimport time; time.sleep(600)"
    manifest = write_job(tmp_path / "job", "unread", program, '[local]\nlog_max_bytes = "64Mi"\n')
    with ending(tool.start(home, "run", manifest)) as process:
        wait_until(lambda: tool.tfjob(home, "logs", "unread", "--tail", "1").stdout.endswith("all\n"), 180)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 130
        assert process.stdout is not None
        assert process.stdout.read().count("\n") < 100000
    (job,) = json.loads(tool.tfjob(home, "ps", "-o", "json").stdout)["items"]
    assert (job["state"], job["reason"]) == ("Suspended", "Stopped")


@pytest.mark.timeout(500)
def test_ctrl_c_ends_the_wait_for_a_reader_that_never_reads(tool: Installed, tmp_path: Path) -> None:
    with unread(tool, tmp_path) as process:
        for _ in range(3):  # the first one may come before the driver is done, and is about the job then
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
                break
        assert process.returncode == 0
        assert process.stdout is not None
        assert process.stdout.read().count("\n") < 60000

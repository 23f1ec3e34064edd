"""The command line on a cluster: `TFJOB_ON=k8s`, and a kubeconfig whose context names a namespace."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import yaml

from support.command_line import CommandLine
from support.installed import Installed


def on_cluster(tool: Installed, kubeconfig: Path, namespace: str, folder: Path) -> CommandLine:
    """`tfjob` for one namespace of a cluster."""
    file = folder / "kubeconfig"
    config = yaml.safe_load(kubeconfig.read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    file.write_text(yaml.safe_dump(config))
    env = {**tool.env, "KUBECONFIG": str(file), "TFJOB_ON": "k8s"}
    return CommandLine(Installed(tool.command, env), folder / "home")


_started: list[subprocess.Popen[str]] = []


def start(line: CommandLine, *words: str, stdin: str = "", cwd: Path | None = None) -> subprocess.Popen[str]:
    """Starts a command that keeps running while the test does something else; it ends with the test at the latest."""
    process = subprocess.Popen(
        [*line.tool.command, *words],
        env=line.environment(),
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Tests that run in the background of a shell ignore it, and what they start inherits that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    _started.append(process)
    assert process.stdin is not None
    process.stdin.write(stdin)
    process.stdin.close()
    process.stdin = None
    return process


def end_what_was_started() -> None:
    """Kills the commands that a test started and, because it failed, did not end."""
    while _started:
        process = _started.pop()
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

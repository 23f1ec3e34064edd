"""TAB in real shells: commands, options, the names of jobs and of their replicas, files."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from support.command_line import MANIFESTS, CommandLine
from support.pseudo_terminal import PseudoTerminal
from tfjob.durations import VARIABLE

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(tfjob completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'autoload -U compinit; compinit -u -D; eval "$(tfjob completion zsh)"'),
}
WORDS = {
    "tfjob sta": "tfjob status",
    "tfjob status fai": "tfjob status fails",
    "tfjob logs restarts wor": "tfjob logs restarts worker-0",
    "tfjob wait hello --ti": "tfjob wait hello --timeout",
    "tfjob check brok": "tfjob check broken.yaml",
}
OFFERED = {
    "tfjob status ": {"fails", "hello", "restarts"},
    "tfjob delete fails hel": {"hello"},
    "tfjob logs @": {"@latest"},
    "tfjob logs fails ": {"worker-0", "hello", "restarts"},
    "tfjob logs 'no*' h": {"hello"},
    "tfjob stop fails @": {"@latest"},
    "tfjob volume ": {"ls", "delete"},
    "tfjob ps -o w": {"wide"},
    "tfjob serve ": {"start", "status", "stop", "update", "fails", "hello", "restarts"},
    "tfjob serve he": {"hello"},
    "tfjob serve hello --repl": {"--replicas"},
    "tfjob models ": {"ls", "show", "fails", "hello", "restarts"},
    "tfjob status hello -n nowhere ": set(),
}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_tab_in_a_real_shell_completes(finished: CommandLine, shell: str) -> None:
    need(shell)
    command, script = SHELLS[shell]
    with PseudoTerminal(command, environment(finished), MANIFESTS) as terminal:
        terminal.press(f"PS1='> '; {script}; echo re''ady\n")
        terminal.wait_for("ready")
        for typed, completed in WORDS.items():
            terminal.press(f"echo {typed}\x15{typed}\t")  # ^U takes the line back
            terminal.wait_for(completed)
            terminal.press("\x15")
        terminal.press("\x15exit\n")
        terminal.finish()


def test_fish_completes_the_same(finished: CommandLine) -> None:
    need("fish")
    for typed, completed in WORDS.items():
        offered = in_fish(finished, typed)
        assert completed.rpartition(" ")[2] in offered, typed


@pytest.mark.parametrize("typed", OFFERED)
def test_what_is_offered_is_what_there_is(finished: CommandLine, typed: str) -> None:
    """Complete like bash, without options."""
    words = typed.split(" ")
    env = {"_TFJOB_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    offered = {line.partition(",")[2] for line in finished(env=env).splitlines() if line}
    assert offered == OFFERED[typed]


def test_a_tab_without_any_state_makes_none(empty: CommandLine) -> None:
    env = {"_TFJOB_COMPLETE": "bash_complete", "COMP_WORDS": "tfjob status ", "COMP_CWORD": "2"}
    assert not empty(env=env).strip()
    assert not empty.home.exists()


def test_a_tab_does_not_wait_for_a_cluster_that_does_not_answer(empty: CommandLine, tmp_path: Path) -> None:
    """Neither for the API server, nor for a credential plugin."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sleep", "args": ["1000"]}
        for user in ({"token": "x"}, {"exec": {**plugin, "interactiveMode": "IfAvailable"}}):
            config = {
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{silent.getsockname()[1]}"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
                "users": [{"name": "c", "user": user}],
                "current-context": "c",
            }
            (tmp_path / "kubeconfig").write_text(json.dumps(config))
            env = {"_TFJOB_COMPLETE": "bash_complete", "COMP_WORDS": "tfjob status ", "COMP_CWORD": "2"}
            began = time.monotonic()
            assert not empty(env=env).strip()
            without_cluster = time.monotonic() - began
            began = time.monotonic()
            there = {"TFJOB_ON": "k8s", "KUBECONFIG": str(tmp_path / "kubeconfig"), VARIABLE: '{"completion": 2}'}
            assert not empty(env={**env, **there}).strip()
            assert time.monotonic() - began < 30 + 5 * without_cluster


def environment(line: CommandLine) -> dict[str, str]:
    """With the command on PATH, as for a user."""
    plain = line.environment()
    return {**plain, "PATH": f"{Path(line.tool.command[0]).parent}:{plain['PATH']}", "TERM": "xterm"}


def in_fish(line: CommandLine, typed: str) -> set[str]:
    """Return the completions of fish for a line, without descriptions."""
    program = f"tfjob completion fish | source; complete -C '{typed}'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", program],
        env={**environment(line), "HOME": str(line.home)},
        cwd=MANIFESTS,
        capture_output=True,
        text=True,
        check=True,
    )
    return {one.partition("\t")[0] for one in done.stdout.splitlines()}


def need(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.fail(f"{shell} is missing") if os.environ.get("TFJOB_TEST_REQUIRE") else pytest.skip(f"needs {shell}")

"""The tool stays small and fast: few distributions, a cheap `--help`, light commands."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import time
from importlib.metadata import requires
from importlib.metadata import version as installed_version
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.command_line import MANIFESTS
from tfjob.api.manifest import loader
from tfjob.controller.kind import STOPPED
from tfjob.local.jobs.runs import edit_owner
from tfjob.local.state.home import Home, boot_id
from tfjob.local.state.store import open_store
from tfjob.plan.policy.run_policy import suspended

MOST_DISTRIBUTIONS = 10
MOST_SECONDS = 0.100
TRYING_SECONDS, PAUSE = 90.0, 0.2
DRIVING = {
    "asyncio",
    "aiohttp",
    "tfjob.local.run.driver",
    "tfjob.local.run.kubelet",
    "tfjob.kube.client.client",
}
"""Modules that only drivers and cluster commands need; importing them would double the cost of a command."""
LOOKING = ("ps", "status sleeper", "logs sleeper", "events sleeper", "wait sleeper --for suspended", "check hello.yaml")


def test_the_base_install_is_at_most_10_distributions() -> None:
    found = needed("tfjob")
    assert len(found) <= MOST_DISTRIBUTIONS, sorted(found)


@pytest.mark.alone
def test_help_takes_at_most_100_ms_of_cpu() -> None:
    """Take the minimum of several runs, because other load on the machine does not count."""
    took: list[float] = []
    deadline = time.monotonic() + TRYING_SECONDS
    while not took or (min(took) > MOST_SECONDS and time.monotonic() < deadline):
        time.sleep(PAUSE if took else 0)
        took.append(cpu_seconds(sys.executable, "-m", "tfjob", "--help"))
    assert min(took) <= MOST_SECONDS


@pytest.mark.parametrize("command", LOOKING)
def test_a_command_that_only_looks_loads_nothing_that_only_driving_needs(tmp_path: Path, command: str) -> None:
    keep_suspended_job(Home(tmp_path))
    loaded = modules_of(tmp_path, *command.split())
    assert "tfjob.cli.main" in loaded
    assert not loaded & DRIVING


def test_a_tab_reads_the_names_of_jobs_and_loads_none_of_them(tmp_path: Path) -> None:
    keep_suspended_job(Home(tmp_path))
    asked = {"_TFJOB_COMPLETE": "bash_complete", "COMP_WORDS": "tfjob status ", "COMP_CWORD": "2"}
    loaded = modules_of(tmp_path, env=asked)
    assert "tfjob.local.state.database" in loaded
    assert not loaded & {"msgspec", "yaml", "rich", "tfjob.api.types", "tfjob.local.state.store"}


def test_judging_a_job_for_this_machine_loads_nothing_that_drives_it(tmp_path: Path) -> None:
    assert not modules_of(tmp_path, "run", "--dry-run", "hello.yaml") & {"asyncio", "tfjob.local.run.driver"}


@pytest.mark.parametrize("extra", ["tensorflow", "kube", "operator"])
def test_what_only_some_need_is_an_extra(extra: str) -> None:
    """Nothing of an extra is in the base install."""
    names = {name_of(line) for line in requires("tfjob") or () if f'extra == "{extra}"' in line.replace("'", '"')}
    assert names
    assert not (names - {"tfjob"}) & needed("tfjob")


def keep_suspended_job(home: Home) -> None:
    """Store a job that needs no driver."""
    home.create()
    job = loader.load((MANIFESTS / "sleeper.yaml").read_bytes(), "sleeper.yaml").jobs[0]
    store = open_store(home.database)
    run = store.add_run(suspended(job, STOPPED), attached=False, boot=boot_id(), folder=lambda number: home.path)
    edit_owner(store, run, lambda job: replace(job, status=replace(job.status, state="Suspended")))
    assert store.settle(run.uid, math.inf, store.version())
    store.close()


def modules_of(home: Path, *words: str, env: dict[str, str] | None = None) -> set[str]:
    """Return the modules that a command imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tfjob", *words],
        env={"PATH": os.environ["PATH"], "HOME": str(home), "TFJOB_HOME": str(home), **(env or {})},
        cwd=MANIFESTS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


def needed(name: str) -> set[str]:
    """A distribution and everything that it needs on this interpreter, without extras."""
    found: set[str] = set()
    todo = [name]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += [name_of(line) for line in requires(one) or () if applies(line)]
    return found


def applies(requirement: str) -> bool:
    """Return whether a requirement applies; those of other platforms and of extras do not."""
    _, _, marker = requirement.partition(";")
    if "extra ==" in marker:
        return False
    try:
        installed_version(name_of(requirement))
    except ImportError:
        return False
    return True


def name_of(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return found[0].lower().replace("_", "-")


def cpu_seconds(*command: str) -> float:
    """User and system time of a command and its children."""
    silence = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    pid = os.posix_spawn(command[0], command, {"PATH": os.defpath, "HOME": "/"}, file_actions=silence)
    _, status, usage = os.wait4(pid, 0)
    assert status == 0
    return usage.ru_utime + usage.ru_stime


# ----------------------------------------------------------------------------------------------------------------------


def test_importing_the_front_door_reads_no_schema() -> None:
    code = (
        "import tfjob.api.manifest.loader, tfjob.api.schema.checker as s; "
        "assert s.pod_definitions.cache_info().currsize == 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ----------------------------------------------------------------------------------------------------------------------


def test_commands_do_not_pay_for_what_only_exec_needs() -> None:
    code = "import sys, tfjob.kube.client.client, tfjob.kube.cache.reflector; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

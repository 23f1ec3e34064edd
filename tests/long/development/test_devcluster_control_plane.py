"""A cluster without nodes starts for every user, is as described, and leaves nothing behind."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import build, cluster, parts, state, versions
from devcluster.client import Client
from devcluster.cluster import Shape
from devcluster.state import MARK
from support.installed import ORDINARY_UID, SYSTEM_PYTHON, open_to_everyone
from support.running import ending

pytestmark = [pytest.mark.long, pytest.mark.cluster, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[3]


@pytest.fixture
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the clusters of these tests separate from all others."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_it_is_the_pinned_kubernetes(control_plane: Client) -> None:
    assert f'"gitVersion": "v{versions.KUBERNETES}"' in control_plane.kubectl("get", "--raw", "/version")


def test_a_namespace_is_usable_at_once_and_a_pod_waits_for_a_node(
    control_plane: Client, control_plane_namespace: str
) -> None:
    control_plane.kubectl("run", "one", "--image=any", "-n", control_plane_namespace)
    assert control_plane.get("pod", "one", "-n", control_plane_namespace)["status"]["phase"] == "Pending"


def test_every_write_is_in_the_audit_log_and_no_read(control_plane: Client, control_plane_namespace: str) -> None:
    control_plane.kubectl("create", "configmap", "note", "-n", control_plane_namespace)
    control_plane.kubectl("get", "configmaps", "-n", control_plane_namespace)
    ours = [one for one in control_plane.writes() if one["objectRef"].get("namespace") == control_plane_namespace]
    assert ("create", "configmaps", "note") in [
        (one["verb"], one["objectRef"]["resource"], one["objectRef"].get("name")) for one in ours
    ]
    assert not {one["verb"] for one in ours} & {"get", "list", "watch"}


def test_up_and_down_three_times_leaves_no_process_and_no_file(own_state: Path) -> None:
    for _ in range(3):
        devcluster("up", "--name", "again")
        assert devcluster("status", "--name", "again").returncode == 0
        devcluster("down", "--name", "again")
        assert not own_state.exists() or not any(own_state.iterdir())
        assert marked(own_state) == []


def test_two_clusters_stand_beside_each_other(own_state: Path) -> None:
    for name in ("one", "two"):
        devcluster("up", "--name", name)
    devcluster("down", "--name", "one")
    assert "readyz check passed" in kubectl("two", "get", "--raw", "/readyz?verbose")
    devcluster("down", "--all")
    assert marked(own_state) == []


def test_up_twice_is_one_cluster_and_another_shape_under_its_name_is_refused(own_state: Path) -> None:
    devcluster("up")
    first = marked(own_state)
    devcluster("up")
    assert marked(own_state) == first
    if os.geteuid() == 0:
        refused = devcluster("up", "--profile", "node", fails=True)
        assert refused.returncode == 2
        assert "is up with control plane only" in refused.stderr
    devcluster("down")


@pytest.mark.parametrize("moment", [0.5, 2.5])
def test_after_a_kill_of_up_the_next_one_passes(own_state: Path, moment: float) -> None:
    command = [sys.executable, "-m", "devcluster", "up"]
    with ending(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)):
        time.sleep(moment)
    devcluster("up")
    assert kubectl("default", "get", "--raw", "/readyz") == "ok"
    devcluster("down")
    assert marked(own_state) == []


def test_what_a_killed_test_run_left_is_swept_and_what_is_in_use_is_not(own_state: Path) -> None:
    script = (
        "import os, signal; from devcluster import cluster\n"
        "with cluster.shared('tests-killed', cluster.Shape()): os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, stderr=subprocess.DEVNULL, check=False)
    assert marked(own_state)
    with cluster.shared("tests-alive", Shape()):
        assert cluster.sweep() == ["tests-killed"]
        assert state.names() == ["tests-alive"]
    assert marked(own_state) == []


def test_processes_of_a_test_run_share_a_cluster_until_the_last_one_leaves(own_state: Path) -> None:
    with cluster.shared("tests-two", Shape()) as first:
        with cluster.shared("tests-two", Shape()) as second:
            assert second == first
        assert first.kubectl("get", "--raw", "/readyz") == "ok"
    assert marked(own_state) == []


@pytest.fixture
def everyones_folder() -> Iterator[Path]:
    """Return a folder outside pytest's, which every other run makes private again at its start."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.root
def test_an_ordinary_user_has_a_cluster_too(everyones_folder: Path) -> None:
    """The binaries are copied to where that user can read them; nothing else is shared."""
    home, own_cache, code = (everyones_folder / name for name in ("home", "cache", "code"))
    for part in parts.CONTROL_PLANE:
        folder = build.binaries(part).parent
        shutil.copytree(folder, own_cache / folder.name, symlinks=True)
    shutil.copytree(ROOT / "devcluster", code / "devcluster")
    for name in ("cryptography", "cffi", "_cffi_backend", "pycparser"):
        copy_library(name, code)
    home.mkdir()
    os.chown(home, ORDINARY_UID, ORDINARY_UID)
    open_to_everyone(everyones_folder)
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "TFJOB_DEVCLUSTER_CACHE": str(own_cache)}

    def run(*words: str) -> str:
        done = subprocess.run(
            [SYSTEM_PYTHON, "-m", "devcluster", *words],
            cwd=code,
            env=env,
            user=ORDINARY_UID,
            group=ORDINARY_UID,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("up")
    assert f"{home}/.local/state" in run("env")
    run("down")
    assert not any((home / ".local" / "state").iterdir())


def copy_library(name: str, folder: Path) -> None:
    """Copy an installed module or package, if it exists."""
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.origin is not None:
        source = Path(spec.origin)
        if spec.submodule_search_locations:
            shutil.copytree(source.parent, folder / name)
        else:
            shutil.copy2(source, folder / source.name)


def devcluster(*words: str, fails: bool = False) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "devcluster", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert fails or done.returncode == 0, done.stderr
    return done


def kubectl(name: str, *words: str) -> str:
    """Run kubectl with only the environment that `env` prints."""
    line = f'eval "$({sys.executable} -m devcluster env --name {name})" && kubectl "$@"'
    return subprocess.run(
        ["bash", "-c", line, "kubectl", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


def marked(folder: Path) -> list[int]:
    """Return the living processes of any cluster in a state folder."""
    mark = f"{MARK}={folder}".encode()
    return sorted(pid for pid in state.living() if any(one.startswith(mark) for one in state.environment(pid)))

"""What a container sees of the host and of its volumes, and that the host never notices."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from support.local.pod_harness import EACH_LEVEL, FULL, NETWORK, PYTHON, Pods, at
from tfjob.local.sandbox import rootfs, supervisor


def mount(source: str, target: str, read_only: bool = False) -> dict[str, Any]:
    return {"source": source, "target": target, "readOnly": read_only}


@at(FULL)
def test_volumes_appear_at_paths_whose_parents_do_not_exist(pods: Pods) -> None:
    """In /, in system folders, at a file, at a sub path, read-only; and the host has none of these paths."""
    pod = pods.prepare(
        pods.container(
            "sh",
            "-ec",
            "echo one > /no-such/deep/empty/file; cat /var/lib/no-such/claim/old; cat /etc/no-such/train.yaml; "
            "ls /usr/share/no-such/sub; echo x > /opt/no-such/ro/file || echo refused; "
            "ls /etc/passwd /var/lib /usr/bin/env > /dev/null; echo extra > /etc/no-such/other",
            mounts=[
                mount("{pod}/volumes/empty", "/no-such/deep/empty"),
                mount("{pod}/volumes/claim", "/var/lib/no-such/claim"),
                mount("{pod}/volumes/config/train.yaml", "/etc/no-such/train.yaml", True),
                mount("{pod}/volumes/claim/sub/path", "/usr/share/no-such/sub"),
                mount("{pod}/volumes/claim", "/opt/no-such/ro", True),
            ],
        )
    )
    volumes = pod.folder / "volumes"
    (volumes / "empty").mkdir()
    (volumes / "claim" / "sub" / "path").mkdir(parents=True)
    (volumes / "claim" / "sub" / "path" / "below").touch()
    (volumes / "claim" / "old").write_text("kept\n")
    (volumes / "config").mkdir()
    (volumes / "config" / "train.yaml").write_text("lr: 1\n")
    pods.give(pod.folder)
    pods.start(pod, {"env": {"main": {"PATH": "/usr/bin:/bin"}}, "files": {}})
    assert pod.ended()["exitCode"] == 0, pod.log()
    lines = pod.log().splitlines()
    assert [line for line in lines if "Read-only" not in line] == ["kept", "lr: 1", "below", "refused"]
    assert (volumes / "empty" / "file").read_text() == "one\n"
    for path in ("/no-such", "/var/lib/no-such", "/etc/no-such", "/usr/share/no-such", "/opt/no-such"):
        assert not os.path.exists(path)


@at(FULL)
def test_hosts_file_host_name_and_identity(pods: Pods) -> None:
    pod = pods.launch(pods.container("sh", "-c", "getent hosts job-worker-0.default.svc; hostname; id -u; pwd"))
    pod.ended()
    address, *rest = pod.log().splitlines()
    assert address.split() == [f"{NETWORK}.1", "job-worker-0.default.svc", "job-worker-0"]
    assert rest == ["job-worker-0", str(pods.uid), "/"]


@at(FULL)
def test_the_container_writes_beside_the_hosts_entries_into_its_own_layer(pods: Pods) -> None:
    pod = pods.launch(pods.container("sh", "-c", "mkdir /model && echo saved > /model/weights && ls /model"))
    assert pod.ended()["exitCode"] == 0
    assert (pod.folder / "rootfs" / "main.0" / "root" / "model" / "weights").read_text() == "saved\n"
    assert not os.path.exists("/model")


@at(FULL)
def test_processes_of_the_host_are_out_of_sight(pods: Pods) -> None:
    pod = pods.launch(pods.container("sh", "-c", "echo /proc/[0-9]*"))
    pod.ended()
    assert len(pod.log().split()) == 2


@at(FULL)
def test_memory_volumes_have_their_size_and_are_shared_by_the_containers(pods: Pods) -> None:
    shared = [mount("{pod}/volumes/cache", "/cache"), mount("{pod}/volumes/cache/sub", "/no-such/sub")]
    pod = pods.launch(
        pods.container("sh", "-c", "cat /cache/from-init; head -c 3000000 /dev/zero > /cache/big", mounts=shared),
        init=[
            pods.container(
                "sh", "-c", "echo hello > /cache/from-init; touch /no-such/sub/x", name="first", mounts=shared
            )
        ],
        tmpfs=[{"name": "cache", "path": "{pod}/volumes/cache", "size": 1 << 20, "secret": False}],
    )
    assert pod.ended()["exitCode"] != 0
    assert pod.log().startswith("hello\n")
    assert "No space left on device" in pod.log()
    assert os.listdir(pod.folder / "volumes" / "cache") == []


@at(EACH_LEVEL)
def test_secret_files_keep_their_modes_and_never_stay_on_disk(pods: Pods) -> None:
    path = "/etc/no-such/secret" if pods.full else "$VOLUME"
    pod = pods.prepare(
        pods.container(
            "sh",
            "-c",
            f"cat {path}/token {path}/a/b; stat -Lc %a {path}/token",
            mounts=[mount("{pod}/volumes/sec", "/etc/no-such/secret", True)],
        ),
        tmpfs=[{"name": "sec", "path": "{pod}/volumes/sec", "size": 0, "secret": True}],
    )
    volume = pod.folder / "volumes" / "sec"
    files = {
        "token": {"data": base64.b64encode(b"s3cret\n").decode(), "mode": 0o400},
        "a/b": {"data": base64.b64encode(b"nested\n").decode(), "mode": 0o644},
    }
    pods.start(pod, {"env": {"main": {"PATH": "/bin", "VOLUME": str(volume)}}, "files": {"sec": files}})
    assert pod.ended()["exitCode"] == 0
    assert pod.log() == "s3cret\nnested\n400\n"
    left = [one for one in pod.folder.rglob("*") if one.is_file() and one.parent.name != "0"]
    assert not any(b"s3cret" in one.read_bytes() for one in left)


@at(FULL)
def test_shared_memory_is_the_pods_own(pods: Pods) -> None:
    code = (
        "import os; from multiprocessing import shared_memory as shm\n"
        "shm.SharedMemory('tfjob-test', create=True, size=99); os._exit(0)"
    )
    pod = pods.launch(pods.container(PYTHON, "-c", code))
    assert pod.ended()["exitCode"] == 0
    assert not os.path.exists("/dev/shm/tfjob-test")


@at(FULL)
def test_a_link_in_a_mount_path_is_followed_inside_the_container(pods: Pods) -> None:
    """/var/run is a link to /run on most systems; the mount must land in the container's /run, not in the host's."""
    pod = pods.prepare(
        pods.container("cat", "/run/no-such/token", mounts=[mount("{pod}/volumes/v", "/var/run/no-such")])
    )
    (pod.folder / "volumes" / "v").mkdir()
    (pod.folder / "volumes" / "v" / "token").write_text("here\n")
    pods.give(pod.folder)
    pods.start(pod, {"env": {"main": {"PATH": "/bin"}}, "files": {}})
    assert pod.ended()["exitCode"] == 0, pod.log()
    assert pod.log() == "here\n"
    assert not os.path.exists("/run/no-such")


@at(FULL)
def test_a_missing_source_and_a_file_on_a_folder_are_start_errors(pods: Pods) -> None:
    missing = pods.launch(pods.container("true", mounts=[mount("/no/such/source", "/data")]))
    wrong = pods.launch(pods.container("true", mounts=[mount("/etc/passwd", "/usr")]))
    assert (missing.ended()["exitCode"], missing.ended()["reason"]) == (128, "StartError")
    assert "/no/such/source" in missing.ended()["message"]
    assert "/usr" in wrong.ended()["message"]


@at(FULL)
def test_a_mount_point_in_the_users_own_folder_is_made_and_removed(pods: Pods) -> None:
    """A layer would hide what is written there; two pods may share the point, and the last one removes it."""
    project = Path(tempfile.mkdtemp(prefix="tfjob-project-"))
    try:
        project.chmod(0o755)
        pods.give(project)
        target = f"{project}/data/train"
        wait = f"while [ ! -e {project}/stop$N ]; do sleep 0.05; done"
        script = f"cat {target}/file; echo new > {project}/result; echo up; {wait}"
        made = []
        for number in "12":
            pod = pods.prepare(pods.container("sh", "-c", script, mounts=[mount("{pod}/volumes/v", target)]))
            (pod.folder / "volumes" / "v").mkdir()
            (pod.folder / "volumes" / "v" / "file").write_text("in the volume\n")
            pods.give(pod.folder)
            pods.start(pod, {"env": {"main": {"PATH": "/bin", "N": number}}, "files": {}})
            pod.until_logged("up")
            made.append(pod)
        assert made[1].log() == "in the volume\nup\n"
        assert (project / "result").read_text() == "new\n"
        (project / "stop1").touch()
        made[0].wait()
        assert (project / "data" / "train").is_dir()
        (project / "stop2").touch()
        made[1].wait()
        assert sorted(os.listdir(project)) == ["result", "stop1", "stop2"]
    finally:
        shutil.rmtree(project)


@at(FULL)
def test_a_large_system_folder_is_covered_without_losing_its_entries(pods: Pods) -> None:
    """/tmp is root's; with many entries an overlay covers it, and the pod's own files stay the host's."""
    crowd = Path(tempfile.mkdtemp(prefix="tfjob-crowd-", dir="/var"))
    try:
        crowd.chmod(0o755)
        for number in range(520):
            (crowd / f"entry{number}").mkdir()
        pod = pods.prepare(
            pods.container(
                "sh",
                "-c",
                f"ls {crowd} | wc -l; cat {crowd}/new/file",
                mounts=[mount("{pod}/volumes/v", f"{crowd}/new")],
            )
        )
        (pod.folder / "volumes" / "v").mkdir()
        (pod.folder / "volumes" / "v" / "file").write_text("seen\n")
        pods.give(pod.folder)
        pods.start(pod, {"env": {"main": {"PATH": "/usr/bin:/bin"}}, "files": {}})
        assert pod.ended()["exitCode"] == 0, pod.log()
        assert pod.log() == "521\nseen\n"
        assert not (crowd / "new").exists()
    finally:
        shutil.rmtree(crowd)


@at(EACH_LEVEL)
def test_launch_names_the_reason_when_the_spec_cannot_be_used(pods: Pods) -> None:
    pod = pods.prepare(pods.container("true"), schema=2)
    done = pods.python(
        "from tfjob.local.sandbox import supervisor\n"
        "try: supervisor.await_lock(supervisor.begin(sys.argv[1], b'{}'), sys.argv[1])\n"
        "except supervisor.LaunchError as error: print(error)\n",
        str(pod.folder),
    )
    assert b"schema 1" in done.stdout


# Removal


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts on the host need root")
def test_removal_refuses_while_anything_is_mounted_below(tmp_path: Path) -> None:
    inner = tmp_path / "a pod" / "rootfs" / "main.0" / "root" / "home"
    inner.mkdir(parents=True)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    subprocess.run(["mount", "--bind", precious, inner], check=True)
    try:
        with pytest.raises(rootfs.RootfsBusyError, match="mounted"):
            rootfs.remove_rootfs(tmp_path / "a pod")
    finally:
        subprocess.run(["umount", inner], check=True)
    assert (precious / "file").exists()
    rootfs.remove_rootfs(tmp_path / "a pod")
    assert not (tmp_path / "a pod" / "rootfs").exists()


def test_the_supervisor_imports_only_the_standard_library_and_little_of_it() -> None:
    """It must start in about 50 ms: no site-packages, and none of the slow modules."""
    code = supervisor.program("sandbox.pod_process", "sys.exit").replace("import sys.exit; sys.exit()", "import main")
    code += "; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    loaded = set(out.stdout.split())
    assert not loaded & {"typing", "dataclasses", "pathlib", "subprocess", "msgspec", "psutil", "shutil", "traceback"}

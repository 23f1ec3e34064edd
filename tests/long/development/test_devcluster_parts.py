"""The parts of the development cluster."""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from devcluster import cache, images
from devcluster.build import staged_modules
from devcluster.cluster import CONTROL_PLANE, NODE, Shape
from devcluster.control_plane import arguments
from devcluster.errors import Refused
from devcluster.pki import Authority
from devcluster.state import MARK, Folder
from support.running import wait_until

pytestmark = [pytest.mark.long, pytest.mark.cluster]
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TFJOB_DEVCLUSTER_CACHE", str(tmp_path / "cache"))


def test_the_commands_need_no_package() -> None:
    """CI removes what killed runs left before it installs any package."""
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import devcluster.__main__"
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)


def test_modules_that_live_in_a_staging_folder_are_found_in_both_spellings() -> None:
    text = "replace k8s.io/one => ./staging/src/k8s.io/one\nreplace (\n\tk8s.io/two => ./staging/src/k8s.io/two\n"
    assert staged_modules(text + "\texample.com/other => ../other\n)\n") == ["k8s.io/one", "k8s.io/two"]


def test_flags_are_spelt_as_kubernetes_spells_them() -> None:
    assert arguments({"leader_elect": False, "secure_port": 0}) == ["--leader-elect=false", "--secure-port=0"]


@pytest.mark.parametrize(("profile", "nodes"), [(CONTROL_PLANE, 1), (NODE, 10), (NODE, -1)])
def test_a_shape_that_makes_no_sense_is_refused(profile: str, nodes: int) -> None:
    with pytest.raises(Refused, match="--nodes"):
        Shape.of(profile, nodes)


@pytest.mark.parametrize("name", ["", "../up", "a b", "x" * 41])
def test_a_name_that_is_no_folder_name_is_refused(name: str) -> None:
    with pytest.raises(Refused, match=re.escape(repr(name))):
        Folder(name)


def test_an_image_archive_names_its_image_and_every_blob_is_what_its_digest_says(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"bytes")
    images.write(tmp_path / "image.tar", "example/it:1", {"bin/it": program}, ["it"], links={"bin/too": "it"})
    with tarfile.open(tmp_path / "image.tar") as tar:
        blobs = {name: content.read() for name in tar.getnames() if (content := tar.extractfile(name))}
    (entry,) = json.loads(blobs["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == "example/it:1"
    manifest = json.loads(blobs[f"blobs/{entry['digest'].replace(':', '/')}"])
    for descriptor in (manifest["config"], *manifest["layers"]):
        assert len(blobs[f"blobs/{descriptor['digest'].replace(':', '/')}"]) == descriptor["size"]


def test_the_same_files_give_the_same_archive_whenever_they_were_made(tmp_path: Path) -> None:
    archives = [tmp_path / "first.tar", tmp_path / "second.tar"]
    for names, archive in zip((("one", "two"), ("two", "one")), archives, strict=True):
        folder = tmp_path / archive.stem
        folder.mkdir()
        for number, name in enumerate(names):
            (folder / name).write_text(name)
            os.utime(folder / name, (number, number))
        images.write_layer(archive, "example/it:1", images.layer_of(folder), {"WorkingDir": "/"})
    assert archives[0].read_bytes() == archives[1].read_bytes()


def test_a_certificate_is_one_of_its_authority_for_the_hosts_it_names(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    certificate, key = authority.issue("server", "server", hosts=("localhost", "127.0.0.1"))
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=authority.certificate)
    server.load_cert_chain(certificate, key)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for end in [*ends, *ends]:
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert ends[0].version() == "TLSv1.3"


def test_a_thing_is_built_once_and_a_build_that_failed_starts_anew() -> None:
    calls: list[Path] = []

    def fails(folder: Path) -> None:
        (folder / "part").touch()
        raise Refused("no")

    def works(folder: Path) -> None:
        calls.append(folder)
        assert list(folder.iterdir()) == []

    with pytest.raises(Refused):
        cache.built("thing-1", fails)
    assert cache.built("thing-1", works) == cache.built("thing-1", works)
    assert len(calls) == 1


def test_a_process_that_was_never_written_down_is_found_and_ended_by_its_mark() -> None:
    """A process with the mark of another cluster is left alone."""
    ours, other = Folder("ours"), Folder("ours-too")
    with ours.locked(), other.locked():
        stranger = other.start("sleeper", ["sleep", "600"])
        ours.start("sleeper", ["sleep", "600"])
        (ours / "processes.json").unlink()
        # The kernel shows the mark of a new program a moment after it has begun.
        wait_until(lambda: len(ours.processes()) == len(other.processes()) == 1, 90)
        ours.end_processes()
        assert ours.processes() == set()
        assert other.processes() == {stranger.pid}
        other.end_processes()
        stranger.wait()


def test_a_pid_that_now_belongs_to_somebody_else_is_not_ended() -> None:
    folder = Folder("ours")
    with folder.locked(), subprocess.Popen(["sleep", "600"]) as bystander:
        folder.write("processes", [{"name": "etcd", "pid": bystander.pid, "born": 1}])
        folder.end_processes()
        assert bystander.poll() is None
        bystander.send_signal(signal.SIGKILL)


def test_a_process_gets_the_mark_and_nothing_of_our_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://elsewhere")
    folder = Folder("ours")
    with folder.locked():
        folder.start("env", [sys.executable, "-c", "import os; print(dict(os.environ))"]).wait()
        said = (folder.logs / "env.log").read_text()
    assert MARK in said
    assert "elsewhere" not in said
    assert os.environ["HTTPS_PROXY"] == "http://elsewhere"

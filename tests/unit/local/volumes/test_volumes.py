"""From the volumes of a pod to folders, files and mounts."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.golden import Wording
from tfjob.api.objects import ObjectMeta, Pod
from tfjob.local.inputs.references import MissingReference, Node, References
from tfjob.local.state.errors import Refusal
from tfjob.local.volumes import volumes
from tfjob.local.volumes.claims import Claims
from tfjob.local.volumes.projection import File
from tfjob.local.volumes.volumes import Context, VolumeError, Volumes, mount_paths_in, rewrite_paths

NOW = datetime(2026, 1, 2, tzinfo=UTC)
CONFIG_MAPS: dict[str, Any] = {"app": {"data": {"train.yaml": "lr: 1", "b": "2"}, "binaryData": {"bin": "/w=="}}}
SECRETS: dict[str, Any] = {"login": {"stringData": {"token": "s3cret", "user": "ada"}}}


class World:
    """A pod's folder and what it may refer to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.claims = Claims(root / "claims")
        self.mapping: dict[str, Path] = {}

    def context(self, volume: dict[str, Any], *mounts: dict[str, Any]) -> Context:
        container = {
            "name": "main",
            "resources": {"limits": {"cpu": 2}},
            "volumeMounts": [{"name": volume["name"], **mount} for mount in mounts or ({"mountPath": "/data"},)],
        }
        pod = Pod(
            metadata=ObjectMeta(name="p", namespace="team", labels={"b": "2", "a": 'x"y'}),
            spec={"volumes": [volume], "containers": [container]},
        )
        references = References(CONFIG_MAPS.get, SECRETS.get)
        return Context(pod, self.root / "pod", references, Node("laptop"), self.claims, self.mapping)

    def resolve(self, volume: dict[str, Any], *mounts: dict[str, Any]) -> Volumes:
        return volumes.resolve(self.context(volume, *mounts), {"main": {"POD": "p-0"}})

    def prepared(self, volume: dict[str, Any], *mounts: dict[str, Any]) -> Volumes:
        made = self.resolve(volume, *mounts)
        volumes.prepare(made, self.context(volume, *mounts), NOW)
        return made

    def source(self, volume: dict[str, Any], *mounts: dict[str, Any]) -> Path:
        return self.prepared(volume, *mounts).mounts["main"][0].source


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_deciding_touches_nothing(world: World) -> None:
    world.resolve({"name": "v", "emptyDir": {}})
    world.resolve({"name": "v", "persistentVolumeClaim": {"claimName": "c"}})
    assert list(world.root.iterdir()) == []


@pytest.mark.parametrize("volume", [{"emptyDir": {}}, {"emptyDir": None}, {}, {"ephemeral": {}}])
def test_an_empty_dir_is_a_folder_of_the_pod_that_anyone_in_it_may_write(world: World, volume: dict[str, Any]) -> None:
    source = world.source({"name": "v", **volume})
    assert source == world.root / "pod/volumes/v"
    assert source.stat().st_mode & 0o777 == 0o777


def test_an_empty_dir_in_memory_is_a_tmpfs_of_its_size(world: World) -> None:
    made = world.prepared(
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}},
        {"mountPath": "/dev/shm", "subPath": "a/b"},
    )
    path = world.root / "pod/volumes/shm"
    assert made.tmpfs == [{"name": "shm", "path": str(path), "size": 4 * 1024**2, "secret": False, "folders": ["a/b"]}]
    (mount,) = made.mounts["main"]
    assert (mount.source, mount.target, mount.read_only) == (path / "a/b", "/dev/shm", False)


def test_a_config_map_becomes_files_that_cannot_be_written(world: World) -> None:
    made = world.prepared({"name": "v", "configMap": {"name": "app", "defaultMode": 0o400}})
    folder = made.mounts["main"][0].source
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == {
        "train.yaml": b"lr: 1",
        "b": b"2",
        "bin": b"\xff",
    }
    assert (folder / "b").stat().st_mode & 0o777 == 0o400
    assert made.mounts["main"][0].read_only


def test_items_choose_keys_paths_and_modes(world: World) -> None:
    items = [{"key": "b", "path": "deep/er", "mode": 0o600}]
    folder = world.source({"name": "v", "configMap": {"name": "app", "items": items}})
    assert [str(path.relative_to(folder)) for path in folder.rglob("*")] == ["deep", "deep/er"]
    assert (folder / "deep/er").stat().st_mode & 0o777 == 0o600


def test_one_file_of_a_config_map_can_be_mounted(world: World) -> None:
    volume = {"name": "v", "configMap": {"name": "app"}}
    source = world.source(volume, {"mountPath": "/etc/app/train.yaml", "subPath": "train.yaml"})
    assert source.read_text() == "lr: 1"


def test_a_second_preparation_writes_the_same_files(world: World) -> None:
    volume = {"name": "v", "configMap": {"name": "app", "defaultMode": 0o444}}
    world.prepared(volume)
    assert (world.source(volume) / "b").read_text() == "2"


def test_a_secret_is_never_written_and_goes_by_the_pipe(world: World) -> None:
    made = world.prepared({"name": "v", "secret": {"secretName": "login", "defaultMode": 0o400}})
    assert made.secret_files["v"]["token"] == File(b"s3cret", 0o400)
    assert made.tmpfs[0]["secret"]
    assert made.tmpfs[0]["size"] >= 2 * 4096
    assert made.mounts["main"][0].read_only
    assert not (world.root / "pod").exists()


def test_a_projected_volume_with_a_secret_is_secret_as_a_whole(world: World) -> None:
    sources = [
        {"configMap": {"name": "app", "items": [{"key": "b", "path": "b"}]}},
        {"secret": {"name": "login", "items": [{"key": "user", "path": "who", "mode": 0o440}]}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]
    made = world.prepared({"name": "v", "projected": {"sources": sources, "defaultMode": 0o444}})
    assert {path: (file.data, file.mode) for path, file in made.secret_files["v"].items()} == {
        "b": (b"2", 0o444),
        "who": (b"ada", 0o440),
        "name": (b"p", 0o444),
    }


def test_a_downward_volume_tells_the_pod_about_itself(world: World) -> None:
    items = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}},
    ]
    folder = world.source({"name": "v", "downwardAPI": {"items": items}})
    assert (folder / "labels").read_text() == 'a="x\\"y"\nb="2"'
    assert (folder / "cpu").read_text() == "2"


@pytest.mark.parametrize(
    ("volume", "missing"),
    [
        ({"configMap": {"name": "none"}}, ("ConfigMap", "none", "")),
        ({"configMap": {"name": "app", "items": [{"key": "k", "path": "k"}]}}, ("ConfigMap", "app", "k")),
        ({"secret": {"secretName": "none"}}, ("Secret", "none", "")),
        ({"secret": {"secretName": "login", "items": [{"key": "k", "path": "k"}]}}, ("Secret", "login", "k")),
    ],
)
def test_a_missing_object_or_key_is_named(world: World, volume: dict[str, Any], missing: tuple[str, str, str]) -> None:
    with pytest.raises(MissingReference) as caught:
        world.resolve({"name": "v", **volume})
    assert (caught.value.kind, caught.value.name, caught.value.key) == missing


def test_an_optional_one_that_is_missing_is_an_empty_folder(world: World) -> None:
    assert list(world.source({"name": "v", "configMap": {"name": "none", "optional": True}}).iterdir()) == []


def test_a_claim_is_made_on_first_use_and_told(world: World) -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "models"}}
    made = world.resolve(volume)
    fresh = volumes.prepare(made, world.context(volume), NOW)
    assert [claim.name for claim in fresh] == made.claims == ["models"]
    assert made.mounts["main"][0].source == world.root / "claims/team/models"
    assert volumes.prepare(made, world.context(volume), NOW) == []


@pytest.mark.parametrize(
    ("mount", "source", "modes", "expected"),
    [
        ({}, {}, ["ReadWriteMany"], False),
        ({"readOnly": True}, {}, ["ReadWriteMany"], True),
        ({}, {"readOnly": True}, ["ReadWriteMany"], True),
        ({}, {}, ["ReadOnlyMany"], True),
        ({}, {}, ["ReadOnlyMany", "ReadWriteOnce"], False),
    ],
)
def test_mount_volume_and_claim_can_each_forbid_writing(
    world: World, mount: dict[str, Any], source: dict[str, Any], modes: list[str], expected: bool
) -> None:
    world.claims.declare({"metadata": {"name": "c"}, "spec": {"accessModes": modes}}, "team", NOW)
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c", **source}}
    made = world.resolve(volume, {"mountPath": "/data", **mount})
    assert made.mounts["main"][0].read_only is expected


@pytest.mark.parametrize(
    ("kind", "name", "accepted"),
    [
        ("", "folder", True),
        ("", "file", True),
        ("", "none", False),
        ("Directory", "folder", True),
        ("Directory", "file", False),
        ("Directory", "none", False),
        ("File", "file", True),
        ("File", "folder", False),
        ("DirectoryOrCreate", "none/deep", True),
        ("DirectoryOrCreate", "file", False),
        ("FileOrCreate", "none", True),
        ("FileOrCreate", "folder", False),
        ("Socket", "socket", True),
        ("Socket", "file", False),
        ("CharDevice", "file", False),
        ("Unknown", "folder", False),
    ],
)
def test_the_type_of_a_host_path_is_honoured(world: World, kind: str, name: str, accepted: bool) -> None:
    (world.root / "folder").mkdir()
    (world.root / "file").touch()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(world.root / "socket"))
        volume = {"name": "v", "hostPath": {"path": str(world.root / name), "type": kind}}
        if accepted:
            source = world.source(volume)
            assert source == world.root / name
            assert source.is_dir() == ("folder" in name or "deep" in name)
        else:
            with pytest.raises(VolumeError, match="volume 'v'"):
                world.source(volume)


@pytest.mark.parametrize("kind", ["azureFile", "nfs", "csi", "awsElasticBlockStore", "image"])
def test_a_kind_that_cannot_be_mounted_is_refused_with_the_line_to_add(
    world: World, kind: str, wording: Wording
) -> None:
    with pytest.raises(VolumeError) as caught:
        world.resolve({"name": "share", kind: {"x": 1}})
    assert kind in caught.value.message
    assert "--volume share=FOLDER" in caught.value.hint
    assert '[volumes]\nshare = "FOLDER"' in caught.value.hint
    wording(caught.value.message, caught.value.hint)


def test_a_mapping_stands_in_for_any_kind_and_keeps_read_only(world: World, wording: Wording) -> None:
    world.mapping["share"] = world.root / "folder"
    with pytest.raises(VolumeError, match="share") as caught:
        world.resolve({"name": "share", "nfs": {"server": "s"}})
    wording(str(caught.value).replace(str(world.root), "ROOT"))
    (world.root / "folder").mkdir()
    mount = world.resolve({"name": "share", "azureFile": {"shareName": "s", "readOnly": True}}).mounts["main"][0]
    assert (mount.source, mount.read_only) == (world.root / "folder", True)
    assert not world.resolve({"name": "share", "emptyDir": {}}).mounts["main"][0].read_only


def test_a_sub_path_is_made_inside_the_volume(world: World) -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    made = world.prepared(
        volume, {"mountPath": "/a", "subPath": "logs/x"}, {"mountPath": "/b", "subPathExpr": "run-$(POD)"}
    )
    base = world.root / "claims/team/c"
    assert [mount.source for mount in made.mounts["main"]] == [base / "logs/x", base / "run-p-0"]
    assert (base / "logs/x").is_dir()
    assert (base / "run-p-0").is_dir()


@pytest.mark.parametrize(
    "mount", [{"subPath": "../x"}, {"subPath": "a/../../x"}, {"subPath": "/x"}, {"subPathExpr": "$(NONE)"}]
)
def test_a_sub_path_that_leaves_its_volume_is_refused(world: World, mount: dict[str, str]) -> None:
    with pytest.raises(VolumeError, match="subPath"):
        world.resolve({"name": "v", "emptyDir": {}}, {"mountPath": "/data", **mount})


def test_a_symbolic_link_may_lead_about_inside_the_volume_and_not_out_of_it(world: World, wording: Wording) -> None:
    claim, _ = world.claims.ensure("team", "c", NOW)
    (claim.folder / "real").mkdir()
    (claim.folder / "inside").symlink_to("real")
    (claim.folder / "outside").symlink_to(world.root)
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    world.prepared(volume, {"mountPath": "/data", "subPath": "inside/x"})
    assert (claim.folder / "real/x").is_dir()
    with pytest.raises(VolumeError, match="outside/x") as caught:
        world.prepared(volume, {"mountPath": "/data", "subPath": "outside/x"})
    wording(str(caught.value).replace(str(world.root), "ROOT"))
    assert not (world.root / "x").exists()


def test_a_mount_inside_another_comes_after_it(world: World) -> None:
    made = world.resolve(
        {"name": "v", "emptyDir": {}}, {"mountPath": "/a/b/c/"}, {"mountPath": "/a"}, {"mountPath": "/a/b"}
    )
    assert [mount.target for mount in made.mounts["main"]] == ["/a", "/a/b", "/a/b/c"]
    assert made.mounts["main"][0].source == world.root / "pod/volumes/v"


@pytest.mark.parametrize(
    "volume",
    [
        {"name": "../v", "emptyDir": {}},
        {"name": "v", "emptyDir": {"medium": "HugePages"}},
        {"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "big"}},
        {"name": "v", "hostPath": {"path": "relative"}},
        {"name": "v", "configMap": {"name": "app", "items": [{"key": "b", "path": "../b"}]}},
        {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
        {"name": "v", "persistentVolumeClaim": {"claimName": "../c"}},
    ],
)
def test_a_volume_that_makes_no_sense_is_refused(world: World, volume: dict[str, Any]) -> None:
    with pytest.raises(Refusal):
        world.resolve(volume)


# --- which mentions of a mount path are led to its folder, and which are left alone -----------------------------------

MAPPING = {"/data": "/s/v/data", "/data/cache": "/s/v/cache", "/train": "/s/v/train", "/etc/app.yaml": "/s/app.yaml"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data", "/s/v/data"),
        ("/data/", "/s/v/data/"),
        ("/data/mnist/x", "/s/v/data/mnist/x"),
        ("--d=/data/mnist/x", "--d=/s/v/data/mnist/x"),
        ("/a:/data:/train", "/a:/s/v/data:/s/v/train"),
        ("/data/cache/1", "/s/v/cache/1"),
        ("/data/cached", "/s/v/data/cached"),
        ('{"dir": "/data/x", "l": ["/train"]}', '{"dir": "/s/v/data/x", "l": ["/s/v/train"]}'),
        ('{\\"dir\\": \\"/data\\"}', '{\\"dir\\": \\"/s/v/data\\"}'),
        ("python m.py --d /data && cp -r /data/x /train", "python m.py --d /s/v/data && cp -r /s/v/data/x /s/v/train"),
        ("ls </data/x>/train/y;echo", "ls </s/v/data/x>/s/v/train/y;echo"),
        ("open(f'/data/{i}')", "open(f'/s/v/data/{i}')"),
        ("$(ls /data)", "$(ls /s/v/data)"),
        ("file:///data/x", "file:///s/v/data/x"),
        ("--conf=@/etc/app.yaml", "--conf=@/s/app.yaml"),
        ("/data,/data/cache,/train", "/s/v/data,/s/v/cache,/s/v/train"),
    ],
)
def test_a_whole_path_is_led_to_its_folder(text: str, expected: str) -> None:
    assert rewrite_paths(text, MAPPING) == expected


@pytest.mark.parametrize(
    "text",
    [
        "/data2",
        "/data-x",
        "/data_x",
        "/data.txt",
        "/etc/app.yamlx",
        "s3://b/data",
        "gs://data/x",
        "https://host/train",
        "-I/train",
        "/mnt/data",
        "./data",
        "../data",
        "$HOME/data",
        "${HOME}/data",
        '"$HOME"/data',
        '"${HOME}"/data',
        '"$(pwd)"/data',
        "~/data",
        "data",
        "",
    ],
)
def test_anything_else_is_left_alone(text: str) -> None:
    assert rewrite_paths(text, MAPPING) == text


def test_what_was_put_in_is_not_rewritten_again() -> None:
    assert rewrite_paths("/data", {"/data": "/train/data", "/train": "/x"}) == "/train/data"


def test_the_paths_that_were_rewritten_are_known() -> None:
    assert mount_paths_in("--d=/data/x -I/train", MAPPING) == ["/data"]

"""Where the versions of a model are: in the folders of a job, in its claim, or in a folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from support.plan.builders import job, template
from tfjob.api.types import TFJob
from tfjob.errors import NotFound, UserError
from tfjob.local.jobs.places import Places
from tfjob.plan.build.job_storage import OUTPUT
from tfjob.serve import exports
from tfjob.serve.deploy import Volume
from tfjob.serve.savedmodel import SavedModel
from tfjob.serve.sources import Source, cluster_source, folder_source, job_source


def saved_model(folder: Path, content: str = "graph") -> Path:
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").write_text(content)
    return folder


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publish without the check in the serving engine."""
    monkeypatch.setattr(exports, "check", lambda *_, **__: None)
    monkeypatch.setattr(exports, "read", lambda folder: SavedModel(folder, ("serve",), "", {}, 0))


def places(storage: Path, output: str | None = None) -> Places:
    variables = {OUTPUT: str(storage / "output") if output is None else output}
    return Places(python=Path("/p"), work=Path("/w"), own=[storage], variables=variables)


def of_job(storage: Path, model_path: str = "", output: str | None = None) -> Source:
    return job_source(places(storage, output), "mnist", model_path, storage.parent / "state")


def test_a_job_has_its_versions_where_tfjob_export_writes_them(tmp_path: Path) -> None:
    usual = tmp_path / "output" / "model"
    waiting = of_job(tmp_path)
    assert (waiting.model, waiting.base_path) == ("mnist", str(usual))
    assert "no version" in waiting.note
    saved_model(usual / "1")
    saved_model(tmp_path / "output" / "other" / "7")
    found = of_job(tmp_path)
    assert (found.base_path, found.note) == (str(usual), "")


def test_other_folders_of_a_job_are_searched(tmp_path: Path) -> None:
    saved_model(tmp_path / "models" / "digits" / "3")
    assert of_job(tmp_path).base_path == str(tmp_path / "models" / "digits")
    saved_model(tmp_path / "models" / "letters" / "1")
    with pytest.raises(UserError, match="--model-path"):
        of_job(tmp_path)
    assert of_job(tmp_path, "models/letters").base_path == str(tmp_path / "models" / "letters")


def test_an_output_folder_in_an_object_store_is_not_read(tmp_path: Path) -> None:
    assert of_job(tmp_path, "x", "s3://bucket").base_path == str(tmp_path / "x")


@pytest.mark.usefixtures("copied")
def test_a_saved_model_without_a_version_is_published_once(tmp_path: Path) -> None:
    model = saved_model(tmp_path / "digits")
    state = tmp_path / "state"
    for _ in range(2):
        source = folder_source(model, state)
        assert source == Source(model="digits", base_path=str(state / "models" / "digits"))
        assert os.listdir(source.base_path) == ["1"]
    (model / "saved_model.pb").write_text("a newer graph")
    assert sorted(os.listdir(folder_source(model, state).base_path)) == ["1", "2"]


def test_a_folder_of_versions_is_served_as_it_is(tmp_path: Path) -> None:
    saved_model(tmp_path / "digits" / "00012")
    source = folder_source(tmp_path / "digits", tmp_path / "state")
    assert source == Source(model="digits", base_path=str(tmp_path / "digits"))
    assert not (tmp_path / "state").exists()
    with pytest.raises(UserError, match="is one version") as caught:
        folder_source(tmp_path / "digits" / "00012", tmp_path / "state")
    assert str(tmp_path / "digits") in caught.value.hint
    with pytest.raises(NotFound):
        folder_source(tmp_path / "nothing", tmp_path / "state")


def with_storage(volume: dict[str, Any], **mount: Any) -> TFJob:
    """Return a job whose storage is a volume."""
    pods = template(volumeMounts=[{"name": "tfjob-data", "mountPath": "/data", **mount}])
    pods["spec"]["volumes"] = [{"name": "tfjob-data", **volume}]
    return job(worker=1, pod_template=pods)


CLAIM = {"persistentVolumeClaim": {"claimName": "shared"}}


@pytest.mark.parametrize(
    ("mount", "model_path", "base_path"),
    [
        ({}, "", "/data/output/model"),
        ({"subPath": "team"}, "", "/data/output/model"),
        ({}, "models/digits", "/data/models/digits"),
    ],
)
def test_on_a_cluster_the_server_mounts_the_storage_of_the_job(
    mount: dict[str, str], model_path: str, base_path: str
) -> None:
    found = cluster_source(with_storage(CLAIM, **mount), model_path)
    volume = Volume(source={"name": "tfjob-data", **CLAIM}, mount_path="/data", sub_path=mount.get("subPath", ""))
    assert found == Source(model="mnist", base_path=base_path, volume=volume)
    assert found.note == ""


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (job(worker=1), "no storage"),
        (with_storage({"emptyDir": {}}), "emptyDir"),
        (with_storage(CLAIM, subPathExpr="$(POD_NAME)"), "subPathExpr"),
    ],
)
def test_storage_that_other_pods_cannot_read_is_refused(given: TFJob, word: str) -> None:
    with pytest.raises(UserError, match=word) as caught:
        cluster_source(given, "")
    assert "claim" in caught.value.hint

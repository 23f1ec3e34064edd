from __future__ import annotations

from pathlib import Path

import pytest

from support.golden import Wording
from support.serve.signatures import DIGITS, write_saved_model
from tfjob.errors import InvalidRequest, NotFound
from tfjob.serve import exports
from tfjob.serve.exports import export_at, find_exports, newest, next_version, publish, read, version_of


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publish without the serving engine, which cannot run a model without a graph."""
    monkeypatch.setattr(exports, "check", lambda *_, **__: None)


@pytest.mark.parametrize(
    ("name", "version"),
    [("1", 1), ("00000123", 123), ("1700000000", 1700000000), ("v1", None), ("1.tmp", None), ("٣", None), ("", None)],
)
def test_a_folder_whose_name_is_a_whole_number_is_a_version(name: str, version: int | None) -> None:
    assert version_of(name) == version


def test_models_are_found_with_their_versions_and_steps(tmp_path: Path) -> None:
    for path in ("output/model/2", "output/model/10", "output/plain", "checkpoints/export/final/1700000000"):
        write_saved_model(tmp_path / path)
    write_saved_model(tmp_path / "output/model/3", step=300)
    for path in (
        "output/model/.unfinished-4",
        "output/model/unfinished-5",
        "checkpoints/export/final/temp-17",
        "a/" * 9,
    ):
        write_saved_model(tmp_path / path)
    found = [
        (one.folder.relative_to(tmp_path).as_posix(), one.name, one.version, one.step)
        for one in find_exports([tmp_path])
    ]
    assert found == [
        ("checkpoints/export/final/1700000000", "final", 1700000000, None),
        ("output/model/2", "model", 2, None),
        ("output/model/3", "model", 3, 300),
        ("output/model/10", "model", 10, None),
        ("output/plain", "plain", None, None),
    ]
    assert find_exports([tmp_path / "output", tmp_path / "output" / "model"]) == find_exports([tmp_path / "output"])
    assert find_exports([tmp_path / "absent"]) == []


def test_a_model_whose_graph_is_missing_is_found_and_is_incomplete(tmp_path: Path, wording: Wording) -> None:
    folder = write_saved_model(tmp_path / "model" / "1")
    (folder / "saved_model.pb").unlink()
    (export,) = find_exports([tmp_path])
    with pytest.raises(InvalidRequest, match=r"saved_model\.pb") as error:
        read(export.folder)
    wording(error.value)


@pytest.mark.parametrize("content", ["", "[]", '{"step": "many"}', '{"step": null}', "{}"])
def test_a_record_that_is_damaged_has_no_step(tmp_path: Path, content: str) -> None:
    folder = write_saved_model(tmp_path / "1", step=5)
    (folder / "assets.extra" / "tfjob.json").write_text(content)
    assert export_at(folder).step is None


def test_the_newest_model_is_the_highest_version_of_the_only_one(tmp_path: Path, wording: Wording) -> None:
    for path in ("a/9", "a/10"):
        write_saved_model(tmp_path / path)
    assert newest(find_exports([tmp_path])).version == 10
    write_saved_model(tmp_path / "b/11")
    assert newest(find_exports([tmp_path]), "a").version == 10
    messages = []
    for found, model, kind in (([], "", NotFound), (None, "", InvalidRequest), (None, "c", NotFound)):
        with pytest.raises(kind) as error:
            newest(find_exports([tmp_path]) if found is None else found, model)
        messages.append(str(error.value).replace(str(tmp_path), "FOLDER"))
    wording(*messages)


def test_a_model_is_published_as_the_next_version(tmp_path: Path) -> None:
    source, base = write_saved_model(tmp_path / "model", step=7), tmp_path / "served" / "mnist"
    assert publish(source, base) == base / "1"
    (base / "7.tmp").mkdir()
    assert publish(source, base, 5) == base / "5"
    assert publish(source, base) == base / "6"
    assert read(base / "6").signatures == {"serving_default": DIGITS}
    assert export_at(base / "6").step == 7
    assert sorted(path.name for path in base.iterdir()) == ["1", "5", "6", "7.tmp"]


def test_a_version_that_exists_is_never_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, base = write_saved_model(tmp_path / "model"), tmp_path / "mnist"
    (base / "003").mkdir(parents=True)
    with pytest.raises(InvalidRequest, match="003 already exists"):
        publish(source, base, 3)
    taken: list[int] = []

    def lose_the_race(folder: Path) -> int:
        version = next_version(folder)
        if not taken:
            write_saved_model(folder / str(version), step=1)  # another process is faster
        taken.append(version)
        return version

    monkeypatch.setattr(exports, "next_version", lose_the_race)
    assert publish(source, base) == base / "5"
    assert export_at(base / "4").step == 1


def test_nothing_is_left_of_a_model_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path, *_: object, shown: Path) -> None:
        raise InvalidRequest(f"{shown} fails")

    monkeypatch.setattr(exports, "check", fail)
    source, base = write_saved_model(tmp_path / "model"), tmp_path / "mnist"
    with pytest.raises(InvalidRequest, match=f"{source} fails"):
        publish(source, base)
    assert not base.exists()
    base.mkdir()
    with pytest.raises(InvalidRequest):
        publish(source, base)
    assert list(base.iterdir()) == []


def test_an_incomplete_model_is_not_published(tmp_path: Path) -> None:
    source = write_saved_model(tmp_path / "model")
    (source / "variables" / "variables.data-00000-of-00001").unlink()
    with pytest.raises(InvalidRequest, match=r"variables\.data-00000-of-00001"):
        publish(source, tmp_path / "mnist")
    assert not (tmp_path / "mnist").exists()

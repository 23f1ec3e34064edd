"""Versions in memory: what is loaded, which one answers, and what the status shows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.serve.toy_models import HALF, ToyLoader, write_model
from tfjob.serve.config import All, Batching, Latest, Loading, ModelConfig, Specific
from tfjob.serve.errors import Code, Status
from tfjob.serve.metrics import Metrics
from tfjob.serve.models import ENDED_ROWS, Models, State, VersionStatus

LATEST = Latest()
FAST = Loading(poll_seconds=0.01, retry_seconds=0.0)


class Served:
    """Models over toy engines; `settle` waits until the watch has reached a state."""

    def __init__(self, folder: Path, loading: Loading = FAST, loader: ToyLoader | None = None) -> None:
        self.base = folder / "m"
        self.base.mkdir(exist_ok=True)
        self.loader = loader or ToyLoader()
        self.models = Models(loading, Batching(), Metrics(), self.loader)

    def publish(self, *versions: int) -> None:
        for version in versions:
            part = write_model(self.base / f"{version}.part", HALF)
            part.rename(self.base / str(version))

    def configure(self, policy: Latest | All | Specific = LATEST, **labels: int) -> None:
        self.models.configure([ModelConfig("m", self.base, policy, labels)])

    def rows(self) -> dict[int, State]:
        return {row.version: row.state for row in self.models.statuses().get("m", [])}

    def newest(self) -> int | None:
        try:
            with self.models.find("m") as version:
                return version.number
        except Status:
            return None

    def settle(self, **rows: str) -> None:
        wanted = {int(name.removeprefix("v")): State[state] for name, state in rows.items()}
        pause = threading.Event()
        for _ in range(3000):
            if self.rows() == wanted:
                return
            pause.wait(0.01)
        raise AssertionError(f"the status is {self.rows()}, not {wanted}")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    yield made
    made.models.close(5)


def fails_for(*names: str) -> ToyLoader:
    def fail(folder: Path) -> None:
        if folder.name in names:
            raise Status(Code.DATA_LOSS, "damaged")

    return ToyLoader(fail)


def test_the_newest_version_answers(served: Served) -> None:
    served.publish(1, 2)
    served.configure()
    assert served.newest() == 2
    assert served.rows() == {2: State.AVAILABLE}
    assert served.models.not_ready() == []


def test_a_newer_version_replaces_the_old_one(served: Served) -> None:
    served.publish(1)
    served.configure()
    served.models.watch()
    old = served.loader.engines["1"]
    served.publish(2)
    served.settle(v2="AVAILABLE", v1="END")
    assert served.newest() == 2
    assert old.is_closed


def test_an_old_version_stays_open_for_the_requests_it_has(served: Served) -> None:
    served.publish(1)
    served.configure()
    with served.models.find("m") as lease:
        served.publish(2)
        served.configure()
        assert served.newest() == 2
        assert served.rows()[1] is State.UNLOADING
        assert lease.number == 1
        assert not served.loader.engines["1"].is_closed
    served.settle(v2="AVAILABLE", v1="END")
    assert served.loader.engines["1"].is_closed


def test_a_version_that_does_not_load_never_replaces_one(tmp_path: Path) -> None:
    served = Served(tmp_path, Loading(poll_seconds=0.01, retries=2, retry_seconds=0), fails_for("2"))
    served.publish(1)
    served.configure()
    served.models.watch()
    served.publish(2)
    served.settle(v2="END", v1="AVAILABLE")
    assert served.newest() == 1
    assert served.loader.attempts == ["1", "2", "2", "2"]
    row = served.models.statuses()["m"][0]
    assert row == VersionStatus(2, State.END, Code.DATA_LOSS, "damaged")
    served.models.close(5)


def test_at_start_the_newest_version_that_loads_answers(tmp_path: Path) -> None:
    served = Served(tmp_path, loader=fails_for("3"))
    served.publish(1, 2, 3)
    served.configure()
    assert served.newest() == 2
    assert served.rows() == {3: State.LOADING, 2: State.AVAILABLE}
    served.models.close(5)


def test_an_incomplete_version_is_taken_once_it_is_complete(served: Served) -> None:
    served.publish(1)
    (served.base / "2").mkdir()
    served.configure()
    row = served.models.statuses()["m"][0]
    assert (row.version, row.state, row.code) == (2, State.START, Code.FAILED_PRECONDITION)
    assert "saved_model.pb is missing" in row.message
    assert served.loader.attempts == ["1"]
    served.models.watch()
    write_model(served.base / "part", HALF).joinpath("saved_model.pb").rename(served.base / "2/saved_model.pb")
    served.settle(v2="AVAILABLE", v1="END")


def test_the_last_version_survives_the_deletion_of_its_folder(served: Served) -> None:
    served.publish(1)
    served.configure()
    (served.base / "1/saved_model.pb").unlink()
    (served.base / "1").rmdir()
    served.configure()
    assert served.newest() == 1
    served.base.rmdir()
    served.configure()
    assert served.newest() == 1


def test_all_and_specific_versions(served: Served) -> None:
    served.publish(1, 2, 3)
    served.configure(All())
    assert served.rows() == dict.fromkeys((3, 2, 1), State.AVAILABLE)
    served.configure(Specific((1, 3)))
    served.settle(v3="AVAILABLE", v2="END", v1="AVAILABLE")
    with served.models.find("m", 1) as version:
        assert version.number == 1
    with pytest.raises(Status, match=r"Specific\(m, 2\)") as caught:
        served.models.find("m", 2)
    assert caught.value.code is Code.NOT_FOUND


def test_a_model_without_a_version_is_not_ready(served: Served) -> None:
    (served.base / "v0.1").mkdir()
    served.configure()
    assert served.models.not_ready() == [f"The model m has no version yet: {served.base} contains v0.1."]
    with pytest.raises(Status, match=r"Latest\(m\)") as caught:
        served.models.find("m")
    assert caught.value.code is Code.NOT_FOUND


def test_the_log_explains_a_model_without_a_version_once_a_minute(
    served: Served, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.configure()
    served.configure()
    sentence = f"The model m has no version yet: {served.base} is empty."
    assert [record.getMessage() for record in caplog.records] == [sentence]
    monkeypatch.setattr("tfjob.serve.models.REMINDER_SECONDS", 0.0)
    served.configure()
    assert [record.getMessage() for record in caplog.records] == [sentence] * 2


@pytest.mark.parametrize(
    ("name", "label", "code", "text"),
    [
        ("", "", Code.INVALID_ARGUMENT, "ModelSpec has no name specified."),
        ("x", "", Code.NOT_FOUND, "Servable not found for request: Latest(x)"),
        ("m", "x", Code.INVALID_ARGUMENT, "Unrecognized servable version label: x"),
    ],
)
def test_an_unknown_model_or_label_is_an_error(served: Served, name: str, label: str, code: Code, text: str) -> None:
    served.publish(1)
    served.configure()
    with pytest.raises(Status) as caught:
        served.models.find(name, label=label)
    assert (caught.value.code, caught.value.message) == (code, text)


def test_labels_point_to_versions_that_are_available(served: Served) -> None:
    served.publish(1, 2)
    served.configure(All(), stable=1, canary=2)
    with served.models.find("m", label="stable") as version:
        assert version.number == 1
    with pytest.raises(Status, match="version 7 of model m") as caught:
        served.configure(All(), stable=7)
    assert caught.value.code is Code.FAILED_PRECONDITION
    assert served.models.labels("m") == {"stable": 1, "canary": 2}


def test_a_new_label_may_point_ahead_if_that_is_allowed(tmp_path: Path) -> None:
    served = Served(tmp_path, Loading(poll_seconds=0, labels_of_unavailable=True))
    served.publish(1)
    served.configure(All(), next=2)
    with pytest.raises(Status, match=r"Specific\(m, 2\)"):
        served.models.find("m", label="next")
    with pytest.raises(Status, match="version 3"):
        served.configure(All(), next=3)
    served.models.close(5)


def test_a_label_that_is_refused_does_not_hide_a_change(served: Served) -> None:
    changes: list[list[str]] = []
    served.models.on_change.append(lambda: changes.append(served.models.not_ready()))
    with pytest.raises(Status, match="label"):
        served.configure(stable=1)
    assert len(changes) == 1
    assert len(changes[0]) == 1


def test_a_model_that_is_no_longer_configured_is_unloaded(served: Served) -> None:
    served.publish(1)
    served.configure()
    changes: list[int] = []
    served.models.on_change.append(lambda: changes.append(1))
    served.models.configure([])
    assert served.models.names() == []
    assert changes
    assert served.newest() is None
    served.settle(v1="END")
    served.publish(2)
    served.configure()
    assert served.rows() == {2: State.AVAILABLE}


def test_the_status_keeps_the_last_models_that_were_removed(served: Served, tmp_path: Path) -> None:
    for number in range(ENDED_ROWS + 2):
        folder = write_model(tmp_path / f"model {number}" / str(number), HALF).parent
        served.models.configure([ModelConfig(folder.name, folder)])
    assert list(served.models.statuses()) == [f"model {number}" for number in range(1, ENDED_ROWS + 2)]


@pytest.mark.parametrize(("config", "count"), [(b"", 1), (b"\x10\x01", 0)])
def test_the_log_has_a_hint_about_the_threads_of_a_small_model(
    tmp_path: Path, config: bytes, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    served = Served(tmp_path, Loading(poll_seconds=0, session_config=config))
    with caplog.at_level("INFO", "tfjob.serve"):
        for version in (1, 2):
            served.publish(version)
            served.configure()
    assert caplog.text.count("--tensorflow_intra_op_parallelism=1") == count
    served.models.close(5)


def test_a_model_may_move_to_another_folder(served: Served, tmp_path: Path) -> None:
    served.publish(2)
    served.configure()
    write_model(tmp_path / "other/1", HALF)
    served.models.configure([ModelConfig("m", tmp_path / "other")])
    assert served.newest() == 1


def test_a_name_that_occurs_twice_is_invalid(served: Served) -> None:
    with pytest.raises(Status, match="more than once"):
        served.models.configure([ModelConfig("m", served.base), ModelConfig("m", served.base)])


def test_the_status_keeps_the_last_rows_of_versions_that_ended(served: Served) -> None:
    for version in range(1, ENDED_ROWS + 4):
        served.publish(version)
        served.configure()
        last = {f"v{one}": "END" for one in range(max(1, version - ENDED_ROWS), version)}
        served.settle(**last, **{f"v{version}": "AVAILABLE"})


def test_a_version_has_its_own_batching_parameters(tmp_path: Path) -> None:
    served = Served(tmp_path, Loading(poll_seconds=0, per_model_batching=True))
    folder = write_model(served.base / "1", HALF)
    (folder / "batching_params.pbtxt").write_text("max_batch_size { value: 7 }")
    served.configure()
    with served.models.find("m") as version:
        assert version.batching.max_batch_size == 7
    served.models.close(5)


def test_closing_waits_for_requests(tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.publish(1)
    served.configure()
    lease = served.models.find("m")
    served.models.close(0.05)
    assert not served.loader.engines["1"].is_closed
    lease.release()
    served.settle(v1="END")
    assert served.loader.engines["1"].is_closed

"""Claims: made, found, measured, and deleted only when nobody uses them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.golden import Wording
from tfjob.local.volumes.claims import ClaimError, Claims, size_on_disk

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LATER = datetime(2026, 2, 2, tzinfo=UTC)


def document(name: str = "data", **spec: Any) -> dict[str, Any]:
    return {"kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def test_a_claim_is_made_on_first_use_and_said_to_be_new_once(tmp_path: Path) -> None:
    claims = Claims(tmp_path / "claims")
    assert claims.find("team", "data") is None
    claim, made = claims.ensure("team", "data", NOW)
    assert made
    assert claim.folder == tmp_path / "claims/team/data"
    assert claim.folder.is_dir()
    assert claims.ensure("team", "data", LATER) == (claim, False)
    assert not claim.record.declared


def test_a_document_declares_modes_and_size_and_keeps_the_files(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    claim, _ = claims.ensure("team", "data", NOW)
    (claim.folder / "kept").write_text("x")
    claims.add_source("team", "data", "/home/me")
    declared = claims.declare(
        document(accessModes=["ReadOnlyMany"], resources={"requests": {"storage": "10Gi"}}), "team", LATER
    )
    assert declared.record.created == NOW
    assert (declared.record.declared, declared.record.size, declared.read_only) == (True, "10Gi", True)
    assert declared.record.sources == ["/home/me"]
    assert claims.find("team", "data") == declared
    assert (claim.folder / "kept").read_text() == "x"


def test_the_documents_own_namespace_counts(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    wanted = document()
    wanted["metadata"]["namespace"] = "other"
    assert claims.declare(wanted, "team", NOW).namespace == "other"


def test_every_claim_is_listed_and_nothing_else(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    for namespace, name in (("b", "one"), ("a", "two.json"), ("a", "two")):
        claims.ensure(namespace, name, NOW)
    (tmp_path / "a/.deleted-1").mkdir()
    assert [(claim.namespace, claim.name) for claim in claims.all()] == [("a", "two"), ("a", "two.json"), ("b", "one")]


def test_a_folder_without_its_record_is_a_claim_nevertheless(tmp_path: Path) -> None:
    (tmp_path / "team/data").mkdir(parents=True)
    (tmp_path / "team/.data.json").write_text("{")
    assert [claim.name for claim in Claims(tmp_path).all()] == ["data"]


def test_the_size_on_disk_is_that_of_the_files(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    before = size_on_disk(tmp_path)
    (tmp_path / "deep/file").write_bytes(b"x" * 100_000)
    assert 100_000 <= size_on_disk(tmp_path) - before < 200_000


def test_a_claim_in_use_is_not_deleted(tmp_path: Path, wording: Wording) -> None:
    claims = Claims(tmp_path)
    claim, _ = claims.ensure("team", "data", NOW)
    with pytest.raises(ClaimError, match="a, b") as caught:
        claims.delete("team", "data", ["b", "a"])
    wording(caught.value)
    assert claim.folder.is_dir()


def test_a_deleted_claim_is_gone_and_links_in_it_are_not_followed(tmp_path: Path, wording: Wording) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/kept").touch()
    claims = Claims(tmp_path / "claims")
    claim, _ = claims.ensure("team", "data", NOW)
    (claim.folder / "link").symlink_to(tmp_path / "outside")
    claims.delete("team", "data", [])
    assert list((tmp_path / "claims/team").iterdir()) == []
    assert (tmp_path / "outside/kept").exists()
    with pytest.raises(ClaimError, match="data") as caught:
        claims.delete("team", "data", [])
    wording(caught.value)


@pytest.mark.parametrize(
    ("namespace", "name"),
    [
        ("..", "x"),
        ("a/b", "x"),
        ("", "x"),
        ("a", ""),
        ("a", ".."),
        ("a", "../x"),
        ("a", ".x"),
        ("a", "X"),
        ("a", "x\n"),
    ],
)
def test_a_name_cannot_leave_the_folder(tmp_path: Path, namespace: str, name: str) -> None:
    with pytest.raises(ClaimError):
        Claims(tmp_path).ensure(namespace, name, NOW)


@pytest.mark.parametrize(
    "spec",
    [
        {"accessModes": ["Sometimes"]},
        {"volumeMode": "Block"},
        {"dataSource": {"kind": "VolumeSnapshot"}},
    ],
)
def test_what_a_folder_cannot_be_is_refused(tmp_path: Path, spec: dict[str, Any], wording: Wording) -> None:
    with pytest.raises(ClaimError, match="claim 'data'") as caught:
        Claims(tmp_path).declare(document(**spec), "team", NOW)
    wording(caught.value)

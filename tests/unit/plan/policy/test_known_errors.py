"""The advice for each known error, from texts that the programs in tests/programs/errors printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tfjob.plan.policy.known_errors import KNOWN_ERRORS, WINDOW, advice

RECORDED = sorted((Path(__file__).parents[3] / "support" / "data" / "plan" / "errors").glob("*.txt"))
"""The end of a log each; the name of the file is that of the error, with a number if there are several."""
ENTRIES = {entry.name: entry for entry in KNOWN_ERRORS}
KUBELET_BYTES, KUBELET_LINES = 2048, 80
"""How much of a log a kubelet keeps."""
ILLEGAL = 132


def name_of(file: Path) -> str:
    return file.name.partition(".")[0]


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
@pytest.mark.parametrize("backend", ["this machine", "a cluster"])
def test_a_recorded_log_gets_the_advice_of_its_error(file: Path, backend: str) -> None:
    log = file.read_text()
    if backend == "a cluster":
        log = "\n".join(log.encode()[-KUBELET_BYTES:].decode(errors="ignore").split("\n")[-KUBELET_LINES:])
    entry = ENTRIES[name_of(file)]
    assert advice(log, 1) == f"{entry.cause} {entry.remedy}"


def test_every_error_has_a_recorded_log_or_an_exit_code() -> None:
    recorded = {name_of(file) for file in RECORDED}
    assert recorded | {entry.name for entry in KNOWN_ERRORS if entry.exit_code} == set(ENTRIES)


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_is_short_and_in_whole_sentences(name: str) -> None:
    """An event has room for 1000 bytes, which contain more than the advice."""
    entry = ENTRIES[name]
    assert entry.cause.endswith(".")
    assert entry.remedy.endswith(".")
    assert len(entry.cause) + len(entry.remedy) <= 400
    assert len(entry.shows) <= 120


def test_an_exit_code_alone_is_evidence() -> None:
    assert advice("", ILLEGAL).startswith(ENTRIES["cpu-instructions"].cause)
    assert advice("Address already in use", ILLEGAL).startswith(ENTRIES["address-in-use"].cause)


@pytest.mark.parametrize("code", [1, 134, 137, 139, 143])
def test_other_failures_get_no_advice(code: int) -> None:
    assert advice("loading\nValueError: no data", code) == ""
    assert advice("", code) == ""


def test_what_a_log_shows_last_counts() -> None:
    log = "Could not load dynamic library 'libcudart.so.11.0'\nOSError: [Errno 28] No space left on device\n"
    assert advice(log, 1).startswith(ENTRIES["disk-full"].cause)


def test_what_a_log_showed_long_ago_does_not_count() -> None:
    assert advice("No space left on device\n" + "step\n" * WINDOW, 1) == ""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("KeyError: 'ps'", "replica-type-missing"),
        ('ValueError: If "cluster" is set in TF_CONFIG, it must have one "chief" node.', "replica-type-missing"),
        ("terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc", "out-of-memory"),
        ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.28 TiB for an array", "out-of-memory"),
        ("OSError: [Errno 98] Address already in use", "address-in-use"),
        ("ModuleNotFoundError: No module named 'tf_keras'", "legacy-keras-missing"),
        ("Batch 3: Invalid loss, terminating training\nAssertionError: no result", "nan-loss"),
        (
            "TypeError: Descriptors cannot be created directly.\nIf this call came from a _pb2.py file",
            "protobuf-version",
        ),
        ("ImportError: cannot import name 'runtime_version' from 'google.protobuf' (x)", "protobuf-version"),
    ],
)
def test_other_texts_of_the_same_error(text: str, name: str) -> None:
    assert advice(f"loading\n{text}\n", 1).startswith(ENTRIES[name].cause)


def test_patterns_are_valid_and_do_not_match_an_empty_log() -> None:
    assert [entry.name for entry in KNOWN_ERRORS if re.search(entry.pattern, "")] == []

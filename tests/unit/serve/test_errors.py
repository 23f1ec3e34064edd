"""Status codes and errors."""

from __future__ import annotations

import grpc
import pytest

from tfjob.serve import protos
from tfjob.serve.errors import LONGEST, Code, Status, invalid


def test_codes_have_the_numbers_of_grpc() -> None:
    assert {code.name: code.number for code in Code} == {code.name: code.value[0] for code in grpc.StatusCode}


def test_codes_have_the_numbers_of_tensorflow() -> None:
    values = protos.POOL.FindEnumTypeByName("tensorflow.error.Code").values
    assert {code.name: code.number for code in Code} == {value.name: value.number for value in values}


@pytest.mark.parametrize(("code", "http"), [("NOT_FOUND", 404), ("FAILED_PRECONDITION", 400), ("UNAVAILABLE", 503)])
def test_codes_know_the_status_of_http(code: str, http: int) -> None:
    assert Code[code].http == http


def test_a_long_message_is_cut() -> None:
    assert invalid("x" * LONGEST).message == "x" * LONGEST
    cut = Status(Code.INTERNAL, "x" * 5000)
    assert cut.message == "x" * LONGEST + "...TRUNCATED"
    assert str(invalid("no")) == "INVALID_ARGUMENT: no"

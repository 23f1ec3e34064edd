"""The report of an internal error."""

from __future__ import annotations

import pytest

from support.golden import Wording
from tfjob.cli import exit_codes


def test_a_fault_of_our_own_is_one_line_and_exit_70(capsys: pytest.CaptureFixture[str], wording: Wording) -> None:
    def broken(**_: object) -> None:
        raise KeyError("oops")

    with pytest.raises(SystemExit) as ended:
        exit_codes.guarded(broken)
    assert ended.value.code == exit_codes.BUG
    told = capsys.readouterr().err
    assert "KeyError: 'oops'" in told
    wording(told.splitlines()[0])

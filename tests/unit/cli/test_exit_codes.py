"""The report of an internal error."""

from __future__ import annotations

import click
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


@pytest.mark.parametrize(("word", "near"), [("--tial", "--tail"), ("--follw", "--follow"), ("--epochs", "")])
def test_an_unknown_option_gets_the_nearest_one(word: str, near: str) -> None:
    command = click.Command("logs", params=[click.Option(["--tail"]), click.Option(["-f", "--follow"])])
    with pytest.raises(click.NoSuchOption) as unknown:
        command.make_context("logs", [word])
    told = exit_codes.unknown_option(unknown.value)
    assert (f"Did you mean {near}?" in told) if near else ("Did you mean" not in told)

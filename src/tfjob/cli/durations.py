"""Time spans on the command line: `90`, `90s`, `5m`, `2h`, `30d`."""

from __future__ import annotations

import re
from datetime import timedelta

import click

UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
LONGEST = timedelta(days=36500).total_seconds()


def time_span(ctx: click.Context, param: click.Parameter, value: str | None) -> timedelta | None:
    """The callback of an option that takes a number and a unit, or seconds without one."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)([smhdw]?)", value, re.ASCII)
    if match is None:
        example = "write a number and one of s, m, h, d, w, such as 90s or 30d"
        raise click.BadParameter(f"{value!r} is no time span: {example}", ctx, param)
    return timedelta(seconds=min(float(match[1]) * UNITS[match[2]], LONGEST))

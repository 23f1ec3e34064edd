"""The options of `tfjob operator` commands, generated from the fields of a dataclass."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any

import click

from tfjob.cli.context import time_span, valid_namespace
from tfjob.operator.options import OPTION

Function = Callable[..., Any]


def options_of(kind: type[Any], *only: str) -> Callable[[Function], Function]:
    """Add an option for each `option` field, or only for those named; the command gets the object as first argument."""
    fields = [one for one in dataclasses.fields(kind) if OPTION in one.metadata and (not only or one.name in only)]

    def add(command: Function) -> Function:
        @wraps(command)
        def called(**given: Any) -> Any:
            made = kind(**{one.name: given.pop(one.name) for one in fields})
            return command(made, **given)

        result: Function = called
        for one in reversed(fields):
            result = _option(one)(result)
        return result

    return add


def _option(field: dataclasses.Field[Any]) -> Callable[[Function], Function]:
    settings = dict(field.metadata[OPTION])
    flag = f"--{field.name.replace('_', '-')}"
    names = sorted((flag, *settings.pop("names")), key=lambda name: name.startswith("--"))
    default: Any = field.default
    if default is dataclasses.MISSING:
        factory: Any = field.default_factory
        default = lambda: str(factory())  # noqa: E731
    if default is False:
        settings["is_flag"] = True
    elif default is True:
        names = [f"{flag}/--no-{field.name.replace('_', '-')}"]
    if isinstance(default, timedelta):
        default, settings["callback"] = f"{default // timedelta(minutes=1)}m", time_span
    elif field.name.endswith("namespace"):
        settings["callback"] = valid_namespace
    elif parse := settings.pop("parse", None):
        settings["callback"] = parsed(parse)
        default = default if callable(default) else str(default or "")
    if limits := settings.pop("range", None):
        settings["type"] = click.IntRange(*limits)
    if choices := settings.pop("choices", None):
        settings["type"] = click.Choice(choices)
    settings.setdefault("show_default", bool(default))
    return click.option(*names, field.name, default=default, **settings)


def parsed(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str], Any]:
    def callback(ctx: click.Context, param: click.Parameter, value: str) -> Any:
        try:
            return parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return callback

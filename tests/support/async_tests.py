"""Tests that are coroutines, inside what an async context manager provides."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, ParamSpec

P = ParamSpec("P")
AsyncTest = Callable[..., Awaitable[None]]
LIMIT_SECONDS = 120.0


def async_test(
    context: Callable[P, AbstractAsyncContextManager[tuple[Any, ...]]], *args: P.args, **kwargs: P.kwargs
) -> Callable[[AsyncTest], Callable[..., None]]:
    """Run a test with the values of `context` as positional arguments; its keyword-only arguments are fixtures."""

    def decorate(test: AsyncTest) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            async def inside() -> None:
                async with asyncio.timeout(LIMIT_SECONDS), context(*args, **kwargs) as values:
                    await test(*values, **fixtures)

            asyncio.run(inside())

        parameters = inspect.signature(test).parameters.values()
        fixtures = [one for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY]
        vars(run)["__signature__"] = inspect.Signature(fixtures)  # what pytest reads the fixtures from
        return run

    return decorate

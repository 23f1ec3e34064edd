from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

def export(
    model: Any,
    folder: str | PathLike[str] | None = None,
    inputs: Mapping[str, Any] | None = None,
    outputs: str | Callable[[Any], Mapping[str, Any]] | None = None,
    scale: float | None = None,
    signature: str | Sequence[str] = "serving_default",
    step: Any = None,
    version: int | None = None,
) -> str | None: ...

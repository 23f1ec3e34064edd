"""The operator's log: one JSON object per line, or plain lines. Records of a pass name its job."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec

from tfjob.controller.controller import current_pass

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure(*, json: bool, level: int = logging.INFO) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if json else PlainFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of a record in addition to its message: those of the current pass, and the caller's."""
    found: dict[str, Any] = {}
    if running := current_pass.get():
        key, number = running
        found = {"namespace": key.namespace, "job": key.name, "reconcileID": number}
    found.update((name, value) for name, value in vars(record).items() if name not in _STANDARD)
    return found


class JsonFormatter(logging.Formatter):
    """One JSON object per record, with the field names of controller-runtime."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": _stamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
            **fields(record),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


class PlainFormatter(logging.Formatter):
    """One line per record, for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        rest = "".join(f" {name}={value}" for name, value in fields(record).items())
        text = f"{_stamp(record)} {record.levelname:<7} {record.getMessage()}{rest}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def _stamp(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

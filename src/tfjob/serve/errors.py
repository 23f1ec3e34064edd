"""The status codes of answers, as gRPC numbers and names them, with the status of HTTP that TensorFlow Serving uses."""

from __future__ import annotations

from enum import Enum

LONGEST = 1024
"""Characters of a message; TensorFlow Serving cuts longer ones, because they travel in a header."""


class Code(Enum):
    """A status code: `Code.NOT_FOUND.number` is 5 in gRPC, `.http` is 404."""

    OK = (0, 200)
    CANCELLED = (1, 499)
    UNKNOWN = (2, 500)
    INVALID_ARGUMENT = (3, 400)
    DEADLINE_EXCEEDED = (4, 504)
    NOT_FOUND = (5, 404)
    ALREADY_EXISTS = (6, 409)
    PERMISSION_DENIED = (7, 403)
    RESOURCE_EXHAUSTED = (8, 429)
    FAILED_PRECONDITION = (9, 400)
    ABORTED = (10, 409)
    OUT_OF_RANGE = (11, 400)
    UNIMPLEMENTED = (12, 501)
    INTERNAL = (13, 500)
    UNAVAILABLE = (14, 503)
    DATA_LOSS = (15, 500)
    UNAUTHENTICATED = (16, 401)

    def __init__(self, number: int, http: int) -> None:
        self.number = number
        self.http = http


BY_NUMBER = {code.number: code for code in Code}


class Status(Exception):
    """An answer that is an error: its code and a sentence for the client."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message if len(message) <= LONGEST else f"{message[:LONGEST]}...TRUNCATED"

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


def invalid(message: str) -> Status:
    return Status(Code.INVALID_ARGUMENT, message)

"""An HTTP/1.1 response, assembled from the bytes that arrive."""

from __future__ import annotations

import zlib
from collections.abc import Callable

HEAD_LIMIT = 64 * 1024
"""The largest head, or line of chunked encoding, in bytes; an API server sends less."""


class Answer:
    """The response to one request. `feed` takes arriving bytes and raises ValueError if they are not HTTP.

    `status` is 0 until the head has arrived. `keep_alive` says whether the connection can be used again afterwards.
    With `bodyless` the response ends with its head, as for CONNECT.
    """

    def __init__(self, *, bodyless: bool = False) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.begun = False
        self.complete = False
        self.keep_alive = True
        self.size = 0
        """Bytes of the body that `take` would return."""
        self._bodyless = bodyless
        self._pieces: list[bytes] = []
        self._data = b""
        self._at = 0
        self._left = 0
        self._step: Callable[[Answer], bool] = Answer._head

    def feed(self, data: bytes) -> None:
        self.begun = True
        # Advance a position instead of slicing the rest: many small chunks may arrive at once.
        self._data = data = self._data + data if self._data else data
        self._at = 0
        while self._at < len(data) and not self.complete:
            if not self._step(self):
                break
        rest = len(data) - self._at
        self._data = data[self._at :] if rest else b""
        if rest and self.complete:
            self.keep_alive = False
        elif rest > HEAD_LIMIT:
            raise ValueError("the header of the response is too long")

    def end(self) -> bool:
        """Handle the end of the connection; return whether it completes the response."""
        self.complete = self.complete or self._step is Answer._until_the_end
        return self.complete

    def take(self) -> bytes:
        pieces = self._pieces
        self._pieces, self.size = [], 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def body(self) -> bytes:
        """Return the whole body, uncompressed. Raises ValueError if that fails."""
        body = self.take()
        if self.headers.get("content-encoding") != "gzip":
            return body
        try:
            return zlib.decompress(body, 16 + zlib.MAX_WBITS)
        except zlib.error as error:
            raise ValueError(f"the response is not valid gzip: {error}") from None

    # --- the steps: each consumes its part of the data, or returns False if the part is incomplete -----------------

    def _head(self) -> bool:
        end = self._data.find(b"\r\n\r\n", self._at)
        if end < 0:
            return False
        first, *lines = self._data[self._at : end].decode("latin-1").split("\r\n")
        self._at = end + 4
        if not first.startswith("HTTP/1.") or not first[9:12].isdecimal():
            raise ValueError(f"the response is not HTTP: {first[:80]!r}")
        status = int(first[9:12])
        if 100 <= status < 200 and status != 101:
            return True  # informational; the final response follows
        for line in lines:
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()
        self.status = status
        self.keep_alive = first.startswith("HTTP/1.1") and self.headers.get("connection", "").lower() != "close"
        self._frame(status)
        return True

    def _frame(self, status: int) -> None:
        if self._bodyless or status in (101, 204, 304):
            self.complete = True
        elif "chunked" in self.headers.get("transfer-encoding", "").lower():
            self._step = Answer._chunk_size
        elif "content-length" in self.headers:
            self._left = _size(self.headers["content-length"], 10)
            self.complete = self._left == 0
            self._step = Answer._sized
        else:
            self.keep_alive = False
            self._step = Answer._until_the_end

    def _sized(self) -> bool:
        self._keep()
        self.complete = self._left == 0
        return True

    def _until_the_end(self) -> bool:
        self._left = len(self._data) - self._at
        self._keep()
        return True

    def _chunk_size(self) -> bool:
        line = self._line()
        if line is None:
            return False
        self._left = _size(bytes(line).partition(b";")[0].decode("latin-1").strip(), 16)
        self._step = Answer._chunk if self._left else Answer._trailer
        return True

    def _chunk(self) -> bool:
        self._keep()
        if not self._left:
            self._step = Answer._chunk_end
        return True

    def _chunk_end(self) -> bool:
        if len(self._data) - self._at < 2:
            return False
        if not self._data.startswith(b"\r\n", self._at):
            raise ValueError("the response has an invalid chunked encoding")
        self._at += 2
        self._step = Answer._chunk_size
        return True

    def _trailer(self) -> bool:
        line = self._line()
        self.complete = line == b""
        return line is not None

    def _line(self) -> bytes | None:
        end = self._data.find(b"\r\n", self._at)
        if end < 0:
            return None
        line = self._data[self._at : end]
        self._at = end + 2
        return line

    def _keep(self) -> None:
        piece = self._data[self._at : self._at + self._left]
        self._pieces.append(piece)
        self.size += len(piece)
        self._left -= len(piece)
        self._at += len(piece)


def _size(text: str, base: int) -> int:
    """Return a length. Raises ValueError for anything but digits: `int` also accepts a sign."""
    if not text.isalnum():
        raise ValueError(f"the response has an invalid length: {text!r}")
    return int(text, base)

"""Raw answers of an HTTP server."""

from __future__ import annotations

SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y: z\r\n\r\nhello"

"""What the server counts. All durations are in seconds; `status` is the name of a code, such as OK."""

from __future__ import annotations


class Metrics:
    """The counters of a server."""

    def request(self, model: str, status: str, api: str, entrypoint: str, seconds: float) -> None:
        """Count an answered request; called by the two servers."""

    def runtime(self, model: str, api: str, seconds: float) -> None:
        """Count the time of one run of the engine."""

    def examples(self, model: str, count: int) -> None:
        """Count the rows of a request to Classify, Regress or Predict."""

    def queued(self, seconds: float) -> None:
        """Count the time that a request waited for its run."""

    def batch(self, model: str, rows: int) -> None:
        """Count the rows of one run."""

    def load(self, path: str, status: str, seconds: float) -> None:
        """Count an attempt to load a version."""

    def warmup(self, path: str, status: str, seconds: float) -> None:
        """Count a warm-up."""

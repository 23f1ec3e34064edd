"""A real browser without a window: Chromium, as Debian packages it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from support.running import wait_until

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 90
SETTLING = 10_000
"""Milliseconds of the page's own clock, which runs ahead while the page waits for nothing."""


class Browser:
    """Opens pages; what it keeps between two of them, it keeps below `folder`."""

    def __init__(self, folder: Path) -> None:
        found = next(filter(None, map(shutil.which, PROGRAMS)), None)
        if found is None:
            pytest.skip("needs Chromium: apt-get install chromium")
        self._program = found
        self._folder = folder

    def page(self, url: str) -> str:
        """The page as it stands when it has come to rest: its elements after its scripts have run."""
        words = ["--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        if os.geteuid() == 0:
            words.append("--no-sandbox")
        # Chromium aborts if the path of its socket there is longer than a socket's may be.
        with tempfile.TemporaryDirectory(prefix="page-") as short:
            done = subprocess.run(
                [self._program, *words, f"--virtual-time-budget={SETTLING}", "--dump-dom", url],
                env={"PATH": os.environ["PATH"], "HOME": str(self._folder), "TMPDIR": short},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=True,
            )
        return done.stdout


def until_scalar(browser: Browser, url: str, tag: str) -> None:
    """Waits until the page of a TensorBoard has the card of a scalar; the first look may come before its data."""
    pages = [""]

    def look() -> bool:
        try:
            pages.append(browser.page(url))
        except subprocess.TimeoutExpired:
            return False
        return _shows_scalar(pages[-1], tag)

    wait_until(look, PATIENCE, lambda: f"no {tag} on the page: {re.sub('<[^>]*>', ' ', pages[-1])[-2000:]}")


def _shows_scalar(page: str, tag: str) -> bool:
    return "<scalar-card-component" in page and 'class="tag" _nghost' in page and f'title="{tag}"' in page

"""Servers of a test that have ended, and who called in their last moment."""

from __future__ import annotations

import gc
import warnings


def forget_last_callers() -> None:
    """Lets go of connections that were accepted while a server ended: nobody closes them, and nobody knows them.

    Otherwise Python warns of them whenever it comes across them, which is in the midst of another test.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()

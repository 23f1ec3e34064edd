"""Suggestions for misspelled words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the most similar known word, ignoring case and `_`; empty if none is similar."""
    import difflib  # only needed for a misspelled word

    by_shape: dict[str, str] = {}
    for name in known:
        by_shape.setdefault(_shape(name), name)
    close = difflib.get_close_matches(_shape(word), by_shape, n=1, cutoff=0.7)
    return by_shape[close[0]] if close else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the hint for a misspelled word; empty if no known word is similar."""
    name = nearest(word, known)
    return f"did you mean {name}?" if name else ""


def suggestion(word: str, known: Sequence[str]) -> str:
    """Return the hint for an unknown word: the nearest known word, or all of them."""
    return did_you_mean(word, known) or f"use {one_of(known)}"


def one_of(words: Iterable[str]) -> str:
    """Join words as `A, B or C`."""
    return " or ".join(", ".join(words).rsplit(", ", 1))


def _shape(word: str) -> str:
    return word.replace("_", "").lower()

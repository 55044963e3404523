"""The nearest known name for a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, if any is close."""
    candidates = list(known)
    close = get_close_matches(name, candidates, n=1, cutoff=0.6)
    if close:
        return close[0]
    last = name.rpartition(".")[2]
    by_last = {candidate.rpartition(".")[2]: candidate for candidate in candidates}
    close = get_close_matches(last, list(by_last), n=1, cutoff=0.7)
    return by_last[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean x?`, or nothing."""
    found = nearest(name, known)
    return f"did you mean {found}?" if found else ""

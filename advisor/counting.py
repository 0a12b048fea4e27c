"""Counts as people read them: ``1 trace``, ``3 traces``, ``587 → 194``."""

from __future__ import annotations

_FEW = 10
"""Average count from which on no fraction of it is told, unless two counts would read the same."""
_APART = 0.01


def counted(number: int, noun: str, several: str = "") -> str:
    """Return a number with its noun: ``1 step``, ``1,200 steps``; *several* is the plural where it is no ``s`` more."""
    return f"{number:,} {noun if number == 1 else several or noun + 's'}"


def average(value: float, digits: int = 0) -> str:
    """Return a count that is an average: whole, but for a few calls that are no whole number: ``587``, ``2.5``."""
    if value >= _FEW or abs(value - round(value)) <= _APART * value:
        text = f"{value:,.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.2g}"


def averages(before: float, after: float) -> str:
    """Return two such counts, ``before → after``; with a digit more where they differ and would read the same."""
    texts = [average(value) for value in (before, after)]
    if texts[0] == texts[1] and abs(after - before) > _APART * max(before, after):
        texts = [average(value, 1) for value in (before, after)]
    return f"{texts[0]} → {texts[1]}"

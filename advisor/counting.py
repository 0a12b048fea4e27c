"""Counts and times as people read them: ``1 trace``, ``3 traces``, ``587 → 194``, ``36.7 µs``, ``301 of 332 ms``."""

from __future__ import annotations

_FEW = 10
"""Average count from which on no fraction of it is told, unless two counts would read the same."""
_APART = 0.01
_SECONDS, _MILLISECONDS = 10_000.0, 0.9995
"""Times of ms from which on they are told in s and in ms; below, in µs."""


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


def duration(ms: float) -> str:
    """Return ``30.5 ms``, of long times ``77.9 s``, of short ones ``36.7 µs``."""
    (figure,), unit = _in_unit_of(ms, ms)
    return f"{figure} {unit}"


def durations(low: float, high: float) -> str:
    """Return ``35.7 to 36.7 µs``, or one time where both read the same."""
    figures, unit = _in_unit_of(high, low, high)
    return f"{' to '.join(dict.fromkeys(figures))} {unit}"


def part_of(ms: float, whole_ms: float) -> str:
    """Return ``301 of 332 ms``."""
    figures, unit = _in_unit_of(whole_ms, ms, whole_ms)
    return f"{' of '.join(figures)} {unit}"


def change(before: float, after: float, digits: int) -> str:
    """Return ``300 → 21 ms`` with so many digits; in µs where both are less than 1 ms."""
    size, unit = (1.0, "ms") if not 0 < max(before, after) < _MILLISECONDS else (1e-3, "µs")
    return f"{before / size:.{digits}g} → {after / size:.{digits}g} {unit}"


def _in_unit_of(ms: float, *values: float) -> tuple[list[str], str]:
    """Return times of ms as figures of the unit that *ms* reads well in, and that unit: three digits, all of a whole number."""
    if ms >= _SECONDS:
        return [f"{value / 1000:,.1f}" for value in values], "s"
    size, unit = (1.0, "ms") if not 0 < ms < _MILLISECONDS else (1e-3, "µs")
    return [f"{one:,.0f}" if (one := value / size) >= 100 else f"{one:.3g}" for value in values], unit

"""Words and figures that text and HTML show alike."""

from __future__ import annotations

from advisor.report.plain import MISSING, milliseconds, number, percent
from advisor.results.comparison import Item, Shift, Side, Turned

TURNS = {
    "new": "New",
    "worse": "Worse",
    "fixed": "Fixed",
    "better": "Better",
    "same": "As before",
    "untold": "Cannot be told, for a side lacks what the rule needs",
}
KINDS = {"kernel": "Kernels", "operator": "Operators", "module": "Modules"}


def side(given: Side) -> str:
    """``run.json: 5 steps, 126 ms each (124 to 149), Tesla V100``."""
    parts = [f"{given.steps} steps" if given.steps else "no steps"]
    if given.step_ms is not None:
        spread = f"{number(given.p10_ms or 0.0)} to {number(given.p90_ms or 0.0)}"
        parts.append(f"median {milliseconds(given.step_ms)}, middle 80 % {spread}")
    else:
        parts.append(f"window of {milliseconds(given.window_ms)}")
    return ", ".join([*parts, *([given.device] if given.device else [])])


def figure(value: float | None, unit: str) -> str:
    """A figure with its unit."""
    if value is None:
        return MISSING
    if unit == "share":
        return percent(value)
    return f"{number(value)}{f' {unit}' if unit else ''}"


def difference(shift: Shift) -> str:
    """By how much it moved, in its unit; shares in points."""
    if shift.before is None or shift.after is None:
        return ""
    moved = shift.after - shift.before
    sign = "+" if moved > 0 else "-" if moved < 0 else ""
    if shift.unit == "share":
        return f"{sign}{100 * abs(moved):.1f} points"
    return f"{sign}{number(abs(moved))}{f' {shift.unit}' if shift.unit else ''}"


def cost(turned: Turned) -> str:
    """``31.8 → 0 ms a step``; empty for what costs no time."""
    if not (turned.before_ms or turned.after_ms):
        return ""
    return f"{number(turned.before_ms or 0.0)} → {number(turned.after_ms or 0.0)} ms a step"


def place(turned: Turned) -> str:
    """``train.py:54 train``, or nothing."""
    found = next((place for place in turned.where if place.file), None)
    return f"{found.file}:{found.line} {found.function or ''}".strip() if found else ""


def moved(item: Item) -> str:
    """``appeared: 4 calls, 1.3 ms``, or the figures of both sides; a step."""
    calls = f"{number(item.calls_before)} → {number(item.calls_after)} calls"
    return f"{item.fate}: {number(item.ms_before)} → {number(item.ms_after)} ms, {calls} a step"

"""The time that shares, levels, prices and the plan are of: one place, whatever it comes to be."""

from __future__ import annotations

from typing import Protocol


class Timed(Protocol):
    """Whatever knows its typical step, or the window where it has none."""

    @property
    def whole_ms(self) -> float: ...


def steady(trace: Timed) -> float:
    """Return the ms of the step (of the window without steps) that every share and price is of."""
    return trace.whole_ms

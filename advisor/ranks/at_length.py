"""Traces of many that are shown in full."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from advisor.results.analysis import Analysis
from advisor.results.ranks import Across, RankRow
from advisor.results.several import AT_LENGTH


def at_length(analyses: Sequence[Analysis], across: Across | None) -> list[int]:
    """Choose the traces to show in full, by index and in order: all of few; of many ranks those that hold the others up,
    those that wait and a usual one; else the first."""
    if len(analyses) <= AT_LENGTH:
        return list(range(len(analyses)))
    if across is None:
        return list(range(AT_LENGTH))
    rows = [row for row in across.ranks if row.trace is not None]
    chosen: dict[int, None] = {}
    caused, waited, usual = _figure("caused_ms"), _figure("wait_ms"), _usual(across)
    for worth, most in ((caused, 3), (_figure("step_ms"), 1), (waited, 2), (usual, 1), (caused, AT_LENGTH)):
        for row in sorted(rows, key=lambda row: (-worth(row), row.rank))[:most]:
            if row.trace is not None and len(chosen) < AT_LENGTH:
                chosen.setdefault(row.trace)
    return sorted(chosen)


def _figure(name: str) -> Callable[[RankRow], float]:
    return lambda row: getattr(row, name) or 0.0


def _usual(across: Across) -> Callable[[RankRow], float]:
    """Return a function that says how near a rank's step is to the median of all: 0 at most."""
    return lambda row: -abs((row.step_ms or 0.0) - (across.step_ms or 0.0))

"""Which of many ranks a report tells of at length: those that hold the others up, those that wait, and a usual one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from advisor.results.analysis import Analysis
from advisor.results.ranks import Across, RankRow

AT_LENGTH = 8
"""Of more traces, a report tells of this many at length, and of the rest in a line each or as spread."""


def at_length(analyses: Sequence[Analysis], across: Across | None) -> list[int]:
    """Indices of the traces to tell of at length, in order: all of few; of many ranks the telling ones, else the first."""
    if len(analyses) <= AT_LENGTH:
        return list(range(len(analyses)))
    if across is None:
        return list(range(AT_LENGTH))
    rows = [row for row in across.ranks if row.trace is not None]
    chosen: dict[int, None] = {}
    for worth, most in ((_caused, 3), (_step, 1), (_wait, 2), (_usual(across), 1), (_caused, AT_LENGTH)):
        for row in sorted(rows, key=lambda row: (-worth(row), row.rank))[:most]:
            if row.trace is not None and len(chosen) < AT_LENGTH:
                chosen.setdefault(row.trace)
    return sorted(chosen)


def _caused(row: RankRow) -> float:
    return row.caused_ms or 0.0


def _wait(row: RankRow) -> float:
    return row.wait_ms or 0.0


def _step(row: RankRow) -> float:
    return row.step_ms or 0.0


def _usual(across: Across) -> Callable[[RankRow], float]:
    """How near a rank's step is to the median of all."""
    return lambda row: -abs((row.step_ms or 0.0) - (across.step_ms or 0.0))

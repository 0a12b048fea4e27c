"""The part of the text report that speaks of all ranks together."""

from __future__ import annotations

from advisor.analysis import Across, RankRow
from advisor.report.plain import clean, milliseconds, number, percent
from advisor.report.table import ABSENT, align

SHOWN = 16
"""Ranks in the table where not everything is asked for: the first of those that are late or wait most."""
HEADER = ("rank", "step", "GPU busy", "compute", "communication", "waits", "last", "others wait", "trace")


def table(across: Across, width: int, *, every: bool) -> list[str]:
    """A line a rank under a heading; of many ranks those that matter most, still in their order."""
    rows = across.ranks
    if len(rows) > SHOWN and not every:
        weighty = sorted(rows, key=lambda row: (-(row.caused_ms or 0.0), -(row.wait_ms or 0.0), row.rank))[:SHOWN]
        rows = sorted(weighty, key=lambda row: row.rank)
    right = [True] * 8 + [False]
    return align(HEADER, [cells(row) for row in rows], right, width)


def cells(row: RankRow) -> list[str]:
    """A rank's line of the table."""
    return [
        str(row.rank),
        _ms(row.step_ms),
        _share(row.gpu_busy_share),
        _share(row.compute_share),
        _share(row.communication_share),
        f"{_ms(row.wait_ms)} ({percent(row.wait_share)})" if row.wait_share is not None else ABSENT,
        _share(row.late_share),
        _ms(row.caused_ms),
        clean(row.path),
    ]


def _ms(value: float | None) -> str:
    return ABSENT if value is None else f"{number(value)} ms"


def _share(value: float | None) -> str:
    return ABSENT if value is None else percent(value)


def legend(across: Across) -> str:
    """What the columns of the table mean."""
    if not across.clocks.comparable:
        return "communication: what no computation hides"
    return (
        "communication: what no computation hides; waits: of that, before the last rank has come; last: of the collectives "
        "to which a rank came late, those where it was this one; others wait: for it, on average over all ranks. What ranks wait "
        "for one another is part of their own findings too, and is not to be added to them"
    )


def clocks(across: Across) -> str:
    """How well the clocks agree, in a sentence."""
    found = across.clocks
    if not found.comparable:
        return found.because or "The arrivals of the ranks cannot be compared."
    return (
        f"Clocks aligned on the ends of {found.collectives:,} collectives; they scatter by up to "
        f"{milliseconds(found.residual_ms)}."
    )


def heading(across: Across) -> str:
    """``Across 8 of 8 ranks``."""
    of = f" of {across.world_size:,}" if across.world_size and across.world_size != len(across.ranks) else ""
    return f"Across {len(across.ranks):,}{of} ranks"

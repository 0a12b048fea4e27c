"""What reports say of all ranks together: a line for the ranks that matter, and tables of what only many ranks show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from advisor.ranks.summary import at_length
from advisor.report.plain import clean, kernel, milliseconds, number, percent, shorten, size
from advisor.report.redact import base_name
from advisor.report.table import ABSENT, align
from advisor.results.analysis import Across, Analysis, Difference, RankRow, Spread

__all__ = [
    "HEADER",
    "Section",
    "at_length",
    "cells",
    "clocks",
    "heading",
    "legend",
    "rest",
    "sections",
    "shown",
    "table",
    "untold",
]

SHOWN = 16
"""Ranks in the table where not everything is asked for: the first of those that are late or wait most."""
LATE, LISTED = 6, 8
"""Ranks in the head of the table who waits for whom; rows of a table that is a list."""
_LONG = 60
HEADER = ("rank", "step", "GPU busy", "compute", "communication", "waits", "last", "others wait", "trace")


def table(across: Across, width: int, *, every: bool) -> list[str]:
    """A line a rank under a heading; of many ranks those that matter most, still in their order."""
    rows = across.ranks if every else shown(across)
    right = [True] * 8 + [False]
    return align(HEADER, [cells(row) for row in rows], right, width)


def shown(across: Across) -> list[RankRow]:
    """Of many ranks those that are waited for or wait most, in their order."""
    weighty = sorted(across.ranks, key=lambda row: (-(row.caused_ms or 0.0), -(row.wait_ms or 0.0), row.rank))[:SHOWN]
    return sorted(weighty, key=lambda row: row.rank)


def rest(across: Across) -> str:
    """How many ranks :func:`shown` leaves out, in words; empty where none."""
    more = len(across.ranks) - len(shown(across))
    return f"and {more:,} more ranks" if more > 0 else ""


def untold(many: Sequence[Analysis], told: Sequence[int]) -> str:
    """What is said of the traces that are not shown at length."""
    return (
        f"{len(told)} of {len(many):,} traces are shown at length: where they are ranks of one run, those that are waited for, "
        "wait or take longest, and a usual one. JSON holds them all."
    )


class Section(NamedTuple):
    """A table of what only many ranks show: figures stand on the right."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    right: tuple[bool, ...]
    note: str


def sections(across: Across) -> list[Section]:
    """The tables that there is something for: spread, who waits for whom, where longest, messages, differing work."""
    made = [_spread(across), _waits(across), _lags(across), _traffic(across), _differences(across)]
    return [section for section in made if section.rows]


_FIGURES = {
    "step_ms": "step",
    "compute_ms": "compute",
    "communication_ms": "exposed communication",
    "wait_ms": "of it, waiting for late ranks",
    "loader_ms": "idle, waiting for data",
    "host_ms": "idle, waiting for the host",
    "peak_memory_bytes": "peak memory",
}


def _spread(across: Across) -> Section:
    rows = [
        (_FIGURES.get(one.figure, one.figure), *_extremes(one), f"{one.ranks:,}")
        for one in across.spreads
        if one.max > 0
    ]
    header = ("per step", "least", "rank", "median", "most", "rank", "ranks")
    return Section("How the ranks differ", header, rows, (False, *[True] * 6), "")


def _extremes(one: Spread) -> tuple[str, ...]:
    def told(value: float) -> str:
        return size(round(value)) if one.figure.endswith("_bytes") else _ms(value)

    return told(one.min), str(one.min_rank), told(one.median), told(one.max), str(one.max_rank)


def _waits(across: Across) -> Section:
    """Few ranks as a square, of many the pairs that weigh most."""
    if len(across.ranks) > SHOWN:
        pairs = [(str(one.rank), str(one.late_rank), _ms(one.wait_ms)) for one in across.waits[:LISTED]]
        note = "the longest of all pairs, per step" if len(across.waits) > LISTED else "per step"
        return Section("Who waits for whom", ("rank", "waits for", "time"), pairs, (True,) * 3, note)
    late: dict[int, float] = {}
    for one in across.waits:
        late[one.late_rank] = late.get(one.late_rank, 0.0) + one.wait_ms
    heads = sorted(sorted(late, key=lambda rank: (-late[rank], rank))[:LATE])
    found = {(one.rank, one.late_rank): one.wait_ms for one in across.waits}
    rows = [
        (str(row.rank), *(ABSENT if row.rank == rank else _ms(found.get((row.rank, rank), 0.0)) for rank in heads))
        for row in across.ranks
        if row.wait_ms is not None
    ]
    more = f"; {len(late) - len(heads)} more ranks are waited for less" if len(late) > len(heads) else ""
    header = ("rank", *(f"for rank {rank}" for rank in heads))
    return Section("Who waits for whom", header, rows if heads else [], (True,) * len(header), f"per step{more}")


def _lags(across: Across) -> Section:
    rows = [
        (
            _message(one.kind, one.bytes),
            clean(shorten(one.group or ABSENT, _LONG)),
            ABSENT if one.step is None else str(one.step),
            _ms(one.start_ms),
            str(one.late_rank),
            _ms(one.late_by_ms),
            clean((one.late_cause or ABSENT).replace("_", " ")),
            _ms(one.wait_ms),
        )
        for one in across.lags[:LISTED]
    ]
    header = ("collective", "group", "step", "starts at", "last", "later by", "held up by", "mean wait")
    note = (
        "starts at: when the last rank came, since the first event of all traces; later by: than the median of the others; "
        "held up by: what that rank did longer than the others since the collective before"
    )
    return Section("Where ranks waited longest", header, rows, (False, False, *[True] * 4, False, True), note)


def _traffic(across: Across) -> Section:
    rows = [
        (
            clean(shorten(one.group, _LONG)),
            _message(one.kind, one.bytes),
            f"{one.ranks:,}",
            number(one.count),
            _ms(one.time_ms),
            _ms(one.exposed_ms),
            _ms(one.wait_ms),
        )
        for one in across.traffic[:LISTED]
    ]
    header = ("group", "message", "ranks", "per step", "time", "exposed", "of it, waiting")
    more = len(across.traffic) - len(rows)
    note = "per step, means over the ranks" + (f"; and {more} more kinds of message" if more > 0 else "")
    return Section("Communication by group and size", header, rows, (False, False, *[True] * 5), note)


def _message(kind: str | None, sent: int | None) -> str:
    return clean((kind or "unknown").replace("_", "-")) + ("" if sent is None else f", {size(sent)}")


def _differences(across: Across) -> Section:
    rows = [_difference(one) for one in across.differences[:LISTED]]
    header = ("ranks", "differ in", "name", "there", "on most ranks", "time")
    note = (
        "time: of that work there, per step, above or below the usual rank's. Stages of a pipeline, experts and ranks that log "
        "differ by design"
    )
    return Section("Work that differs from rank to rank", header, rows, (*[False] * 5, True), note)


def _difference(one: Difference) -> tuple[str, ...]:
    sign = "+" if one.ms >= 0 else "-"
    return (
        _listed(one.ranks),
        clean(one.what),
        clean(shorten(kernel(one.name), _LONG)),
        clean(shorten(one.here, _LONG)),
        clean(shorten(one.usual, _LONG)),
        f"{sign}{_ms(abs(one.ms))}",
    )


def _listed(ranks: Sequence[int]) -> str:
    told = ", ".join(str(rank) for rank in ranks[:LISTED])
    return told + (f" and {len(ranks) - LISTED:,} more" if len(ranks) > LISTED else "")


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
        clean(base_name(row.path)),
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

"""Reports on all ranks together: a line for the ranks that matter, and tables of what only many ranks show."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.counting import counted
from advisor.report.blocks import Detail, Span, Table, Text
from advisor.report.figures import UNEVEN
from advisor.report.plain import kernel, milliseconds, number, percent, size
from advisor.report.redact import base_name
from advisor.report.table import ABSENT
from advisor.results.analysis import Analysis
from advisor.results.ranks import Across, Difference, RankRow, Spread

SHOWN = 16
"""Ranks in the table where not everything is asked for: the first of those that are late or wait most."""
LATE, LISTED = 6, 8
"""Ranks in the head of the table who waits for whom; rows of a table that is a list."""
HEADER = ("rank", "step", "GPU busy", "compute", "communication", "waits", "last", "others wait", "trace")


def table(across: Across, detail: Detail) -> Table:
    """Return a line a rank; of many ranks those that matter most, still in their order."""
    rows = across.ranks if detail.verbosity > 0 and not detail.folds else shown(across)
    more = rest(across) + detail.hint if len(rows) < len(across.ranks) else ""
    return Table(
        HEADER, [(*cells(row)[:-1], Span(base_name(row.path), "name")) for row in rows], ">" * 8 + "<", caption=more
    )


def shown(across: Across) -> list[RankRow]:
    """Choose of many ranks those that are waited for or wait most, in their order."""
    weighty = sorted(across.ranks, key=lambda row: (-(row.caused_ms or 0.0), -(row.wait_ms or 0.0), row.rank))[:SHOWN]
    return sorted(weighty, key=lambda row: row.rank)


def rest(across: Across) -> str:
    """Count the ranks that :func:`shown` leaves out, in words; empty where none."""
    more = len(across.ranks) - len(shown(across))
    return f"and {counted(more, 'more rank')}" if more > 0 else ""


def untold(many: Sequence[Analysis], lengthy: Sequence[int]) -> str:
    """Explain that some traces are not shown at length."""
    return (
        f"{len(lengthy)} of {len(many):,} traces are shown at length: where they are ranks of one run, those that are waited for, "
        "wait or take longest, and a usual one. JSON holds them all."
    )


def sections(across: Across) -> list[tuple[str, Table]]:
    """Return the tables that there is something for: spread, who waits for whom, where longest, messages, differing work."""
    tables = {
        "Stages of the pipeline": _stages(across),
        "How the ranks differ": _spread(across),
        "Who waits for whom": _waits(across),
        "Where ranks waited longest": _lags(across),
        "Communication by group and size": _traffic(across),
        "Work that differs from rank to rank": _differences(across),
    }
    return [(title, table) for title, table in tables.items() if table.rows]


def _stages(across: Across) -> Table:
    times = [stage.compute_ms for stage in across.stages]
    named = bool(times) and max(times) >= UNEVEN * sum(times) / len(times)
    rows = [
        (
            str(stage.stage),
            _rank_list(stage.ranks),
            _ms(stage.compute_ms),
            f"{_ms(stage.wait_ms)} ({percent(stage.wait_share)})",
            "slowest" if named and stage.compute_ms == max(times) else "",
        )
        for stage in across.stages
    ]
    count = across.stages[0].micro_batches if across.stages else 0
    note = (
        f"per step, {counted(count, 'micro-batch', 'micro-batches')}; computes: without the optimizer, on the fastest of its "
        "ranks; waits: in sends and receives beyond the exchange, and where stages meet"
    )
    return Table(("stage", "ranks", "computes", "waits", ""), rows, "><>><", caption=note)


_FIGURES = {
    "step_ms": "step",
    "compute_ms": "compute",
    "communication_ms": "exposed communication",
    "wait_ms": "of it, waiting for late ranks",
    "loader_ms": "idle, waiting for data",
    "host_ms": "idle, waiting for the host",
    "peak_memory_bytes": "peak memory",
}


def _spread(across: Across) -> Table:
    rows = [
        (_FIGURES.get(spread.figure, spread.figure), *_extremes(spread), f"{spread.ranks:,}")
        for spread in across.spreads
        if spread.max > 0
    ]
    header = ("per step", "least", "rank", "median", "most", "rank", "ranks")
    return Table(header, rows, "<>>>>>>")


def _extremes(spread: Spread) -> tuple[str, ...]:
    def text(value: float) -> str:
        return size(round(value)) if spread.figure.endswith("_bytes") else _ms(value)

    return text(spread.min), str(spread.min_rank), text(spread.median), text(spread.max), str(spread.max_rank)


def _waits(across: Across) -> Table:
    """Lay few ranks out as a square, of many the pairs that weigh most."""
    if len(across.ranks) > SHOWN:
        pairs = [(str(wait.rank), str(wait.late_rank), _ms(wait.wait_ms)) for wait in across.waits[:LISTED]]
        note = "the longest of all pairs, per step" if len(across.waits) > LISTED else "per step"
        return Table(("rank", "waits for", "time"), pairs, ">>>", caption=note)
    late: dict[int, float] = {}
    for wait in across.waits:
        late[wait.late_rank] = late.get(wait.late_rank, 0.0) + wait.wait_ms
    heads = sorted(sorted(late, key=lambda rank: (-late[rank], rank))[:LATE])
    times = {(wait.rank, wait.late_rank): wait.wait_ms for wait in across.waits}
    rows = [
        (str(row.rank), *(ABSENT if row.rank == rank else _ms(times.get((row.rank, rank), 0.0)) for rank in heads))
        for row in across.ranks
        if row.wait_ms is not None
    ]
    more = f"; {len(late) - len(heads)} more ranks are waited for less" if len(late) > len(heads) else ""
    header = ("rank", *(f"for rank {rank}" for rank in heads))
    return Table(header, rows if heads else [], ">" * len(header), caption=f"per step{more}")


def _lags(across: Across) -> Table:
    rows = [
        (
            _message(lag.kind, lag.bytes),
            Span(lag.group or ABSENT, "name"),
            ABSENT if lag.step is None else str(lag.step),
            _ms(lag.start_ms),
            str(lag.late_rank),
            _ms(lag.late_by_ms),
            (lag.late_cause or ABSENT).replace("_", " "),
            _ms(lag.wait_ms),
        )
        for lag in across.lags[:LISTED]
    ]
    header = ("collective", "group", "step", "starts at", "last", "later by", "held up by", "mean wait")
    note = (
        "starts at: when the last rank came, since the first event of all traces; later by: than the median of the others; "
        "held up by: what that rank did longer than the others since the collective before"
    )
    return Table(header, rows, "<<>>>><>", caption=note)


def _traffic(across: Across) -> Table:
    rows = [
        (
            Span(message.group, "name"),
            _message(message.kind, message.bytes),
            f"{message.ranks:,}",
            number(message.count),
            _ms(message.time_ms),
            _ms(message.exposed_ms),
            _ms(message.wait_ms),
            ABSENT if message.bus_gbps is None else number(message.bus_gbps),
        )
        for message in across.traffic[:LISTED]
    ]
    header = ("group", "message", "ranks", "per step", "time", "exposed", "of it, waiting", "bus GB/s")
    more = len(across.traffic) - len(rows)
    note = "per step, means over the ranks; bus GB/s: net of that waiting" + (
        f"; and {counted(more, 'more kind')} of message" if more > 0 else ""
    )
    return Table(header, rows, "<<>>>>>>", caption=note)


def _message(kind: str | None, sent: int | None) -> str:
    return (kind or "unknown").replace("_", "-") + ("" if sent is None else f", {size(sent)}")


def _differences(across: Across) -> Table:
    rows = [_difference(difference) for difference in across.differences[:LISTED]]
    header = ("ranks", "differ in", "name", "there", "on most ranks", "time")
    note = (
        "time: of that work there, per step, above or below the usual rank's. Stages of a pipeline, experts and ranks that log "
        "differ by design"
    )
    return Table(header, rows, "<<<<<>", caption=note)


def _difference(difference: Difference) -> tuple[Text, ...]:
    sign = "+" if difference.ms >= 0 else "-"
    return (
        _rank_list(difference.ranks),
        difference.what,
        Span(kernel(difference.name), "name"),
        Span(difference.here, "name"),
        Span(difference.usual, "name"),
        f"{sign}{_ms(abs(difference.ms))}",
    )


def _rank_list(ranks: Sequence[int]) -> str:
    text = ", ".join(str(rank) for rank in ranks[:LISTED])
    return text + (f" and {len(ranks) - LISTED:,} more" if len(ranks) > LISTED else "")


def cells(row: RankRow) -> list[str]:
    """Return a rank's line of the table."""
    return [
        str(row.rank),
        _ms(row.step_ms),
        percent(row.gpu_busy_share, ABSENT),
        percent(row.compute_share, ABSENT),
        percent(row.communication_share, ABSENT),
        f"{_ms(row.wait_ms)} ({percent(row.wait_share)})" if row.wait_share is not None else ABSENT,
        percent(row.late_share, ABSENT),
        _ms(row.caused_ms),
        base_name(row.path),
    ]


def _ms(value: float | None) -> str:
    return milliseconds(value, ABSENT)


def legend(across: Across) -> str:
    """Explain the columns of the table."""
    if not across.clocks.comparable:
        return "communication: what no computation hides"
    return (
        "communication: what no computation hides; waits: of that, before the last rank has come; last: of the collectives "
        "to which a rank came late, those where it was this one; others wait: for it, on average over all ranks. What ranks wait "
        "for one another is part of their own findings too, and is not to be added to them"
    )


def clocks(across: Across) -> str:
    """Say in a sentence how well the clocks agree."""
    agreement = across.clocks
    if not agreement.comparable:
        return agreement.because or "The arrivals of the ranks cannot be compared."
    return (
        f"Clocks aligned on the ends of {agreement.collectives:,} collectives; they scatter by up to "
        f"{milliseconds(agreement.residual_ms)}."
    )


def heading(across: Across) -> str:
    """Return ``Across 8 of 8 ranks``."""
    total = f" of {across.world_size:,}" if across.world_size and across.world_size != len(across.ranks) else ""
    return f"Across {len(across.ranks):,}{total} ranks" if total else f"Across {counted(len(across.ranks), 'rank')}"

"""``timeline``: a stretch of a trace in text, one line for each change of what the device does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import Meta

from advisor.errors import UsageError
from advisor.mcp.answers import Answer
from advisor.mcp.tool import Arguments, Tool, Trace
from advisor.mcp.workspace import Workspace

if TYPE_CHECKING:
    import pandas as pd

    from advisor.trace import Trace as Recording

LINES = 30
"""Lines of a stretch, unless more are asked for."""
_WIDE = 150
_SQL = """
SELECT name, round(sum(least(start_ns + dur_ns, {end}) - greatest(start_ns, {start})) / 1e6, 4) AS ms, count(*) AS n
FROM {frame} WHERE start_ns < {end} AND start_ns + dur_ns > {start} GROUP BY name ORDER BY 2 DESC, 1 LIMIT 8
"""


class Timeline(Arguments, frozen=True, kw_only=True):
    """The stretch to show."""

    trace: Trace
    step: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="Step, from 0, as in `steps`; else start_ms and end_ms.")
    ] = None
    start_ms: Annotated[
        Annotated[float, Meta(ge=0)] | None, Meta(description="Start of the stretch, ms from the window's start.")
    ] = None
    end_ms: Annotated[Annotated[float, Meta(ge=0)] | None, Meta(description="Its end.")] = None
    lines: Annotated[int, Meta(ge=5, le=200, description="Lines at most: the shortest pieces are put together.")] = (
        LINES
    )


class Piece(NamedTuple):
    """Consecutive segments of one cause, or of several that are too short for lines of their own (``mixed``)."""

    start: int
    end: int
    cause: str
    parts: dict[str, int]


def run(workspace: Workspace, arguments: Timeline) -> Answer:
    """Show what the busiest device (the host, of a program on the CPU) does in the stretch."""
    with workspace.lock:
        trace = workspace.trace(arguments.trace)
        start, end = _stretch(trace, arguments)
        pieces = _pieces(trace, start, end, arguments.lines)
        zero = trace.window[0]
        device = "the host" if trace.device < 0 else f"device {trace.device}"
        head = f"{device}, {(start - zero) / 1e6:.4g} to {(end - zero) / 1e6:.4g} ms of a window of {trace.window_ns / 1e6:.4g} ms"
        tops = _tops(trace)
        lines = [head, "start_ms,dur_ms,cause,what"]
        lines += [_line(piece, zero, tops) for piece in pieces]
        lines += ["", *_sums(pieces), *_kernels(trace, start, end)]
    return Answer(
        "\n".join(lines), "A narrower stretch shows more: start_ms and end_ms. Idle causes: frame gaps, by query."
    )


def _stretch(trace: Recording, arguments: Timeline) -> tuple[int, int]:
    """Return the ends of the stretch, ns since the first event. Raises ``UsageError`` for one outside of the window."""
    low, high = trace.window
    if arguments.step is not None:
        if arguments.start_ms is not None or arguments.end_ms is not None:
            raise UsageError("timeline: give step, or start_ms and end_ms")
        steps = trace.frame("steps")
        if arguments.step >= len(steps):
            raise UsageError(f"timeline: there is no step {arguments.step}: the trace has {len(steps)}, from 0")
        row = steps.iloc[arguments.step]
        return int(row["start_ns"]), int(row["start_ns"] + row["dur_ns"])
    start = low + round((arguments.start_ms or 0.0) * 1e6)
    end = high if arguments.end_ms is None else min(low + round(arguments.end_ms * 1e6), high)
    if start >= end:
        raise UsageError(f"timeline: nothing lies there: the window is 0 to {(high - low) / 1e6:.6g} ms")
    return start, end


def _pieces(trace: Recording, start: int, end: int, most: int) -> list[Piece]:
    """Divide the stretch by cause; the shortest pieces are put together where they are more than *most*."""
    ledger = trace.ledger
    inside = (ledger.start_ns < end) & (ledger.end_ns > start)
    pieces: list[Piece] = []
    for low, dur, cause in zip(
        ledger.start_ns[inside].tolist(), ledger.dur_ns[inside].tolist(), ledger.cause[inside].tolist(), strict=True
    ):
        first, last, name = max(low, start), min(low + dur, end), ledger.CAUSES[cause]
        if pieces and pieces[-1].cause == name and pieces[-1].end == first:
            pieces[-1] = Piece(pieces[-1].start, last, name, {name: last - pieces[-1].start})
        else:
            pieces.append(Piece(first, last, name, {name: last - first}))
    if len(pieces) <= most:
        return pieces
    # Between n long pieces lie at most n + 1 mixed ones.
    longest = sorted(range(len(pieces)), key=lambda at: (pieces[at].start - pieces[at].end, at))[: (most - 1) // 2]
    kept, joined = set(longest), list[Piece]()
    for at, piece in enumerate(pieces):
        before = joined[-1] if joined else None
        if at in kept or before is None or before.cause != "mixed":
            joined.append(piece if at in kept else piece._replace(cause="mixed"))
            continue
        parts = dict(before.parts)
        for name, ns in piece.parts.items():
            parts[name] = parts.get(name, 0) + ns
        joined[-1] = Piece(before.start, piece.end, "mixed", parts)
    return joined


def _tops(trace: Recording) -> tuple[pd.DataFrame, pd.DataFrame]:
    return trace.frame("kernels" if trace.device >= 0 else "ops"), trace.frame("gaps")


def _line(piece: Piece, zero: int, tops: tuple[pd.DataFrame, pd.DataFrame]) -> str:
    from advisor.report.plain import clean, shorten

    if piece.cause == "mixed":
        total = sum(piece.parts.values())
        shares = sorted(piece.parts.items(), key=lambda part: -part[1])
        what = ", ".join(f"{name} {100 * ns / total:.0f} %" for name, ns in shares[:4])
    else:
        what = _what(piece, *tops)
    text = f"{(piece.start - zero) / 1e6:.4f},{(piece.end - piece.start) / 1e6:.4f},{piece.cause},{what}"
    return shorten(clean(text), _WIDE)


def _what(piece: Piece, work: pd.DataFrame, gaps: pd.DataFrame) -> str:
    """Name what fills the piece: the longest kernel and how many more, or where the host was."""
    if piece.cause in ("compute", "communication"):
        inside = _inside(work, piece)
        if not len(inside):
            return ""
        longest = inside.iloc[int(inside["dur_ns"].to_numpy().argmax())]
        more = f" and {len(inside) - 1} more" if len(inside) > 1 else ""
        return f"{longest['name']}{more}"
    inside = _inside(gaps, piece)
    if not len(inside):
        return ""
    row = inside.iloc[int(inside["dur_ns"].to_numpy().argmax())]
    words = [_text(row, "op"), _text(row, "function"), _text(row, "file")]
    if words[2] and int(row["line"]) >= 0:
        words[2] += f":{int(row['line'])}"
    return " ".join(word for word in words if word)


def _inside(table: pd.DataFrame, piece: Piece) -> pd.DataFrame:
    start = table["start_ns"]
    return table[(start < piece.end) & (start + table["dur_ns"] > piece.start)]


def _text(row: Any, name: str) -> str:
    value = row[name]
    return value if isinstance(value, str) else ""


def _sums(pieces: list[Piece]) -> list[str]:
    sums: dict[str, int] = {}
    for piece in pieces:
        for name, ns in piece.parts.items():
            sums[name] = sums.get(name, 0) + ns
    ordered = sorted(sums.items(), key=lambda part: -part[1])
    return ["in all: " + ", ".join(f"{name} {ns / 1e6:.4g} ms" for name, ns in ordered)]


def _kernels(trace: Recording, start: int, end: int) -> list[str]:
    """Return the names that take the most of the stretch: kernels, of a program on the CPU operators."""
    from advisor.engine.query import run as ask
    from advisor.report.plain import clean, shorten

    frame = "kernels" if trace.device >= 0 else "ops"
    _, rows = ask(trace, _SQL.format(frame=frame, start=start, end=end))
    return [f"{frame}, ms in the stretch:"] + [
        f"{ms:.4g} {shorten(clean(name), 100)} ({count})" for name, ms, count in rows
    ]


TOOL = Tool(
    name="timeline",
    title="A stretch of a trace in text",
    description=(
        "Show a step, or a stretch of the window, as lines in order of time: start, duration, cause (compute, communication, "
        "copy, or why the device idles), and the longest kernel or the place that the host was in; then sums."
    ),
    arguments=Timeline,
    run=run,
)

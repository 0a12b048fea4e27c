"""Small charts of a figure over runs, that need no script: the values, their levels, and a line where a level changes."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from advisor.report.blocks import Chart, pieces
from advisor.report.html.svg import Shape, span, text_of

HEIGHT = 84
WIDE, HIGH = 600, 1000
"""Grid of the values: columns across, of which each holds the least and the largest of what falls into it."""


def chart(chart: Chart) -> Markup:
    """Draw a chart; its words, the largest and the least value, and the names of both ends, are text."""
    known = [value for value in chart.values if value is not None]
    if not known:
        return Markup("")
    low, high = min(known), max(known)
    room = 0.06 * (high - low) or abs(high) or 1.0
    low, high = low - room, high + room
    count = len(chart.values)
    lines = Markup("").join(
        Shape('<line class="level" x1="%s" x2="%s" y1="%.1f" y2="%.1f"/>')
        % (span(first / count), span(end / count), y, y)
        for first, end, value in chart.levels
        for y in [HEIGHT - (min(max(value, low), high) - low) / (high - low) * HEIGHT]
    )
    changes = Markup("").join(
        Shape('<line class="change %s" x1="%s" x2="%s" y2="%d"/>') % (style, span(at / count), span(at / count), HEIGHT)
        for at, style in chart.marks
    )
    label = "".join(piece if isinstance(piece, str) else getattr(piece, "text", "") for piece in pieces(chart.label))
    shape = Shape('<path d="%s" vector-effect="non-scaling-stroke"/>') % _path(chart.values, low, high)
    return Shape(
        '<svg class="trend" width="100%%" height="%d" role="img" aria-label="%s">'
        '<svg width="100%%" height="%d" viewBox="0 0 %d %d" preserveAspectRatio="none">%s</svg>%s%s'
        '<text x="2" y="11">%s</text><text x="2" y="%d">%s</text>'
        '<text x="2" y="%d">%s</text><text class="end" x="100%%" y="%d">%s</text></svg>'
    ) % (
        HEIGHT + 16, f"{label}: {chart.last}; {chart.low} to {chart.high}", HEIGHT, WIDE, HIGH, shape, changes, lines,
        chart.high, HEIGHT - 3, chart.low, HEIGHT + 13, text_of(chart.ends[0][:24]), HEIGHT + 13, text_of(chart.ends[1][:24]),
    )  # fmt: skip


def _path(values: Sequence[float | None], low: float, high: float) -> str:
    """Return a line through the values, one that breaks where a value is missing."""
    count = len(values)
    columns: dict[int, list[float]] = {}
    for index, value in enumerate(values):
        column = round((index + 0.5) / count * WIDE)
        if value is None:
            columns.setdefault(column, [])
        else:
            columns.setdefault(column, []).append(value)
    parts, pen = [], "M"
    for column, held in columns.items():
        if not held:
            pen = "M"
            continue
        ends = [held[0]] if len(held) == 1 else [min(held), max(held)]
        for value in ends:
            parts.append(f"{pen}{column} {round(HIGH - (value - low) / (high - low) * HIGH)}")
            pen = "L"
    return "".join(parts)

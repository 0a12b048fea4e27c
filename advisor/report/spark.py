"""Charts in one line of text: eight heights of a block, a bar where the level changes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import mean

from advisor.report.blocks import Chart

HEIGHTS = "▁▂▃▄▅▆▇█"
MARK = "┊"
WIDTH = 40


def sparkline(chart: Chart, width: int = WIDTH) -> str:
    """Draw the values of a chart in at most *width* columns, its marks included; several values a column are their mean."""
    values = chart.values
    room = max(1, width - len(chart.marks))
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    bounds = [round(column * len(values) / min(room, len(values))) for column in range(min(room, len(values)) + 1)]
    marks = {place for place, _ in chart.marks}
    signs = []
    for start, end in pairwise(bounds):
        if any(start <= place < end for place in marks):
            signs.append(MARK)
        signs.append(_height(values[start:end], low, high))
    return "".join(signs)


def _height(values: Sequence[float | None], low: float, high: float) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return " "
    if high <= low:
        return HEIGHTS[3]
    return HEIGHTS[min(len(HEIGHTS) - 1, int((mean(known) - low) / (high - low) * len(HEIGHTS)))]

"""Charts of a report that need no script: steps, memory, the queue of launches, and the timeline for paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from advisor.report.html.svg import WORK, Shape, colour, limit_at, span, text_of
from advisor.report.plain import milliseconds, number, size
from advisor.results.views import MemoryCurve, QueueCurve, StepBar, Timeline

GRAIN = 2000
"""Columns of a static timeline."""
_MOST_TITLED = 120


def order(bars: Sequence[StepBar]) -> list[str]:
    """Return the causes of some steps as they are stacked: work below, each with its most time first."""
    total: dict[str, float] = {}
    for bar in bars:
        for cause, ms in bar.causes.items():
            total[cause] = total.get(cause, 0.0) + ms
    return sorted(total, key=lambda cause: (cause not in WORK, -total[cause]))


def ticks(most: float, count: int = 4) -> list[float]:
    """Return round figures from 0 up to *most*."""
    if not most > 0 or not math.isfinite(most):
        return [0.0]
    raw = most / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next((factor * power for factor in (1, 2, 5) if factor * power >= raw), 10 * power)
    return [step * index for index in range(int(most / step + 1e-9) + 1)]


def _scale(height: int, most: float, unit: str, shown: Sequence[tuple[float, str]]) -> tuple[Markup, Markup]:
    """Return lines across at round figures, to lie under a chart, and the figures, to lie over it. *shown* says what they are."""
    lines, texts = [], []
    for value, text in shown or [(value, f"{number(value)}{unit}") for value in ticks(most)]:
        y = height - value / most * height if most else height
        lines.append(Shape('<line class="grid" x2="100%%" y1="%.1f" y2="%.1f"/>') % (y, y))
        if value:
            texts.append(Shape('<text class="tick" x="2" y="%.1f">%s</text>') % (y - 3, text))
    return Markup("").join(lines), Markup("").join(texts)


def _chart(label: str, height: int, inside: Iterable[Markup], below: Markup | str = "") -> Markup:
    extra = 18 if below else 2
    return Shape(
        '<svg class="chart" width="100%%" height="%d" role="img" aria-label="%s">'
        '<svg y="14" width="100%%" height="%d" overflow="visible">%s</svg><svg y="%d" width="100%%" height="18">%s</svg></svg>'
    ) % (height + 14 + extra, label, height, Markup("").join(inside), height + 14, below)


def _stretched(height: int, wide: int, high: int, inside: Markup) -> Markup:
    """Draw shapes in a grid of *wide* by *high*, stretched over the chart."""
    return Shape(
        '<svg width="100%%" height="%d" viewBox="0 0 %d %d" preserveAspectRatio="none">%s</svg>'
    ) % (height, wide, high, inside)  # fmt: skip


def steps(bars: Sequence[StepBar], median: float | None, order: Sequence[str], limit: float | None = None) -> Markup:
    """Draw a bar a step, stacked by cause; those that the median leaves out are paler. Lines: the median, the hardware's limit."""
    height, high = 150, 1000
    most = max((bar.ms for bar in bars), default=0.0)
    if most <= 0:
        return Markup("")
    slot, gap = (10, 2) if len(bars) <= _MOST_TITLED else (4, 0)
    paths: dict[tuple[str, bool], list[str]] = {}
    for index, bar in enumerate(bars):
        below = 0.0
        for cause in order:
            ms = bar.causes.get(cause, 0.0)
            low, top = round(high * below / most), round(high * (below + ms) / most)
            below += ms
            if top > low:
                shape = f"M{index * slot + gap // 2} {high - top}h{slot - gap}v{top - low}h-{slot - gap}z"
                paths.setdefault((cause, bar.sampled), []).append(shape)
    shapes = Markup("").join(
        Shape('<path class="%s" d="%s"/>') % (colour(cause) + ("" if sampled else " pale"), "".join(path))
        for (cause, sampled), path in paths.items()
    )
    lines, texts = _scale(height, most, " ms", ())
    inside = [lines, _stretched(height, len(bars) * slot, high, shapes), texts]
    if median is not None and median <= most:
        y = height - median / most * height
        inside.append(Shape('<line class="mark" x2="100%%" y1="%.1f" y2="%.1f"/>') % (y, y))
    if limit is not None and 0 < limit <= most:
        y = height - limit / most * height
        inside.append(Shape('<line class="limit" x2="100%%" y1="%.1f" y2="%.1f"/>') % (y, y))
    if len(bars) <= _MOST_TITLED:
        wide = 1 / len(bars)
        inside += [
            Shape('<rect class="over" x="%s" width="%s" height="%d"><title>%s</title></rect>')
            % (span(index * wide), span(wide), height, text_of(sentence(bar)))
            for index, bar in enumerate(bars)
        ]
    return _chart("Step times, stacked by cause; the table below holds the figures", height, inside, _names(bars))


def step(bar: StepBar, most: float, order: Sequence[str], limit: float | None = None) -> Markup:
    """Draw one step as a bar on its side, as long as *most* is wide, and the hardware's limit over it."""
    shapes, left = [], 0.0
    for cause in order:
        ms = bar.causes.get(cause, 0.0)
        if ms > 0 and most > 0:
            title = f"{cause.replace('_', ' ')} {milliseconds(ms)}"
            shapes.append(
                Shape('<rect class="%s" x="%s" width="%s" height="16"><title>%s</title></rect>')
                % (colour(cause), span(left / most), span(ms / most), title)
            )
        left += ms
    return Shape('<svg width="100%%" height="16" role="img" aria-label="%s">%s</svg>') % (
        text_of(sentence(bar)),
        Markup("").join(shapes) + limit_at(limit, min(bar.ms, most), 16),
    )


def sentence(bar: StepBar) -> str:
    """Return a step in words: ``ProfilerStep#5: 79.8 ms; loader 44.0, compute 24.8``."""
    heavy = sorted(bar.causes.items(), key=lambda pair: -pair[1])
    parts = ", ".join(f"{name.replace('_', ' ')} {number(ms)}" for name, ms in heavy)
    return f"{bar.name}: {milliseconds(bar.ms)}; {parts}" + ("" if bar.sampled else "; not in the median")


def _names(bars: Sequence[StepBar]) -> Markup:
    """Draw names under some of the steps: under the first, and as many more as have room."""
    every = max(1, math.ceil(len(bars) / 6))
    texts = [
        Shape('<text class="tick" x="%s" y="13">%s</text>')
        % (span((index + 0.04) / len(bars)), text_of(bar.name.replace("ProfilerStep#", "step ")[:16]))
        for index, bar in enumerate(bars)
        if index % every == 0
    ]
    return Markup("").join(texts)


def _stairs(
    x: Sequence[float], y: Sequence[float], wide: int, high: int, most: float, extent: tuple[float, float]
) -> str:
    """Return a staircase: each value holds until the next."""
    first, last = extent
    points: list[str] = []
    before = (-1, -1)
    for when, value in zip(x, y, strict=True):
        here = (round(wide * (when - first) / (last - first)), round(high - high * value / most))
        if not points:
            points.append(f"M{here[0]} {here[1]}")
        elif here != before:
            points.append(f"H{here[0]}" + (f"V{here[1]}" if here[1] != before[1] else ""))
        before = here
    points.append(f"H{wide}")
    return "".join(points)


def memory(curve: MemoryCurve) -> Markup:
    """Draw allocated and reserved memory over the recording, with the peak, and the capacity where it is in sight."""
    height, wide, high = 170, 4000, 1000
    if len(curve.ms) < 2 or curve.ms[-1] <= curve.ms[0]:
        return Markup("")
    top = max(*curve.allocated_bytes, *curve.reserved_bytes, curve.peak_bytes, 1)
    capacity = curve.capacity_bytes
    near = capacity is not None and capacity <= 1.6 * top
    most = max(top, capacity if near and capacity else 0) * 1.04
    extent = (curve.ms[0], curve.ms[-1])
    area = _stairs(curve.ms, curve.allocated_bytes, wide, high, most, extent)
    reserved = _stairs(curve.ms, curve.reserved_bytes, wide, high, most, extent)
    shapes = Shape(
        '<path class="allocated" d="%sV%dH0z"/><path class="reserved" d="%s" vector-effect="non-scaling-stroke"/>'
    ) % (area, high, reserved)
    lines, texts = _scale(height, most, "", _sizes(most))
    inside = [lines, _stretched(height, wide, high, shapes), texts]
    if near and capacity:
        y = height - capacity / most * height
        inside.append(
            Shape(
                '<line class="capacity" x2="100%%" y1="%.1f" y2="%.1f"/><text class="tick end" x="100%%" y="%.1f">%s</text>'
            )
            % (y, y, y - 3, f"capacity {size(capacity)}")
        )
    x, y = (curve.peak_ms - extent[0]) / (extent[1] - extent[0]), height - curve.peak_bytes / most * height
    side = "end" if x > 0.6 else "start"
    inside.append(
        Shape('<circle class="peak" cx="%s" cy="%.1f" r="4"/><svg x="%s" y="%.1f" overflow="visible">'
               '<text class="tick strong %s" x="%d" y="-7">%s</text></svg>')
        % (span(x), y, span(x), y, side, -4 if side == "end" else 4, f"peak {size(curve.peak_bytes)}")
    )  # fmt: skip
    return _chart(f"Memory over time, peak {size(curve.peak_bytes)}", height, inside, _span_labels(*extent))


def _sizes(most: float) -> list[tuple[float, str]]:
    unit = 1024 ** min(4, max(0, int(math.log(max(most, 1), 1024))))
    return [(value * unit, size(value * unit) if value else "0") for value in ticks(most / unit)]


def _span_labels(first: float, last: float) -> Markup:
    return Shape('<text class="tick" x="2" y="13">%s</text><text class="tick end" x="100%%" y="13">%s</text>') % (
        milliseconds(first),
        milliseconds(last),
    )


def queue(curve: QueueCurve, dur_ms: float) -> Markup:
    """Work that was launched and had not ended, over the shown step."""
    height, wide, high = 90, 4000, 1000
    if not curve.ms or dur_ms <= 0:
        return Markup("")
    most = max(1, *curve.depth) * 1.05
    area = _stairs(curve.ms, curve.depth, wide, high, most, (0.0, dur_ms))
    shapes = Shape('<path class="queued" d="%sV%dH0z"/>') % (area, high)
    lines, texts = _scale(height, most, "", ())
    inside = [lines, _stretched(height, wide, high, shapes), texts]
    return _chart(
        f"Launched work that had not ended; at most {max(curve.depth):,}, median {curve.median:g}",
        height,
        inside,
        _span_labels(0.0, dur_ms),
    )


def timeline(line: Timeline, most_tracks: int = 5) -> Markup:
    """Draw the causes and the streams of the shown step, without names: for where no script runs, and for paper."""
    chosen = [index for index, track in enumerate(line.tracks) if track.kind != "thread"][:most_tracks]
    if line.dur_ns <= 0 or not chosen:
        return Markup("")
    shapes: dict[tuple[int, int], list[list[int]]] = {}
    wanted = set(chosen)
    for track, start, dur, category in zip(line.track, line.start, line.dur, line.category, strict=True):
        if track not in wanted:
            continue
        low = start * GRAIN // line.dur_ns
        top = max(low + 1, round((start + dur) * GRAIN / line.dur_ns))
        spans = shapes.setdefault((track, category), [])
        if spans and low <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], top)
        else:
            spans.append([low, top])
    rows = []
    for place, track in enumerate(chosen):
        y = place * 44
        paths = Markup("").join(
            Shape('<path class="%s" d="%s"/>')
            % (
                colour(line.categories[category]),
                "".join(f"M{low} 0h{top - low}v10h-{top - low}z" for low, top in spans),
            )
            for (owner, category), spans in shapes.items()
            if owner == track
        )
        rows.append(
            Shape('<text class="tick" x="2" y="%d">%s</text><svg y="%d" width="100%%" height="22" viewBox="0 0 %d 10" '
                   'preserveAspectRatio="none">%s</svg>')
            % (y + 12, text_of(line.tracks[track].label), y + 17, GRAIN, paths)
        )  # fmt: skip
    return Shape('<svg class="chart" width="100%%" height="%d" role="img" aria-label="%s">%s</svg>') % (
        len(chosen) * 44,
        "The shown step: what the time goes to, and what ran on each stream",
        Markup("").join(rows),
    )

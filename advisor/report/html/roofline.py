"""Roofline picture: what each operator reaches, by its arithmetic a byte, under what the device can do. Both axes are logarithmic.

It is drawn with attributes alone, so that it looks the same on the page and in a notebook, which has no style for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from markupsafe import Markup

from advisor.report.html.svg import Shape, span, text_of
from advisor.report.plain import milliseconds, number, percent
from advisor.results.roofline import Roofline, RoofPoint

HEIGHT = 300
_LARGEST = 26.0
"""Radius of a point that owns all the time, in pixels."""
_NAMED = 5
_NEAR = 0.8
_TOP = 14


class _Axis:
    """A logarithmic axis of whole decades around some values."""

    def __init__(self, values: Iterable[float]) -> None:
        found = [value for value in values if value > 0 and math.isfinite(value)]
        self.low = math.floor(math.log10(min(found)))
        self.high = max(math.ceil(math.log10(max(found)) + 1e-9), self.low + 1)

    def share(self, value: float) -> float:
        """Return where a value lies, from 0 to 1."""
        return (math.log10(value) - self.low) / (self.high - self.low)

    def decades(self) -> list[float]:
        """Return the powers of ten on it."""
        return [10.0**power for power in range(self.low, self.high + 1)]


def chart(found: Roofline) -> Markup:
    """Draw the device's roofs, those that programs reach as broken lines, and a circle an operator, its area the time."""
    tops = [roof.tflops for roof in found.roofs]
    ridges = [_ridge(top, found.memory_gbps) for top in tops]
    across = _Axis([*(point.intensity for point in found.points), *ridges])
    up = _Axis([*(point.tflops for point in found.points), *tops])
    parts = [_grid(across, up)]
    highest = max(tops, default=10.0**up.high)
    parts.append(_slope(found.memory_gbps, highest, across, up, f"memory {number(found.memory_gbps)} GB/s", ""))
    reached = max((roof.reachable_tflops or 0.0 for roof in found.roofs), default=highest) or highest
    if found.reachable_gbps:
        parts.append(_slope(found.reachable_gbps, reached, across, up, "", _BROKEN))
    for roof in found.roofs:
        text = f"{roof.format} {number(roof.tflops)} TFLOP/s"
        parts.append(_level(roof.tflops, found.memory_gbps, across, up, text, ""))
        if roof.reachable_tflops and found.reachable_gbps:
            parts.append(_level(roof.reachable_tflops, found.reachable_gbps, across, up, "", _BROKEN))
    whole = sum(point.ms for point in found.points)
    parts += [_circle(point, whole, across, up) for point in found.points]
    parts += [_label(point, whole, across, up) for point in found.points[:_NAMED]]
    label = f"Roofline of {found.device}: TFLOP/s by FLOP a byte, a circle an operator; the table below holds the times"
    return Shape(
        '<svg class="chart" width="100%%" height="%d" role="img" aria-label="%s" fill="currentColor" font-size="11" '
        'font-family="sans-serif"><svg y="%d" width="100%%" height="%d" overflow="visible">%s</svg></svg>'
    ) % (HEIGHT + _TOP + 32, text_of(label), _TOP, HEIGHT, Markup("").join(parts))


def caption(found: Roofline, per: str) -> str:
    """Say what the picture shows, and what it leaves out."""
    text = (
        f"A circle an operator, its area the time {per}; up: TFLOP/s, to the right: FLOP a byte that must move. Lines: what "
        f"{found.device} can do, broken: what programs reach. Hollow circles are within a fifth of that."
    )
    if found.moving_ms > 0:
        text += f" Not drawn: {milliseconds(found.moving_ms)} that move bytes and compute nothing"
        text += f", {milliseconds(found.left_ms)} in small operators." if found.left_ms > 0 else "."
    elif found.left_ms > 0:
        text += f" Not drawn: {milliseconds(found.left_ms)} in small operators."
    return text


_BROKEN = ' stroke-dasharray="4 4"'


def _ridge(tflops: float, gbps: float) -> float:
    """Return the FLOP a byte from which on arithmetic takes longer than memory."""
    return tflops * 1e3 / gbps


def _y(share: float) -> float:
    return HEIGHT * (1 - min(max(share, 0.0), 1.0))


def _grid(across: _Axis, up: _Axis) -> Markup:
    lines = []
    for value in up.decades():
        y = _y(up.share(value))
        lines.append(
            Shape(
                '<line x2="100%%" y1="%.1f" y2="%.1f" stroke="currentColor" stroke-opacity=".15"/>'
                '<text x="2" y="%.1f" fill-opacity=".7">%s</text>'
            )
            % (y, y, y - 3, f"{number(value)} TFLOP/s" if value == 10.0**up.high else number(value))
        )
    for value in across.decades():
        x = span(across.share(value))
        end = value == 10.0**across.high
        lines.append(
            Shape(
                '<line x1="%s" x2="%s" y2="%d" stroke="currentColor" stroke-opacity=".15"/>'
                '<text x="%s" y="%d" fill-opacity=".7" text-anchor="%s">%s</text>'
            )
            % (
                x,
                x,
                HEIGHT,
                x,
                HEIGHT + 15,
                "end" if end else "start",
                f"{number(value)} FLOP a byte" if end else number(value),
            )
        )
    return Markup("").join(lines)


def _slope(gbps: float, top: float, across: _Axis, up: _Axis, text: str, style: str) -> Markup:
    """Draw the roof of memory, from where it enters the picture up to the highest roof of arithmetic."""
    first = max(10.0**across.low, 10.0**up.low * 1e3 / gbps)
    last = min(_ridge(top, gbps), 10.0**across.high)
    ends = [(span(across.share(x)), _y(up.share(x * gbps / 1e3))) for x in (first, last)]
    middle = math.sqrt(first * last)
    return _line(ends, style) + (
        Shape('<text x="%s" y="%.1f" text-anchor="end">%s</text>')
        % (span(across.share(middle) - 0.01), _y(up.share(middle * gbps / 1e3)) - 4, text)
        if text
        else Markup("")
    )


def _level(tflops: float, gbps: float, across: _Axis, up: _Axis, text: str, style: str) -> Markup:
    """Draw a roof of arithmetic, from where memory feeds it to the right edge."""
    y = _y(up.share(tflops))
    drawn = _line([(span(across.share(min(_ridge(tflops, gbps), 10.0**across.high))), y), ("100%", y)], style)
    return drawn + (
        Shape('<text x="100%%" y="%.1f" text-anchor="end">%s</text>') % (y - 4, text_of(text)) if text else Markup("")
    )


def _line(ends: list[tuple[str, float]], style: str) -> Markup:
    (left, low), (right, high) = ends
    return Shape('<line x1="%s" x2="%s" y1="%.1f" y2="%.1f" stroke="currentColor" stroke-opacity=".6"%s/>') % (
        left,
        right,
        low,
        high,
        Markup(style),
    )


def _circle(point: RoofPoint, whole: float, across: _Axis, up: _Axis) -> Markup:
    title = (
        f"{_name(point)}: {milliseconds(point.ms)}, {number(point.tflops)} TFLOP/s at {number(point.intensity)} FLOP a byte, "
        f"{percent(point.reachable_share)} of what is reachable"
    )
    return Shape(
        '<circle cx="%s" cy="%.1f" r="%.1f" fill-opacity="%s" stroke="currentColor"><title>%s</title></circle>'
    ) % (
        span(across.share(point.intensity)),
        _y(up.share(point.tflops)),
        _radius(point, whole),
        "0" if point.reachable_share >= _NEAR else ".25",
        text_of(title),
    )


def _radius(point: RoofPoint, whole: float) -> float:
    return max(_LARGEST * math.sqrt(point.ms / whole), 2.5) if whole > 0 else 2.5


def _label(point: RoofPoint, whole: float, across: _Axis, up: _Axis) -> Markup:
    place, beside = across.share(point.intensity), round(_radius(point, whole)) + 4
    return Shape('<text x="%s" y="%.1f" text-anchor="%s" dx="%d" dy="4">%s</text>') % (
        span(place),
        _y(up.share(point.tflops)),
        "end" if place > 0.7 else "start",
        -beside if place > 0.7 else beside,
        text_of(_name(point)),
    )


def _name(point: RoofPoint) -> str:
    return point.op.removeprefix("aten::") + (f" {point.format}" if point.format else "")

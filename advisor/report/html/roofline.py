"""Roofline picture: what each operator reaches, by its arithmetic a byte, under what the device can do. Both axes are logarithmic.

It is drawn with attributes alone, so that it looks the same on the page and in a notebook, which has no style for it. Names of
operators are too long for a phone: circles have numbers, and a list below the picture names them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from markupsafe import Markup

from advisor.report.html.placing import LETTER, LINE, NARROWEST, Board, Box, Line
from advisor.report.html.svg import Shape, span, text_of
from advisor.report.plain import milliseconds, number, percent
from advisor.results.roofline import Roof, Roofline, RoofPoint

HEIGHT = 300
NAMED = 8
_LARGEST = 26.0
"""Radius of a point that owns all the time, in pixels."""
_NEAR = 0.8
_TOP, _BELOW = 24, 36
_GUTTER = 0.12
"""Share of the width, on the left, for the figures of the axis."""
_TICK = 46.0
"""Pixels that a figure below the picture takes."""
_DIGIT = 8.0
_WAYS = 16
"""Directions in which the number of a circle is tried around it."""


class _Axis:
    """A logarithmic axis around some values, with room for the circle around each."""

    def __init__(self, values: Iterable[tuple[float, float]], pixels: float, left: float = 0.0) -> None:
        found = [(math.log10(value), radius) for value, radius in values if value > 0 and math.isfinite(value)]
        self._left = left
        logs = [value for value, _ in found]
        each = max(max(logs) - min(logs), 1.0) * 1.3 / pixels  # decades of a pixel
        self.low = min(value - each * (radius + 4) for value, radius in found)
        self.high = max(value + each * (radius + 4) for value, radius in found)
        if math.floor(self.high) - math.ceil(self.low) < 1:  # an axis of one figure says nothing
            self.low, self.high = math.floor(self.low), max(math.ceil(self.high), math.floor(self.low) + 1)
        room = (self.high - self.low) * (_TICK if left else LINE) / pixels
        self._every = max(1, math.ceil(room))

    def share(self, value: float) -> float:
        """Return where a value lies, from 0 to 1."""
        return self._left + (1 - self._left) * (math.log10(value) - self.low) / (self.high - self.low)

    def decades(self) -> list[float]:
        """Return powers of ten on it, as many as have room for their figures."""
        return [10.0**power for power in range(math.ceil(self.low), math.floor(self.high) + 1, self._every)]


class _Picture:
    """Places of everything in the picture of a roofline."""

    def __init__(self, found: Roofline) -> None:
        whole = sum(point.ms for point in found.points)
        self.radii = [_radius(point, whole) for point in found.points]
        tops = [roof.tflops for roof in found.roofs]
        ridges = [_ridge(top, found.memory_gbps) for top in tops]
        sized = list(zip(found.points, self.radii, strict=True))
        wide = NARROWEST * (1 - _GUTTER)
        self.across = _Axis([*((p.intensity, r) for p, r in sized), *((x, 8.0) for x in ridges)], wide, _GUTTER)
        self.up = _Axis([*((p.tflops, r) for p, r in sized), *((y, 20.0) for y in tops)], HEIGHT)
        self.found = found
        self.highest = max(tops, default=10.0**self.up.high)
        self.whole_lines = [self.slope(found.memory_gbps, self.highest)]
        self.broken_lines = []
        for roof in found.roofs:
            self.whole_lines.append(self.level(roof.tflops, found.memory_gbps))
        if found.reachable_gbps:
            reached = [roof.reachable_tflops for roof in found.roofs if roof.reachable_tflops]
            self.broken_lines.append(self.slope(found.reachable_gbps, max(reached, default=self.highest)))
            self.broken_lines += [self.level(tflops, found.reachable_gbps) for tflops in reached]
        self.circles = [
            Box(self.across.share(p.intensity), -r, r, self.y(p.tflops) - r, self.y(p.tflops) + r) for p, r in sized
        ]
        heights = [HEIGHT * (1 - self.up.share(value)) for value in self.up.decades()]
        figures = [Box(_GUTTER, -_GUTTER * NARROWEST, 0.0, y - LINE / 2, y + LINE / 2) for y in heights]
        lines = [*self.whole_lines, *self.broken_lines]
        self.board = Board(4.0 - _TOP, float(HEIGHT), self.circles, lines, figures)

    def y(self, tflops: float) -> float:
        """Return how far below the top a rate lies."""
        return HEIGHT * (1 - min(max(self.up.share(tflops), 0.0), 1.0))

    def slope(self, gbps: float, top: float) -> Line:
        """Return the roof of memory, from where it enters the picture up to the highest roof of arithmetic."""
        first = max(10.0**self.across.low, 10.0**self.up.low * 1e3 / gbps)
        last = max(min(_ridge(top, gbps), 10.0**self.across.high), first)
        (x1, y1), (x2, y2) = ((self.across.share(x), self.y(x * gbps / 1e3)) for x in (first, last))
        return Line(x1, y1, x2, y2)

    def level(self, tflops: float, gbps: float) -> Line:
        """Return a roof of arithmetic, from where memory feeds it to the right edge."""
        y = self.y(tflops)
        return Line(self.across.share(min(_ridge(tflops, gbps), 10.0**self.across.high)), y, 1.0, y)

    def numbers(self) -> Iterator[tuple[int, float, float]]:
        """Yield each numbered point, and how far from its middle its number stands; in its circle, or around it."""
        for at, circle in enumerate(self.circles[:NAMED]):
            radius, middle = self.radii[at], (circle.top + circle.bottom) / 2
            half = _DIGIT * len(str(at + 1)) / 2 + 1
            ways = [(0.0, 0.0)] if radius >= half + 3 else []
            ways += [
                (out * math.cos(math.tau * way / _WAYS), out * math.sin(math.tau * way / _WAYS))
                for out in (radius + 9 + 9 * ring for ring in range(12))
                for way in range(_WAYS)
            ]
            boxes = [
                (Box(circle.x, dx - half, dx + half, middle + dy - LINE / 2, middle + dy + LINE / 2), dx, dy)
                for dx, dy in ways
            ]
            clear = [
                box
                for box, dx, dy in boxes
                if all(self.board.free(_dot(circle.x, part * dx, middle + part * dy)) for part in (0.3, 0.5, 0.7, 0.9))
            ]
            if (box := self.board.place([*clear, *(box for box, _, _ in boxes)], at)) is not None:
                yield at, (box.left + box.right) / 2, (box.top + box.bottom) / 2 - middle

    def names(self) -> Iterator[tuple[Box, str]]:
        """Yield the names of the roofs and where they stand: at the edge or at the ridge, above the line or below it."""
        for tflops, roofs in groupby(self.found.roofs, key=lambda roof: roof.tflops):
            text = _formats(list(roofs), tflops)
            line, wide = self.level(tflops, self.found.memory_gbps), LETTER * len(text)
            places = [
                Box(x, -wide - off, -float(off), line.y1 + high - LINE, line.y1 + high)
                for x, off in ((1.0, 2), (line.x1, 0), (0.8, 0), (0.65, 0))
                for high in (-2.0, LINE + 2)
            ]
            if (box := self.board.place(places)) is not None:
                yield box, text
        text = f"memory {number(self.found.memory_gbps)} GB/s"
        line, wide = self.whole_lines[0], LETTER * len(text)
        along = [(line.x1 + part * (line.x2 - line.x1), line.y1 + part * (line.y2 - line.y1)) for part in _ALONG]
        places = [Box(x, -wide - 6, -6.0, y - LINE - 2, y - 2) for x, y in along]
        places += [Box(x, 8.0, wide + 8, y + 2, y + LINE + 2) for x, y in along]
        if (box := self.board.place(places)) is not None:
            yield box, text


def _dot(x: float, dx: float, y: float) -> Box:
    """Return a point of the line from a circle to its number, which runs through no other label."""
    return Box(x, dx - 1, dx + 1, y - 1, y + 1)


_ALONG = (0.5, 0.6, 0.7, 0.4, 0.8, 0.9, 0.3, 0.2)


def _formats(roofs: Sequence[Roof], tflops: float) -> str:
    return f"{', '.join(roof.format for roof in roofs)} {number(tflops)} TFLOP/s"


def chart(found: Roofline) -> Markup:
    """Draw the device's roofs, those that programs reach as broken lines, and a circle an operator, its area the time."""
    picture = _Picture(found)
    parts = [_grid(picture.across, picture.up)]
    parts += [_line(line, "") for line in picture.whole_lines]
    parts += [_line(line, ' stroke-dasharray="4 4"') for line in picture.broken_lines]
    parts += [
        _circle(point, box, radius)
        for point, box, radius in zip(found.points, picture.circles, picture.radii, strict=True)
    ]
    parts += [_text(box, text) for box, text in picture.names()]
    parts += [_number(picture, *place) for place in picture.numbers()]
    label = (
        f"Roofline of {found.device}: TFLOP/s by FLOP a byte, a circle an operator; the list below names the heaviest"
    )
    return Shape(
        '<svg class="chart roofline" width="100%%" height="%d" role="img" aria-label="%s" fill="currentColor" font-size="11" '
        'font-family="sans-serif"><svg y="%d" width="100%%" height="%d" overflow="visible">%s</svg></svg>%s'
    ) % (HEIGHT + _TOP + _BELOW, text_of(label), _TOP, HEIGHT, Markup("").join(parts), _list(found.points[:NAMED]))


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


def _ridge(tflops: float, gbps: float) -> float:
    """Return the FLOP a byte from which on arithmetic takes longer than memory."""
    return tflops * 1e3 / gbps


def _grid(across: _Axis, up: _Axis) -> Markup:
    """Draw lines at round figures; the figures stand outside of the frame, where no roof crosses them."""
    left = span(_GUTTER)
    lines = [
        Shape(
            '<text class="tick" x="0" y="-12">TFLOP/s</text>'
            '<text class="tick" x="100%%" y="%d" text-anchor="end">FLOP a byte</text>'
        )
        % (HEIGHT + 31)
    ]
    for value in up.decades():
        y = HEIGHT * (1 - up.share(value))
        lines.append(
            Shape(
                '<line x1="%s" x2="100%%" y1="%.1f" y2="%.1f" stroke="currentColor" stroke-opacity=".15"/>'
                '<text class="tick" x="%s" y="%.1f" dx="-5" fill-opacity=".8" text-anchor="end">%s</text>'
            )
            % (left, y, y, left, y + 4, f"{value:g}")
        )
    for value in across.decades():
        x = span(across.share(value))
        end = across.share(value) > 1 - _TICK / 2 / NARROWEST
        lines.append(
            Shape(
                '<line x1="%s" x2="%s" y2="%d" stroke="currentColor" stroke-opacity=".15"/>'
                '<text class="tick" x="%s" y="%d" fill-opacity=".8" text-anchor="%s">%s</text>'
            )
            % (x, x, HEIGHT, x, HEIGHT + 15, "end" if end else "middle", f"{value:g}")
        )
    return Markup("").join(lines)


def _line(line: Line, style: str) -> Markup:
    return Shape('<line x1="%s" x2="%s" y1="%.1f" y2="%.1f" stroke="currentColor" stroke-opacity=".6"%s/>') % (
        span(line.x1),
        span(line.x2),
        line.y1,
        line.y2,
        Markup(style),
    )


def _circle(point: RoofPoint, box: Box, radius: float) -> Markup:
    title = (
        f"{_name(point)}: {milliseconds(point.ms)}, {number(point.tflops)} TFLOP/s at {number(point.intensity)} FLOP a byte, "
        f"{percent(point.reachable_share)} of what is reachable"
    )
    return Shape(
        '<circle cx="%s" cy="%.1f" r="%.1f" fill-opacity="%s" stroke="currentColor"><title>%s</title></circle>'
    ) % (
        span(box.x),
        (box.top + box.bottom) / 2,
        radius,
        "0" if point.reachable_share >= _NEAR else ".25",
        text_of(title),
    )


def _radius(point: RoofPoint, whole: float) -> float:
    return max(_LARGEST * math.sqrt(point.ms / whole), 2.5) if whole > 0 else 2.5


def _text(box: Box, text: str) -> Markup:
    """Draw the name of a roof, from the side on which it is anchored."""
    end = box.right <= 0
    return Shape('<text class="name" x="%s" dx="%.1f" y="%.1f" text-anchor="%s">%s</text>') % (
        span(box.x),
        box.right if end else box.left,
        box.bottom - 3,
        "end" if end else "start",
        text_of(text),
    )


def _number(picture: _Picture, at: int, dx: float, dy: float) -> Markup:
    """Draw a circle's number, and a line to it where that stands away from the circle."""
    box, out, radius = picture.circles[at], math.hypot(dx, dy), picture.radii[at]
    line = Markup("")
    if out - 8 > radius + 3:
        near, far = radius / out, (out - 8) / out
        line = Shape('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="currentColor" stroke-opacity=".6"/>') % (
            dx * near, dy * near, dx * far, dy * far,
        )  # fmt: skip
    return Shape(
        '<svg x="%s" y="%.1f" overflow="visible">%s<text class="name" x="%.1f" y="%.1f" text-anchor="middle">%d</text></svg>'
    ) % (span(box.x), (box.top + box.bottom) / 2, line, dx, dy + 4, at + 1)


def _list(points: Sequence[RoofPoint]) -> Markup:
    """Name the numbered circles."""
    rows = [Shape("<li>%s <small>%s</small></li>") % (_name(point), milliseconds(point.ms)) for point in points]
    return Markup('<ol class="points">{}</ol>').format(Markup("").join(rows))


def _name(point: RoofPoint) -> str:
    return point.op.removeprefix("aten::") + (f" {point.format}" if point.format else "")

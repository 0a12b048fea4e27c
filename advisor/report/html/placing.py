"""Places of labels in a picture whose width nobody knows when it is drawn: none over another or out of the frame at any width.

A place across is a share of the width and a distance from there in pixels. Two places that keep their order are furthest from
overlapping where the picture is wide: what holds at ``NARROWEST`` holds at all widths.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

NARROWEST = 290.0
"""Pixels of the picture on the narrowest phone."""
_WIDTHS = (NARROWEST, 640.0, 1200.0)
LETTER, LINE = 7.2, 13.0
"""Pixels of a letter and of a line of the charts' text: a wide font's, as text that is narrower leaves room."""


class Box(NamedTuple):
    """A rectangle: ``x`` a share of the width, ``left`` and ``right`` pixels from there, ``top`` and ``bottom`` from above."""

    x: float
    left: float
    right: float
    top: float
    bottom: float

    def apart(self, other: Box) -> bool:
        """Tell whether two boxes never overlap."""
        if self.bottom <= other.top or other.bottom <= self.top:
            return True
        first, second = sorted((self, other), key=lambda box: box.x)
        gap = (second.x - first.x) * NARROWEST + second.left - first.right
        return gap >= 0

    def inside(self, top: float, bottom: float) -> bool:
        """Tell whether the box never leaves the frame."""
        start, end = self.x * NARROWEST + self.left, self.x * NARROWEST + self.right
        return start >= 0 and end <= NARROWEST and self.top >= top and self.bottom <= bottom


class Line(NamedTuple):
    """A line between two ends: shares of the width, and pixels from above."""

    x1: float
    y1: float
    x2: float
    y2: float

    def meets(self, box: Box) -> bool:
        """Tell whether the line runs through the box at a usual width."""
        return any(self._crosses(box, wide) for wide in _WIDTHS)

    def _crosses(self, box: Box, wide: float) -> bool:
        low, high = 0.0, 1.0
        sides = (
            (self.x1 * wide, (self.x2 - self.x1) * wide, box.x * wide + box.left, box.x * wide + box.right),
            (self.y1, self.y2 - self.y1, box.top, box.bottom),
        )
        for start, way, least, most in sides:
            if way == 0:
                if not least <= start <= most:
                    return False
                continue
            ends = sorted(((least - start) / way, (most - start) / way))
            low, high = max(low, ends[0]), min(high, ends[1])
        return low <= high


class Board:
    """Room of a picture: its contents, and what labels have taken. ``shapes`` and ``lines`` are kept free where there is room."""

    def __init__(
        self, top: float, bottom: float, shapes: Sequence[Box], lines: Sequence[Line], taken: Iterable[Box]
    ) -> None:
        self._frame = (top, bottom)
        self._shapes = shapes
        self._lines = lines
        self._taken = list(taken)

    def free(self, box: Box) -> bool:
        """Tell whether no label is there."""
        return all(map(box.apart, self._taken))

    def place(self, candidates: Iterable[Box], own: int = -1) -> Box | None:
        """Take the first place that is free, else the first where a label hides no other; None where every place hides one.

        *own* is the shape that is labelled: its label may lie in it.
        """
        free = [box for box in candidates if box.inside(*self._frame) and self.free(box)]
        others = [shape for at, shape in enumerate(self._shapes) if at != own]
        clear = [box for box in free if all(map(box.apart, others))]
        chosen = next((box for box in clear if not any(line.meets(box) for line in self._lines)), None)
        chosen = chosen or next(iter(clear or free), None)
        if chosen is not None:
            self._taken.append(chosen)
        return chosen

"""Calls that operators run in: the lines of the user's that lead to one, and which of the calls are the same as another one's."""

from __future__ import annotations

from dataclasses import dataclass
from types import FrameType

from advisor.record.places import trace_path

Place = tuple[str, int]
_DEEPEST = 48


@dataclass(frozen=True, slots=True)
class Callers:
    """Lines and calls that lead to an operator, the outermost first.

    *places* are the user's lines. *calls* are numbers of the calls of functions, the user's or others', each call with its own;
    *depths* tell which of these each place is in.
    """

    places: tuple[Place, ...] = ()
    calls: tuple[int, ...] = ()
    depths: tuple[int, ...] = ()

    def first_below(self, shared: int) -> int | None:
        """Return the first place in the innermost of *shared* outer calls, or below that; None where only a library's come."""
        return next((at for at, depth in enumerate(self.depths) if depth >= shared - 1), None)


def shared(one: Callers, other: Callers) -> int:
    """Return how many of the outer calls are the same."""
    pairs = zip(one.calls, other.calls, strict=False)
    return next((at for at, (left, right) in enumerate(pairs) if left != right), min(len(one.calls), len(other.calls)))


class Calls:
    """Numbers calls as operators run in them. The frames of the last operator are held: no later one is taken for one of them."""

    def __init__(self) -> None:
        self._last: list[tuple[FrameType, int]] = []
        self._count = 0

    def clear(self) -> None:
        """Hold no frames any more."""
        self._last = []

    def at(self, frame: FrameType | None) -> Callers:
        """Return the callers at *frame* and around it."""
        frames: list[FrameType] = []
        while frame is not None:
            frames.append(frame)
            frame = frame.f_back
        frames.reverse()
        known = 0
        while known < min(len(frames), len(self._last)) and frames[known] is self._last[known][0]:
            known += 1
        del self._last[known:]
        for each in frames[known:]:
            self._count += 1
            self._last.append((each, self._count))
        found: list[tuple[Place, int]] = []
        for depth, each in enumerate(frames):
            path, is_own = trace_path(each.f_code.co_filename)
            if is_own:
                found.append(((path, each.f_lineno), depth))
        found = found[-_DEEPEST:]
        numbers = tuple(number for _, number in self._last)
        return Callers(tuple(place for place, _ in found), numbers, tuple(depth for _, depth in found))

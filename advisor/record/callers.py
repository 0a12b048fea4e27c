"""Calls that operators run in: the lines of the user's that lead to one, and which of the calls are the same as another one's."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from types import FrameType
from typing import NamedTuple

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
        self._last: list[_Call] = []
        self._thread = 0
        self._count = 0

    def clear(self) -> None:
        """Hold no frames any more."""
        self._last = []

    def prune(self) -> None:
        """Hold no frames of calls that have ended: with their variables they would stay until the next operator."""
        self._keep(_frames(sys._current_frames().get(self._thread)))

    def at(self, frame: FrameType | None) -> Callers:
        """Return the callers at *frame* and around it."""
        self._thread = threading.get_ident()
        frames = _frames(frame)
        for each in frames[self._keep(frames) :]:
            self._count += 1
            path, is_own = trace_path(each.f_code.co_filename)
            self._last.append(_Call(each, self._count, path if is_own else None))
        own = [depth for depth, call in enumerate(self._last) if call.path is not None][-_DEEPEST:]
        places = tuple((self._last[depth].path or "", frames[depth].f_lineno) for depth in own)
        return Callers(places, tuple(call.number for call in self._last), tuple(own))

    def _keep(self, frames: list[FrameType]) -> int:
        """Keep those calls whose frames are the outer ones of *frames*; return how many these are."""
        pairs = enumerate(zip(frames, self._last, strict=False))
        ended = (at for at, (frame, call) in pairs if frame is not call.frame)
        known = next(ended, min(len(frames), len(self._last)))
        del self._last[known:]
        return known


class _Call(NamedTuple):
    """A call that has not ended; *path* is that of the user's file which its function is of, None for a library's."""

    frame: FrameType
    number: int
    path: str | None


def _frames(frame: FrameType | None) -> list[FrameType]:
    """Return *frame* and those around it, the outermost first."""
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    frames.reverse()
    return frames

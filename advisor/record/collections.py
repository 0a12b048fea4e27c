"""Python's own collections of garbage: where one runs in the steps that are timed, it is a span in the profiler's record."""

from __future__ import annotations

import gc
import sys
from typing import Any

from advisor.record.lines import Span
from advisor.record.places import trace_path

MARK = "Python GC#"
NAME = "Python GC"
_FULL = 2
"""The oldest generation: collections of the younger ones take microseconds."""


class Collections:
    """Marks full collections from :meth:`start` to :meth:`stop`. *span* makes a span of a name, as a context manager.

    ``places`` are the lines at which the user's code was when one began, by the number in its span's name, written
    ``file(line): function``; ``""`` where it was in none.
    """

    def __init__(self, span: Span) -> None:
        self.places: list[str] = []
        self._span = span
        self._open: Any = None

    def start(self) -> None:
        """Mark from here on."""
        if self._mark not in gc.callbacks:
            gc.callbacks.append(self._mark)

    def stop(self) -> None:
        """Mark no more."""
        if self._mark in gc.callbacks:
            gc.callbacks.remove(self._mark)
        self._leave()

    def _mark(self, phase: str, info: dict[str, int]) -> None:
        if info.get("generation") != _FULL:
            return
        self._leave()
        if phase == "start":
            place = _place()
            if place not in self.places:
                self.places.append(place)
            self._open = self._span(f"{MARK}{self.places.index(place)}")
            self._open.__enter__()

    def _leave(self) -> None:
        if self._open is not None:
            self._open.__exit__(None, None, None)
            self._open = None


def _place() -> str:
    frame = sys._getframe(2)
    while frame is not None:
        file, is_own = trace_path(frame.f_code.co_filename)
        if is_own:
            return f"{file}({frame.f_lineno}): {frame.f_code.co_name}".replace(";", ",")
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""

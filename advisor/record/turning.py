"""Turns of loops, and calls of functions, as they begin: told by Python's own tracing, of a few functions' lines alone.

Lines of other functions are not traced. Each call of one costs a check, 0.25 µs, and Python runs its instructions half as fast
meanwhile: nothing is traced for longer than it must be. Functions go by the id of their code, whose own hash goes over all of it.
Where lines are marked (:mod:`advisor.record.lines`), which needs the one tracing that a thread has, turns are told from there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import cache
from types import CodeType, FrameType
from typing import Any, NamedTuple

CALL = -1
"""In place of a loop's first offset: the calls of the function."""


class Key(NamedTuple):
    """A loop: its code and its first offset. Compared by the code's id, as its own hash goes over all of it."""

    code: CodeType
    first: int

    def __hash__(self) -> int:
        return hash((id(self.code), self.first))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.code is other.code and self.first == other.first


class Turning:
    """Calls *turn* with the key of a loop as it begins a turn, in the thread that :meth:`start` was called in."""

    def __init__(self, turn: Callable[[Key], None]) -> None:
        self._turn = turn
        self._codes: dict[int, tuple[CodeType, frozenset[int]]] = {}
        """By id, code and the first offsets of its loops."""
        self._running = self._paused = False

    def watch(self, keys: Iterable[Key]) -> None:
        """Tell of these from here on, and of no others; from any thread."""
        codes: dict[int, tuple[CodeType, frozenset[int]]] = {}
        for code, first in keys:
            _, firsts = codes.get(id(code), (code, frozenset()))
            codes[id(code)] = code, firsts | {first}
        self._codes = codes

    def start(self) -> bool:
        """Trace this thread from here on, functions that run now as well; False where a debugger traces already."""
        if self._paused:
            return True
        if sys.gettrace() not in (None, self._on_call):
            return self._running
        self._running = True
        _end_in_children()
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if id(frame.f_code) in self._codes and frame.f_trace is None:
                frame.f_trace = self._on_line
            frame = frame.f_back
        sys.settrace(self._on_call)
        return True

    def stop(self) -> None:
        """Trace no more; in the thread that is traced."""
        self._running = self._paused = False
        self._codes = {}
        if sys.gettrace() == self._on_call:
            sys.settrace(None)

    def pause(self) -> None:
        """Leave the tracing to another, which calls :meth:`called` and :meth:`at_line`, until :meth:`resume`."""
        if self._running and sys.gettrace() == self._on_call:
            self._paused = True
            sys.settrace(None)

    def resume(self) -> None:
        """Trace again."""
        if self._paused:
            self._paused = False
            self.start()

    def called(self, frame: FrameType) -> bool:
        """Note the call of a function; tell whether its lines are to be traced."""
        known = self._codes.get(id(frame.f_code))
        if known is None or not self._running:
            return False
        if CALL in known[1]:
            self._turn(Key(known[0], CALL))
        return True

    def at_line(self, frame: FrameType) -> None:
        """Note that a line begins: one that a loop goes back to begins its turn."""
        known = self._codes.get(id(frame.f_code))
        if known is not None and self._running and frame.f_lasti in known[1]:
            self._turn(Key(known[0], frame.f_lasti))

    def _on_call(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        if id(frame.f_code) not in self._codes:
            return None
        return self._on_line if self.called(frame) else None

    def _on_line(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self.at_line(frame)


def _in_child() -> None:
    if isinstance(getattr(sys.gettrace(), "__self__", None), Turning):
        sys.settrace(None)


@cache
def _end_in_children() -> None:
    """Have children that are forked from here on trace nothing."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_in_child)

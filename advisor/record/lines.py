"""The lines that run: torch's own stacks name where a function begins, and not the line that called an operator.

While the pass for stacks runs, every line of the user's own code becomes a span in the profiler's record, named by a number.
Spans of a function's lines lie inside the span of the line that called it, so those around an operator are its stack.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from advisor.record.places import trace_path
from advisor.record.turning import Turning
from advisor.regex import regex

MARK = "advisor.line#"
# Lines of Python without tensors are spans too, a loop on one line one span; after so many no more are marked.
MOST = 300_000
DRAWS = regex(
    r"\brand(?:om|int|n|perm|range)?\w*\(|\brandom\.|\brng\b"
    r"|\.(?:choices?|shuffle|normal|uniform|permutation|integers|standard_normal)\("
)
"""Text of a line that draws something random: calls of NumPy's generators are in no profile."""

Span = Callable[[str], Any]


class Lines:
    """Marks lines from :meth:`start` to :meth:`stop`, on one thread. *span* makes a span of a name, as a context manager.

    ``turning``, if any, has its turns told from here meanwhile. ``frames`` are the marked places by number, written
    ``file(line): function``; ``draws`` those whose text draws at random.
    """

    def __init__(self, span: Span) -> None:
        self.frames: list[str] = []
        self.draws: set[int] = set()
        self.turning: Turning | None = None
        self._span = span
        self._numbers: dict[tuple[int, int], str] = {}
        self._files: dict[int, tuple[CodeType, str]] = {}
        """By the id of their code, whose own hash goes over all of it."""
        self._open: list[tuple[FrameType, Any]] = []
        self._lines: list[int] = []
        """The line of each span that is open."""
        self._budget = MOST
        self._running = False
        self._pid = os.getpid()

    def start(self) -> None:
        """Mark from here on: the lines that the callers are at, and all that follow. Not where a debugger traces already."""
        if self._running or self._budget <= 0:
            return
        if self.turning is not None:
            self.turning.pause()
        if sys.gettrace() is not None:
            return
        self._running = True
        around: list[FrameType] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if self._file(frame.f_code):
                around.append(frame)
            frame = frame.f_back
        for frame in reversed(around):
            self._enter(frame)
            frame.f_trace = self._on_line
        sys.settrace(self._on_call)

    def stop(self) -> None:
        """Mark no more; spans that are open end here."""
        if not self._running:
            return
        self._running = False
        if sys.gettrace() == self._on_call:
            sys.settrace(None)
        while self._open:
            self._leave()[0].f_trace = None
        if self.turning is not None:
            self.turning.resume()

    def _on_call(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if os.getpid() != self._pid:
            # A child that was forked in the meantime, such as a loader's worker: it is not recorded.
            self._running = False
            sys.settrace(None)
        if self._running and self.turning is not None:
            self.turning.called(frame)
            if self._open and self._open[-1][0] is frame:
                return self._on_line  # marked already, as the marking began again meanwhile
        if not self._running or not self._file(frame.f_code):
            return None
        self._enter(frame)
        return self._on_line

    def _on_line(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if self._running and event == "line" and self.turning is not None:
            self.turning.at_line(frame)  # may end the marking, and begin it again
        if not self._running:
            return None
        if event == "line" or event == "return":
            # Whatever was left open above, such as by a generator that was thrown away, is over.
            while self._open and self._open[-1][0] is not frame:
                if not any(entry[0] is frame for entry in self._open):
                    return self._on_line
                self._leave()
            if event == "line" and self._open and self._lines[-1] == frame.f_lineno:
                return self._on_line  # a loop on one line, as a comprehension is: still the same place
            if self._open:
                self._leave()
            if event == "line":
                self._enter(frame)
        return self._on_line

    def _enter(self, frame: FrameType) -> None:
        self._budget -= 1
        if self._budget == 0:
            self.stop()
            return
        span = self._span(self._name(frame.f_code, frame.f_lineno))
        span.__enter__()
        self._open.append((frame, span))
        self._lines.append(frame.f_lineno)

    def _leave(self) -> tuple[FrameType, Any]:
        entry = self._open.pop()
        self._lines.pop()
        entry[1].__exit__(None, None, None)
        return entry

    def _file(self, code: CodeType) -> str:
        """Return the path of the user's own code; empty for any other."""
        known = self._files.get(id(code))
        if known is None:
            path, is_own = trace_path(code.co_filename)
            known = self._files[id(code)] = code, path if is_own else ""
        return known[1]

    def _name(self, code: CodeType, line: int) -> str:
        name = self._numbers.get((id(code), line))
        if name is None:
            name = self._numbers[id(code), line] = f"{MARK}{len(self.frames)}"
            if DRAWS.search(linecache.getline(code.co_filename, line)):
                self.draws.add(len(self.frames))
            self.frames.append(f"{self._file(code)}({line}): {code.co_name}".replace(";", ","))
        return name

"""Looks at the Python that the thread which ends the steps runs, while the profiler times them: a hundred a second at most.

Each is handed on: frames in which a loader puts a batch together to :class:`Fetching`, others to :class:`Stepping`. The steps that
are looked at are those whose times are told. So a look only counts, code is read once they are over, and where looks take long, as
in deep recursions, they come less often.
"""

from __future__ import annotations

import sys
import threading
import time
from types import FrameType
from typing import Any

from advisor.record.fetching import Fetching
from advisor.record.lines import Lines
from advisor.record.sample_work import is_fetch
from advisor.record.stepping import Stepping
from advisor.record.turning import Turning
from advisor.record.workers import QUICK_SWITCHES

_LOOK_S = 0.01
_MOST_SHARE = 0.003
"""Share of the time that looks take at most; to take turns for a look took as long again (145 µs in all, two cores, busy)."""
_FIRST, _FIRST_SHARE = 40, 0.01
"""Looks for which they may take more: half a second of steps would else be looked at a few times, which tells of nothing."""
_LONGEST_REST_S = 0.1
_MOST_TIMES = 3
"""Times the rest between two looks that are counted for one: where the thread got no turn for longer, that is not known."""


class Looks:
    """The thread that looks, from :meth:`begin` to :meth:`end`, and what it saw; each :meth:`begin` starts from nothing."""

    def __init__(self) -> None:
        self.fetches = False
        """A loader fetches its samples in this process."""
        self.fetching, self.stepping = Fetching(), Stepping()
        self._failed = False
        self._ended = threading.Event()
        """Of the thread that looks: one that has not ended when the next begins must end all the same."""
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Look from here on at the thread that calls this."""
        self.end()
        self.fetching, self.stepping = Fetching(), Stepping()
        self._failed = False
        self.turn()
        trace = sys.gettrace()
        if trace is not None and getattr(trace, "__func__", None) not in _TRACING:
            return  # a debugger's, of which :func:`look` does not know when it runs
        self._ended = threading.Event()
        seen = threading.get_ident(), self._ended, self.fetching, self.stepping
        self._thread = threading.Thread(target=self._run, args=seen, daemon=True, name="advisor-looks")
        self._thread.start()

    def turn(self) -> None:
        """Note the end of a step, in the thread that ends it."""
        self.stepping.turn(sys._getframe(1))

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(10 * _LOOK_S)
            self._thread = None

    def summary(self) -> dict[str, Any]:
        """Return the fields of ``Recorded``, for which code is read: not while steps are timed."""
        if self._failed:
            return {}
        try:
            return self.fetching.summary() | self.stepping.summary()
        except Exception:  # noqa: BLE001  (what the program calls by its names may raise whatever it is asked)
            return {}

    def _run(self, thread: int, ended: threading.Event, fetching: Fetching, stepping: Stepping) -> None:
        try:
            with QUICK_SWITCHES:
                self._watch(thread, ended, fetching, stepping)
        except Exception:  # noqa: BLE001  (the program goes on, whatever fails in here)
            self._failed |= ended is self._ended

    def _watch(self, thread: int, ended: threading.Event, fetching: Fetching, stepping: Stepping) -> None:
        last, rest, looks = time.perf_counter(), _LOOK_S, 0
        while not ended.wait(rest):
            now, begun = time.perf_counter(), time.thread_time()
            spent, last = min(now - last, _MOST_TIMES * rest), now
            look(sys._current_frames().get(thread), spent, fetching if self.fetches else None, stepping)
            looks += 1
            share = _FIRST_SHARE if looks < _FIRST else _MOST_SHARE
            rest = min(max(_LOOK_S, (time.thread_time() - begun) / share), _LONGEST_REST_S)


_TRACING = (Turning._on_call, Turning._on_line, Lines._on_call, Lines._on_line)
_TRACES = frozenset(id(each.__code__) for each in _TRACING)


def look(frame: FrameType | None, spent: float, fetching: Fetching | None, stepping: Stepping) -> None:
    """Count *spent* seconds for what a thread is in at *frame*; its frames, which hold its variables, are let go of at the end.

    Not amid a call of a function that traces: what the frame that it is called for shows of its variables is written back into it
    behind that, in Python before 3.13, and what was let go of would be lost to the program.
    """
    frames = []
    while frame is not None:
        if id(frame.f_code) in _TRACES:
            stepping.add([], spent)
            return
        frames.append(frame)
        if is_fetch(frame):
            if fetching is not None:
                fetching.add(frames, spent)
            stepping.add([], spent)  # part of all time
            return
        frame = frame.f_back
    stepping.add(frames, spent)

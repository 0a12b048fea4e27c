"""Work on samples in this process that is the same for many of them: functions of the dataset whose arguments come again.

While steps are recorded, a thread looks at what the main thread runs, a hundred times a second, where that puts a batch together.
"""

from __future__ import annotations

import sys
import threading
import time
from types import CodeType, FrameType
from typing import Any

from advisor.reading.program_settings import WorkerLine
from advisor.record.sample_work import Repeats, is_fetch
from advisor.record.workers import QUICK_SWITCHES, Place, origin

_LOOK_S = 0.01
_MOST_TIMES = 3
"""Times the rest between two looks that are counted for one: where the thread got no turn for longer, that is not known."""
_LEAST_SHARE = 0.02
_LEAST_LOOKS = 10
"""Looks at a batch in the making from which on a share of them is told."""


class Fetching:
    """The work of the main thread on samples, from :meth:`begin` to :meth:`end`."""

    def __init__(self) -> None:
        self.needed = False
        """A loader fetches its samples in this process."""
        self._ended = threading.Event()
        """Of the thread that looks: one that has not ended when the next begins must end all the same."""
        self._thread: threading.Thread | None = None
        self._looks = 0
        self._total = 0.0
        self._repeats = Repeats()
        self._same: dict[CodeType, tuple[Place, float]] = {}

    def begin(self) -> None:
        """Look from here on, if it is needed."""
        if not self.needed:
            return
        self.end()
        self._ended, self._repeats = threading.Event(), Repeats()
        self._thread = threading.Thread(target=self._run, args=(self._ended,), daemon=True, name="advisor-fetching")
        self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(10 * _LOOK_S)
            self._thread = None

    def summary(self) -> dict[str, Any]:
        """Return the field ``fetch_repeat`` of ``Recorded``: the function that took most, of all time in which batches are made."""
        place, took = max(self._same.values(), key=lambda of: of[1], default=(("", 0, ""), 0.0))
        if self._looks < _LEAST_LOOKS or took < _LEAST_SHARE * self._total:
            return {}
        file, line, function = place
        share = round(min(took / self._total, 1.0), 3)
        return {"fetch_repeat": WorkerLine(share=share, function=function, file=file, line=line)}

    def _run(self, ended: threading.Event) -> None:
        try:
            with QUICK_SWITCHES:
                self._watch(threading.main_thread().ident, ended)
        except Exception:  # noqa: BLE001  (the program goes on, whatever fails in here)
            return

    def _watch(self, thread: int | None, ended: threading.Event) -> None:
        last = time.perf_counter()
        while thread is not None and not ended.wait(_LOOK_S):
            now = time.perf_counter()
            spent, last = min(now - last, _MOST_TIMES * _LOOK_S), now
            self._look(thread, spent)

    def _look(self, thread: int, spent: float) -> None:
        """Count what the thread is in; its frames, which hold its variables, are let go of at the end."""
        frames = _frames(sys._current_frames().get(thread))
        if not frames:
            return
        self._looks += 1
        self._total += spent
        for at, again in self._repeats.add(frames, spent):
            code = frames[at].f_code
            place, took = self._same.get(code) or (origin(frames, at), 0.0)
            self._same[code] = place, took + again


def _frames(frame: FrameType | None) -> list[FrameType]:
    """Return the frames from the innermost on up to that which fetches a batch's samples; none where no batch is made."""
    frames = []
    while frame is not None:
        frames.append(frame)
        if is_fetch(frame):
            return frames
        frame = frame.f_back
    return []

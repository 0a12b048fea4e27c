"""A second thread that makes what the rules will ask for, while this one answers those on other frames; of large traces.

numpy and DuckDB let go of the interpreter while they work on long columns. What both threads need is made by the one that asks
first (:mod:`advisor.once`), so that results do not depend on who did: only on the trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING

from advisor.reading import machine

if TYPE_CHECKING:
    from advisor.trace import Trace

FRAMES = ("patterns", "gaps", "functions")
"""Frames that take long and are made whole; all others together take about as long."""


class Ahead:
    """A thread that makes these frames of a trace, one after the other; what is not begun when the block ends is left out."""

    def __init__(self, trace: Trace, frames: Sequence[str] = FRAMES) -> None:
        self._trace, self._frames = trace, frames
        self._over = Event()
        self._thread: Thread | None = None
        if machine.has_room_for_threads(trace.events):
            self._thread = Thread(target=self._make, name="advisor-ahead", daemon=True)

    def __enter__(self) -> None:
        if self._thread is not None:
            self._trace.ahead = self._frames
            self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._trace.ahead = ()
            self._thread.join()

    def _make(self) -> None:
        for name in self._frames:
            if self._over.is_set():
                return
            with suppress(Exception):  # whoever asks for it gets the error, in place
                self._trace.frame(name)

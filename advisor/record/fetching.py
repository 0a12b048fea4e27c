"""Work on samples in this process that is the same for many of them: functions of the dataset whose arguments come again."""

from __future__ import annotations

from types import FrameType
from typing import Any

from advisor.reading.program_settings import WorkerLine
from advisor.record.sample_work import Repeats
from advisor.record.workers import Place, origin

_LEAST_SHARE = 0.02
_LEAST_LOOKS = 5
"""Looks at a batch in the making from which on a share of them is told: half a second of steps has no more than five to ten."""


class Fetching:
    """Looks at batches in the making, in one recording."""

    def __init__(self) -> None:
        self._looks = 0
        self._total = 0.0
        self._repeats = Repeats()
        self._same: dict[int, tuple[Place, float]] = {}
        """By the id of a function's code, which ``_repeats`` keeps."""

    def add(self, frames: list[FrameType], spent: float) -> None:
        """Count a look: frames from the innermost on up to that which fetches a batch's samples."""
        self._looks += 1
        self._total += spent
        for at, again in self._repeats.add(frames, spent):
            code = id(frames[at].f_code)
            place, took = self._same.get(code) or (origin(frames, at), 0.0)
            self._same[code] = place, took + again

    def summary(self) -> dict[str, Any]:
        """Return the field ``fetch_repeat`` of ``Recorded``: the function that took most, of all time in which batches are made."""
        # Of one that does nothing but call another the caller is told: it came last.
        places = list(self._same.values())
        place, took = max(reversed(places), key=lambda of: of[1], default=(("", 0, ""), 0.0))
        if self._looks < _LEAST_LOOKS or took < _LEAST_SHARE * self._total:
            return {}
        file, line, function = place
        share = round(min(took / self._total, 1.0), 3)
        return {"fetch_repeat": WorkerLine(share=share, function=function, file=file, line=line)}

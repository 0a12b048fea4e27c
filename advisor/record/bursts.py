"""Bursts of an optimizer's steps: several in a row, and behind them other work, in each iteration of a loop further out.

Reinforcement learning collects and then updates a number of times; a GAN steps its critic several times for one step of its
generator; an epoch is trained and then validated. Bursts are told from the times between an optimizer's steps alone, or where other
optimizers step between, from that. The iteration is what a step should be where much of the time lies between the bursts: an
optimizer's step would then be a small part of the program. Where little lies between, as at the end of an epoch, it should not.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from itertools import pairwise
from typing import NamedTuple

SHARE, SHARE_OF_OTHERS = 1 / 3, 0.1
"""Share of the time that lies between the bursts from which on an iteration is the step: half as much as the bursts take. A tenth
will do where other optimizers step there: one step of theirs ends an iteration."""
_ABOVE = 2.0
"""Times the usual interval from which on an interval may lie between two bursts."""
_CLEAR = 4.0
"""Times the usual interval from which on it is no chance that intervals are long at equal distances."""
_SEPARATE = 3.0
"""Times the longer intervals within bursts that those between are at the least, where bursts differ in length, on either side of the
bound between them."""
_SMALL, _SURE, _MORE, _UNEQUAL = 4, 2, 3, 4
"""Steps of a burst up to which more bursts have to be alike; bursts that have to be, and more; bursts that tell of unequal ones."""
_RECENT, _FAR = 64, 64
_LEAST = 3
"""Intervals from which on it is known which are usual."""


class Iteration(NamedTuple):
    """An iteration of a loop around bursts: ``optimizer`` takes ``steps`` in a burst, None where their number differs.

    Bursts begin with a step that comes more than ``apart`` seconds behind the one before it. ``seconds`` is the median of the last
    iterations, ``share`` the part of them between bursts, ``others`` whether other optimizers step there. ``ends`` are the bursts'
    last steps, counted backwards from the latest step of this optimizer, which is 0; it is the first of a burst.
    """

    optimizer: int
    steps: int | None
    apart: float
    seconds: float
    share: float
    others: bool
    ends: tuple[int, ...] = ()

    @property
    def worthwhile(self) -> bool:
        """True where so much lies between bursts that the iteration should be the step."""
        return self.share >= (SHARE_OF_OTHERS if self.others else SHARE)


class _Far(NamedTuple):
    """A step that may begin a burst: its number, the seconds since the step before, when it was, and whether others stepped between.

    The first of all has no step before it: its ``interval`` is None.
    """

    number: int
    interval: float | None
    at: float
    others: bool


class Bursts:
    """Told of the steps of one optimizer, named by a number, it finds the iterations that hold them."""

    def __init__(self, optimizer: int) -> None:
        self.optimizer = optimizer
        self.found: Iteration | None = None
        """The iterations found last."""
        self.count = 0
        """Steps so far."""
        self._last: float | None = None
        self._recent: deque[tuple[float, bool]] = deque(maxlen=_RECENT)
        self._far: deque[_Far] = deque(maxlen=_FAR)

    def stepped(self, now: float, *, others: bool) -> Iteration | None:
        """Note a step at *now* s, *others*: after one of another optimizer; return the iterations once this step begins one."""
        number, last = self.count, self._last
        self.count, self._last = number + 1, now
        if last is None:
            if not number:
                self._far.append(_Far(number, None, now, others=False))
            return None
        interval = now - last
        self._recent.append((interval, others))
        far = others or interval > _ABOVE * self.usual or len(self._recent) <= _LEAST
        if not far:
            return None
        self._far.append(_Far(number, interval, now, others))
        found = self._look()
        self.found = found or self.found
        return found

    def interrupt(self) -> None:
        """Forget when steps were: what comes next is not timed like them."""
        self._last = None
        self._far.clear()

    @property
    def usual(self) -> float:
        """Seconds between two steps of a burst, as the shorter ones are; 0.0 before any."""
        intervals = sorted(interval for interval, _ in self._recent)
        return intervals[len(intervals) // 4] if intervals else 0.0

    def _look(self) -> Iteration | None:
        """Return the iterations, if the latest step begins one.

        What lies between bursts is longer than all else, but for chances; how many of the longest intervals those are is tried.
        """
        others = any(far.others for far in self._far)
        first = [far for far in self._far if far.interval is None]
        rest = [far for far in self._far if far.interval is not None and (far.others or not others)]
        longest = sorted(rest, key=lambda far: far.interval or 0.0, reverse=True)
        latest = longest.index(self._far[-1]) + 1 if self._far[-1] in longest else len(longest) + 1
        for most in [len(longest)] if others else range(max(latest, _SURE), len(longest) + 1):
            begun = sorted([*first, *longest[:most]])
            alike = self._alike(list(pairwise(begun)), others=others)
            if alike:
                return self._iteration(alike, others=others)
        return None

    def _iteration(self, alike: list[tuple[_Far, _Far]], *, others: bool) -> Iteration:
        lengths = {after.number - before.number for before, after in alike}
        least = min((after.interval or 0.0) for _, after in alike)
        inside = [one for one, other in self._recent if (not other if others else one < least)]
        each = statistics.median(inside) if inside else self.usual
        spans = [after.at - before.at for before, after in alike]
        between = sum(max((after.interval or 0.0) - each, 0.0) for _, after in alike)
        return Iteration(
            self.optimizer,
            lengths.pop() if len(lengths) == 1 else None,
            math.sqrt(each * least),
            statistics.median(spans),
            between / max(sum(spans), 1e-9),
            others,
            tuple(self.count - far.number for far in (alike[0][0], *(after for _, after in alike)) if far.number),
        )

    def _alike(self, bursts: list[tuple[_Far, _Far]], *, others: bool) -> list[tuple[_Far, _Far]]:
        """Return the last bursts where they are no chance: equal ones, or unequal ones that are far apart."""
        if not bursts:
            return []
        lengths = [after.number - before.number for before, after in bursts]
        least = min((after.interval or 0.0) for _, after in bursts)
        sure = others or lengths[-1] > _SMALL or least > _CLEAR * self.usual
        enough = _SURE if sure else _MORE
        if lengths[-1] > 1 and len(bursts) >= enough and len(set(lengths[-enough:])) == 1:
            same = next((at for at, length in enumerate(reversed(lengths)) if length != lengths[-1]), len(lengths))
            return bursts[-same:]
        inside = sorted(one for one, other in self._recent if not other and one < least)
        longer = inside[len(inside) * 9 // 10] if inside else least
        if not others and len(bursts) >= _UNEQUAL and min(lengths[-_UNEQUAL:]) > 1 and least > _SEPARATE**2 * longer:
            return bursts[-_UNEQUAL:]
        return []

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
_CLEAR = 10.0
"""Times the usual interval from which on it is no chance that intervals are long at equal distances."""
_SEPARATE, _SIMILAR = 4.0, 3.0
"""Times the longer intervals within bursts that those between are at the least, where bursts differ in length, and by how much
these differ at most."""
_SMALL, _SURE, _MORE, _MOST, _UNEQUAL = 4, 2, 3, 6, 4
"""Steps of a burst up to which more bursts have to be alike; bursts that have to be, if all is clear, if not, and of few steps if
not; bursts that tell of unequal ones."""
_MAJORITY = 0.6
"""Part of the bursts that are equal where they are no chance."""
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
    """A step that may begin a burst: its number, when it was, the seconds since the step before, and whether others came between.

    Of the first of all ``interval`` is None.
    """

    number: int
    interval: float | None
    at: float
    others: bool


class Bursts:
    """Told of the steps of one optimizer, named by a number, it finds the iterations that hold them."""

    def __init__(self, optimizer: int) -> None:
        self.optimizer = optimizer
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
        interval = max(now - last, 0.0)
        self._recent.append((interval, others))
        tells = others and not self._alternates
        if not tells and interval <= _ABOVE * self.usual and len(self._recent) > _LEAST:
            return None
        self._far.append(_Far(number, interval, now, others))
        return self._look()

    def interrupt(self) -> None:
        """Forget when steps were: what comes next is not timed like them."""
        self._last = None
        self._far.clear()

    @property
    def usual(self) -> float:
        """Seconds between two steps of a burst, as the shorter ones are; 0.0 before any."""
        intervals = sorted(interval for interval, _ in list(self._recent))  # another thread may note a step meanwhile
        return intervals[len(intervals) // 4] if intervals else 0.0

    @property
    def _alternates(self) -> bool:
        """True where another optimizer stepped before each of the last steps, as a critic before an actor: that tells no bursts."""
        return all(other for _, other in self._recent)

    def _look(self) -> Iteration | None:
        """Return the iterations, if the latest step begins one.

        What lies between bursts is longer than all else, but for chances; how many of the longest intervals those are is tried.
        Where other optimizers step between some steps and not between others, that is what tells.
        """
        others = any(far.others for far in self._far) and not self._alternates
        if others and not self._far[-1].others:
            return None
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
        """Return the last bursts where they are no chance: equal ones as most are, or unequal ones that are far apart."""
        if not bursts:
            return []
        lengths = [after.number - before.number for before, after in bursts]
        least = min((after.interval or 0.0) for _, after in bursts)
        enough = self._enough(lengths[-1], least, others=others)
        same = next((at for at, length in enumerate(reversed(lengths)) if length != lengths[-1]), len(lengths))
        if lengths[-1] > 1 and same >= max(enough, math.ceil(_MAJORITY * len(lengths))):
            return bursts[-same:] if others or self._stand_out(bursts[-same:]) else []
        return [] if others else self._unequal(bursts, least)

    def _enough(self, length: int, least: float, *, others: bool) -> int:
        """Return how many bursts of a *length* have to be equal, with intervals of *least* seconds and more between them."""
        clear, long = others or least > _CLEAR * self.usual, others or length > _SMALL
        if clear and long:
            return _SURE
        return _MORE if clear or long else _MOST

    def _unequal(self, bursts: list[tuple[_Far, _Far]], least: float) -> list[tuple[_Far, _Far]]:
        """Return the last *bursts* where they are far apart, in time *least* or more; none where they are not."""
        inside = sorted(one for one, _ in self._recent if one < least)
        longer = inside[len(inside) * 9 // 10] if inside else least
        last = bursts[-_UNEQUAL:]
        if len(last) < _UNEQUAL or any(after.number - before.number < 2 for before, after in last):
            return []
        longest = max((after.interval or 0.0) for _, after in last)
        return last if least > _SEPARATE * longer and longest < _SIMILAR * least else []

    def _stand_out(self, bursts: list[tuple[_Far, _Far]]) -> bool:
        """Tell whether the intervals between *bursts* are longer than all within them, but for chances."""
        begun = {far.number: far for pair in bursts for far in pair}
        within = sorted(
            (far.interval or 0.0)
            for far in self._far
            if bursts[0][0].number < far.number < bursts[-1][1].number and far.number not in begun
        )
        within = within[: len(within) - len(bursts) // 4]
        typical = statistics.median((after.interval or 0.0) for _, after in bursts)
        return not within or typical >= _ABOVE * within[-1]

"""Lives of large results: whether what operators make is thrown away, or may be read again by what no shape in its turn shows.

A state is picked from, and the next turn goes on with it; numpy reads what Python returned. Both need the whole. Three things show
that nothing does: the memory is given back before; or no operator of the next turn takes as much of that type without having made
it there, and Python is nowhere away from operators for as long as it takes to read so many bytes. On a GPU Python reads nothing
that no operator copied. Where ``advisor record`` watched a step, it saw whether that read a tensor of the step before and let go
of it: a state has gone on.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from msgspec import Struct

from advisor.frames.patterns.gathered import Memory
from advisor.frames.patterns.tree import Tree
from advisor.intervals import Ints, distinct
from advisor.roofline.types import SIZES, parse_type
from advisor.timeline.calls import BACKWARD

GONE, DOUBTFUL, KEPT = range(3)
_FASTEST = 50.0
"""Bytes a ns that numpy reads on one thread: sums, products and copies of 1 to 40 MB 2 to 64, on two cores."""
_LATER = 2
"""Makings of the same behind which a result that is still there is kept on purpose: a name is given another after one."""
_MOST = 20_000


class Life(Struct, eq=False):
    """A result of *size* numbers of type *word*, the last of *made*, by the nodes that make it and what it is made of.

    *picked* is when the last pick of it ends; *view*: that is a view, which holds the whole as long as there is a use of the part.
    *taken* is when an operator of the next turn begins that may take it, -1 without one. *alike* are equal for results that are
    made and picked in the same way.
    """

    made: list[int]
    size: int
    word: str
    picked: int
    view: bool
    taken: int
    alike: tuple[int, ...]
    again: int = -1
    """Time at which the next one of its kind is made; -1 for the last one."""
    later: int = -1
    """The same of the one with which it is kept on purpose."""
    alone: bool = True
    """It is made and picked in this way once in its step."""


def judge(tree: Tree, lives: list[Life]) -> list[int]:
    """Tell of each result what becomes of it: GONE, DOUBTFUL or KEPT; of those alike, what becomes of most."""
    host = tree.host
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for place in sorted(range(len(lives)), key=lambda at: lives[at].picked):
        groups[lives[place].alike].append(place)
    for places in groups.values():
        ends = [int(host.end[lives[place].made[-1]]) for place in places]
        steps = tree.context.recording.host_step_of(np.array([lives[place].picked for place in places]))
        alone = len(distinct(steps)) == len(steps)
        for turn, place in enumerate(places):
            lives[place].alone = alone
            lives[place].again, lives[place].later = (
                ends[turn + many] if turn + many < len(ends) else -1 for many in (1, _LATER)
            )
    judged = _Judge(tree)
    out = [DOUBTFUL] * len(lives)
    for places in groups.values():
        # What becomes of the last ones is not all recorded.
        known = [place for place in places if lives[place].later >= 0] or places[:-1] or places
        verdicts = sorted(judged.verdict(lives[place]) for place in known[:_MOST])
        for place in places:
            out[place] = verdicts[len(verdicts) // 2]
    return out


class _Judge:
    """Signs in a recording of what becomes of results."""

    def __init__(self, tree: Tree) -> None:
        self.tree, self.host, ledger = tree, tree.host, tree.context.ledger
        self.memory = Memory(tree)
        recorded = tree.context.metadata.recorded
        told = None if recorded is None else recorded.carried
        self.carried = None if told is None else {(each.elements, each.bytes) for each in told}
        host = np.flatnonzero(ledger.through("host")) if tree.context.cpu_program else np.zeros(0, np.int64)
        self.begin, self.end = ledger.start_ns[host], ledger.end_ns[host]

    def verdict(self, life: Life) -> int:
        """Tell what becomes of one result, as far as that was recorded."""
        freed = [self.memory.freed(node, life.size, life.word) for node in life.made]
        last = next((time for time in reversed(freed) if time is not None), None)
        if last is not None and 0 <= life.later < last and not life.view:
            return KEPT
        there = max((time for time in freed if time is not None), default=-1)
        if last is None or there < 0:
            there = int(np.iinfo(np.int64).max)
        width = SIZES.get(parse_type(life.word) or "", 4)
        if 0 <= life.taken < there:
            if self.carried is None or not life.alone:
                return DOUBTFUL
            if (life.size, width) in self.carried:
                return KEPT
        until = min(there, life.again if life.again >= 0 else self._end_of_step(life.picked))
        if self._in_backward(life.made[-1], until):
            return GONE  # no name held it by then
        return DOUBTFUL if self._longest(life.picked, until) * _FASTEST >= life.size * width else GONE

    def _end_of_step(self, when: int) -> int:
        recording = self.tree.context.recording
        step = int(recording.host_step_of(np.array([when]))[0])
        return int(recording.steps[step].end if 0 <= step < len(recording.steps) else recording.extent[1])

    def _in_backward(self, node: int, when: int) -> bool:
        at = int(self.host.innermost(int(self.host.thread[node]), np.array([when]))[0])
        return at >= 0 and int(self.host.attributes.phase[at]) == BACKWARD

    def _longest(self, begin: int, end: int) -> int:
        """ns of the longest stretch between two times in which Python is in no operator."""
        low, high = np.searchsorted(self.end, begin, side="right"), np.searchsorted(self.begin, end)
        if high <= low:
            return 0
        stretch: Ints = np.minimum(self.end[low:high], end) - np.maximum(self.begin[low:high], begin)
        return int(stretch.max())

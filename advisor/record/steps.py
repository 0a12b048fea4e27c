"""Steps of a program that does not mark them: found from its batches, optimizer steps and calls before anything is recorded.

A step of a training loop ends with the optimizer's step; where batches of a loader feed it, the next one begins as the
loop asks for its next batch, so that the wait for a batch falls into the step that the batch feeds. Without an optimizer a
step is a batch, and without a loader a turn of the outermost loop around the calls of modules that goes on turning: one that
calls a decoder for each token stands in one that takes the next prompt. Where that comes to the same, it is a call of the model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

OPTIMIZER, BATCHES, CALLS, TURNS = UNITS = ("optimizer", "batches", "calls", "turns")
# Batches without a backward pass, in a program that has an optimizer: an evaluation before the training, up to this many.
# Beyond it no training follows, or it runs where nobody sees it, as in the replays of a CUDA graph.
PATIENCE = 50
# Steps of one other optimizer, while the first takes none, after which that one is the program's: the first prepared something (a
# teacher, an encoder). Critics of a GAN take five or so between two steps of the generator.
SUCCESSION = 10
# Calls and seconds for which an outer loop that has not turned yet is waited for, until both are over: that of the epochs may turn
# once in an hour, and a short program must be recorded, too. One that has turned is waited for longer.
WAIT, LONGEST_WAIT = (40, 1.0), (1000, 10.0)
# Seconds without a step of the optimizer, at the least, after which the training may have ended.
SHORTEST_QUIET = 1.0
# Seconds that a step may take longer in which the recorder looks at each operator.
LONGEST_WATCHED = 10.0

Stamp = TypeVar("Stamp")


class Steps(Generic[Stamp]):
    """Told of batches, optimizer steps, backward passes and calls, it calls *boundary* where a step begins.

    The first *skip* steps are watched only, and further ones while *hold* is true: from them it is decided what a step is,
    unless *unit* says so. While *watched* is true the recorder looks at each operator, and a step takes longer. *trained* is
    called in place of all else where an optimizer steps, if the steps are of something behind a training. *clock* stamps
    the boundaries of that time, *now* tells the time in s. Attributes: ``unit``, one of :data:`UNITS`, None while undecided;
    ``loop``, whose turns are the steps, if they are; ``stamps``, of the boundaries before the first call of *boundary*;
    ``backwards``, all there were; ``trains``, set once an optimizer exists; ``first_at``, when the first sign of a step was;
    ``trained_until``, when an optimizer last stepped.
    """

    def __init__(
        self,
        skip: int,
        boundary: Callable[[], None],
        clock: Callable[[], Stamp],
        unit: str | None = None,
        now: Callable[[], float] = time.monotonic,
        hold: Callable[[], bool] = lambda: False,
        watched: Callable[[], bool] = lambda: False,
        trained: Callable[[], None] | None = None,
    ) -> None:
        self.skip = max(skip, 1)
        self.unit = unit
        self.trains = False
        self.backwards = 0
        self.has_others = False  # whether another optimizer than the first took steps
        self.fed: bool | None = None  # whether a loader's batches feed the optimizer's steps; None: not decided
        self._boundary = boundary
        self._clock = clock
        self._now = now
        self._hold = hold
        self._watched = watched
        self._trained = trained
        self.first_at: float | None = None
        self._successor: Callable[[], Steps[Stamp]] | None = None
        self._begun = False
        self._marker: int | None = None
        self._pending = False
        self._open = False
        self._trained_at = 0  # batches by the latest sign of training
        self._counts = dict.fromkeys(UNITS, 0)
        self._calls: dict[int, int] = {}
        self.loop: Hashable | None = None  # the loop whose turns are the steps
        self._turns: dict[Hashable, list[Stamp]] = {}  # by loop, when its turns began
        self._others: dict[int, list[Stamp]] = {}  # stamps of other optimizers' steps since the last of the first
        self.trained_until: float | None = None  # when an optimizer stepped last, or the recording of a step was done
        self._paused = 0.0  # seconds that recording took, the steps themselves left out
        self._stamps: dict[str, list[Stamp]] = {"fed": [], **{unit: [] for unit in UNITS}}

    @property
    def stamps(self) -> list[Stamp]:
        """When the steps that were skipped began, by the boundaries that the recorded ones have too."""
        if self.unit is None:
            return []
        return self._stamps["fed" if self.unit == OPTIMIZER and self.fed else self.unit]

    def count(self, unit: str) -> int:
        """Count *unit* so far: batches, steps of the first optimizer, calls."""
        return self._counts[unit]

    @property
    def trained_for(self) -> float:
        """Seconds from the first sign of a step to the latest step of an optimizer, without recording; 0.0 without one."""
        if self.trained_until is None or self.first_at is None:
            return 0.0
        return max(self.trained_until - self.first_at - self._paused, 0.0)

    @property
    def quiet(self) -> bool:
        """True once no optimizer has stepped for longer than the training took: it has ended, and something else goes on."""
        if self.trained_until is None or self._counts[OPTIMIZER] < 2 or self.unit not in (None, OPTIMIZER):
            return False
        longer = LONGEST_WATCHED if self._watched() else 0.0
        return self._now() - self.trained_until > max(self.trained_for, SHORTEST_QUIET) + longer

    def follow(self, successor: Callable[[], Steps[Stamp]] | None) -> None:
        """Have *successor* called at the first sign that is stronger than the one that these steps were found by.

        What it returns is told of that sign. Behind a training that has ended (:attr:`quiet`) a batch or a call is one, too.
        """
        self._successor = successor

    @property
    def follows(self) -> bool:
        """True while other steps may come in place of these."""
        return self._successor is not None

    def batch(self) -> None:
        """Note that the loop asks for its next batch."""
        if self._successor is not None and (self.unit in (CALLS, TURNS) or self.quiet):
            self._successor().batch()
            return
        if self._open:
            # The step began as the iterator before was found exhausted.
            self._open = False
            return
        self._count(BATCHES)
        if self._pending:
            self._pending = False
            self._stamp("fed")
            if self.fed:
                self._begin()
        if self.unit is None and self._is_inference():
            self.unit = BATCHES
        if self.unit == BATCHES and self._counts[BATCHES] > self.skip:
            self._begin()

    def exhausted(self) -> None:
        """Note that the batch asked for is none: the iterator is at its end."""
        self._open = True

    def stepped(self, optimizer: int) -> None:
        """Note a step of an optimizer, named by a number. Of several that take turns, the first that steps marks the steps."""
        if self._trained is not None:
            self._trained()
            return
        if self._successor is not None and self.unit not in (None, OPTIMIZER):
            self._successor().stepped(optimizer)
            return
        self._trained_at = self._counts[BATCHES]
        self.trained_until = self._now()
        if self._marker is None:
            self._marker = optimizer
        if optimizer != self._marker and not self._succeeds(optimizer):
            self.has_others = True
            return
        self._others.clear()
        self._count(OPTIMIZER)
        steps = self._counts[OPTIMIZER]
        if self.unit is None and steps >= self.skip:
            self.unit = OPTIMIZER
        if self.unit == OPTIMIZER and self.fed is None and steps >= self.skip:
            self.fed = self._counts[BATCHES] >= steps
        self._pending = True
        if self.unit == OPTIMIZER and self.fed is False:
            self._begin()

    def trains_on(self) -> None:
        """Note that an optimizer stepped, where its steps are recorded already."""
        self.trained_until = self._now()

    def _succeeds(self, optimizer: int) -> bool:
        """Make another optimizer the one that marks the steps, once it alone has taken :data:`SUCCESSION` of them."""
        if self._begun:
            return False
        stamps = self._others.setdefault(optimizer, [])
        if len(stamps) + 1 < SUCCESSION:
            stamps.append(self._clock())
            return False
        self._marker, self.has_others = optimizer, False
        self._counts[OPTIMIZER] = len(stamps)
        self._stamps[OPTIMIZER], self._stamps["fed"] = stamps.copy(), []
        return True

    def backward(self) -> None:
        """Note the begin of a backward pass."""
        self.backwards += 1
        self._trained_at = self._counts[BATCHES]

    def call(self, module: int, loops: Sequence[tuple[Hashable, bool]] = (), ahead: bool = False) -> None:
        """Note a call of a module, named by a number, while no other is running. The one first called *skip* times counts.

        *loops* are those that it runs inside, outermost first, and whether each turned since the call before. *ahead*: whether
        the call is given one sample, and a loop around these is still to come, which may do this for one batch after another.
        """
        if self._successor is not None and self.quiet:
            self._successor().call(module, loops)
            return
        calls = self._calls[module] = self._calls.get(module, 0) + 1
        if self.loop is not None:
            self._turn(loops)
            return
        if self.first_at is None:
            self.first_at = self._now()
        for loop, turned in loops:
            if turned or loop not in self._turns:
                self._turns.setdefault(loop, []).append(self._clock())
        if self.unit == TURNS or (
            self.unit is None and calls >= self.skip and not self._counts[BATCHES] and not self.trains
        ):
            self._decide(loops, ahead)
            if self.loop is not None:
                return
        if self._calls.get(self.root, 0) == calls and self.root == module:
            self._count(CALLS)
            if self.unit == CALLS and calls > self.skip:
                self._begin()

    def _turn(self, loops: Sequence[tuple[Hashable, bool]]) -> None:
        if any(turned for loop, turned in loops if loop == self.loop):
            self._count(TURNS)
            self._begin()

    def _decide(self, loops: Sequence[tuple[Hashable, bool]], ahead: bool) -> None:
        """Choose the loop whose turns are the steps, or calls; nothing yet where an outer loop may still turn."""
        waited = sum(self._calls.values()), self._now() - (self.first_at or 0.0)
        # What fills a gallery or an index comes before that loop. A short program may have nothing but these calls.
        if ahead and self.unit is None and all(spent < enough for spent, enough in zip(waited, WAIT, strict=True)):
            return
        for loop, turned in loops:
            turns = len(self._turns[loop])
            if turns >= self.skip:
                if turns == max(self._calls.values()) and self.unit is None:
                    break  # each turn calls each module once
                if turned:
                    self.unit, self.loop = TURNS, loop
                    self._stamps[TURNS] = self._turns[loop]
                    self._turns = {}
                    self._counts[TURNS] = turns
                return
            if any(spent < enough for spent, enough in zip(waited, WAIT if turns == 1 else LONGEST_WAIT, strict=True)):
                return
        if self.unit is None:
            self.unit, self._turns = CALLS, {}

    @property
    def waits(self) -> bool:
        """True while calls might be steps, and are not taken for them, as a loop around them turns."""
        return (
            self.unit is None
            and any(len(stamps) > 1 for stamps in self._turns.values())
            and self.count(CALLS) > self.skip
        )

    @property
    def root(self) -> int:
        """The number of the module that was called most often, the first of several; -1 without calls."""
        return max(self._calls, key=lambda module: self._calls[module], default=-1)

    def _is_inference(self) -> bool:
        batches = self._counts[BATCHES]
        if not self.trains:
            return batches > self.skip
        return batches > self._trained_at + self.skip + PATIENCE

    def _count(self, unit: str) -> None:
        if self.first_at is None:
            self.first_at = self._now()
        self._counts[unit] += 1
        self._stamp(unit)

    def _stamp(self, key: str) -> None:
        if not self._begun:
            self._stamps[key].append(self._clock())

    def _begin(self) -> None:
        if not self._begun and self._hold():
            return
        self._begun = True
        before = self._now()
        self._boundary()
        if self.trained_until is not None:
            now = self._now()
            self._paused += now - before
            if self.unit == OPTIMIZER:
                self.trained_until = now

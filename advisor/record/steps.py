"""Steps of a program that does not mark them: found from its batches, optimizer steps and calls before anything is recorded.

A step of a training loop ends with the optimizer's step; where batches of a loader feed it, the next one begins as the
loop asks for its next batch, so that the wait for a batch falls into the step that the batch feeds. Without an optimizer a
step is a batch, and without a loader a turn of the outermost loop around the calls of modules that goes on turning: one that
calls a decoder for each token stands in one that takes the next prompt. Where that comes to the same, it is a call of the model.
Where an optimizer's steps come in bursts with much other work between them, a step is an iteration of the loop around: from the end
of one burst to the end of the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from advisor.record.bursts import Bursts, Iteration
from advisor.record.pauses import Pauses

OPTIMIZER, BATCHES, CALLS, TURNS, ITERATIONS = UNITS = ("optimizer", "batches", "calls", "turns", "iterations")
# Turns of a loop around tensor operators, where nothing else is seen; told by :mod:`advisor.record.plain`.
LOOPS = "loops"
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
# Seconds of an iteration up to which it is recorded as a step, and in all which are watched before; iterations that are at least.
LONGEST_ITERATION, LONGEST_LEAD, LEAST_LEAD = 10.0, 5.0, 3
# Where iterations are the steps, the training has ended when nothing steps for so many times as long as one takes: meanwhile they
# are recorded.
PATIENCE_OF_ITERATIONS = 10.0
# Times the usual time from step to step for which several optimizers are watched: whether one steps more often than another.
MOST_IN_TURN = 40.0
# Steps of one optimizer of which it is watched whether they come in bursts.
MOST_WATCHED = 5000

Stamp = TypeVar("Stamp")


class Steps(Generic[Stamp]):
    """Told of batches, optimizer steps, backward passes and calls, it calls *boundary* where a step begins.

    The first *skip* steps are watched only, and further ones while *hold* is true: from them it is decided what a step is,
    unless *unit* says so. While *watched* is true the recorder looks at each operator, and a step takes longer. *trained* is
    called in place of all else where an optimizer steps, if the steps are of something behind a training. *clock* stamps
    the boundaries of that time, *now* tells the time in s, *working* the same without waits for a core, and *fetched* the seconds
    of waiting for batches so far. Of iterations *burst* is how many steps the optimizer takes in one, None where that is to be
    found. *busy* tells that steps take no usual time: they are recorded, or a device works behind them; *fits* whether iterations
    that were found may be the steps.
    Attributes: ``unit``, one of :data:`UNITS`, None while undecided;
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
        working: Callable[[], float] | None = None,
        fetched: Callable[[], float] = lambda: 0.0,
        burst: int | None = None,
        busy: Callable[[], bool] = lambda: False,
        fits: Callable[[Iteration], bool] = lambda iteration: iteration.worthwhile,
    ) -> None:
        self.skip = max(skip, 1)
        self.unit = unit
        self.burst = burst
        self._found: dict[int, Iteration] = {}  # by optimizer, the iterations around its bursts, steps or not
        # When an optimizer stepped last, or the recording of a step was done, by the clock of quiet.
        self._worked_last = 0.0
        # When an optimizer stepped last, else when it was made, by the clock of bursts; None: steps took no usual time.
        self._stepped_at: float | None = None
        self._clock_of_bursts = (0.0, 0.0)
        self._pauses = Pauses()
        self.backwards = 0
        self.has_others = False  # whether another optimizer than the first took steps
        self.fed: bool | None = None  # whether a loader's batches feed the optimizer's steps; None: not decided
        self._boundary = boundary
        self._clock = clock
        self._now = now
        self._working = working or now
        self._fetched = fetched
        self._hold = hold
        self._watched = watched
        self._trained = trained
        self._busy, self._fits = busy, fits
        self._bursts: dict[int, Bursts] | None = {} if unit is None or (unit == ITERATIONS and burst is None) else None
        self._stepped_last: int | None = None  # the optimizer
        self._in_row = 0  # steps that it took with no other between
        self._is_sure = False  # whether the optimizer of the iterations took a whole burst of them in a row
        self._in_burst = 0  # steps of the burst so far
        self._before: float | None = None  # when the optimizer of the iterations stepped last
        self._apart = 0.0
        self._watched_from: float | None = None
        self._misplaced: set[bool] = set()  # where bursts that should be equal began, and did not
        self._on_iterations: Callable[[Iteration], Steps[Stamp]] | None = None
        self.first_at: float | None = None
        self._successor: Callable[[], Steps[Stamp]] | None = None
        self._begun = False
        self._marker: int | None = None
        self._pending = False
        self._open = False
        self._trained_at = 0  # batches by the latest sign of training
        self._counts = dict.fromkeys((*UNITS, LOOPS), 0)
        self._calls: dict[int, int] = {}
        self.loop: Hashable | None = None  # the loop whose turns are the steps
        self._turns: dict[Hashable, list[Stamp]] = {}  # by loop, when its turns began
        self._others: dict[int, list[Stamp]] = {}  # stamps of other optimizers' steps since the last of the first
        self.trained_until: float | None = None  # when an optimizer stepped last, or the recording of a step was done
        self._paused = 0.0  # seconds that recording took, the steps themselves left out
        self._trains = False
        self._stamps: dict[str, list[Stamp]] = {"fed": [], **{unit: [] for unit in (*UNITS, LOOPS)}}

    @property
    def stamps(self) -> list[Stamp]:
        """When the steps that were skipped began, by the boundaries that the recorded ones have too."""
        if self.unit is None:
            return []
        return self._stamps["fed" if self.unit == OPTIMIZER and self.fed else self.unit]

    @property
    def trains(self) -> bool:
        """True once an optimizer exists."""
        return self._trains

    @trains.setter
    def trains(self, trains: bool) -> None:
        self._trains = trains
        if trains and self.trained_until is None:
            self._stepped_at = self._worked()
            self._pauses.begin(self._now())

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
        if self.trained_until is None or self._counts[OPTIMIZER] < 2 or self.unit not in (None, OPTIMIZER, ITERATIONS):
            return False
        longer = LONGEST_WATCHED if self._watched() else 0.0
        pause = self._pauses.no_end(self._usual)
        if self.unit == ITERATIONS and self.around is not None:
            pause = PATIENCE_OF_ITERATIONS * self.around.seconds
        # On a busy machine a pause takes longer, and is none.
        waited = min(self._now() - self.trained_until, self._working() - self._worked_last)
        return waited > max(self.trained_for, SHORTEST_QUIET, pause) + longer

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
        if self._successor is not None and (self.unit in (CALLS, TURNS, LOOPS) or self.quiet):
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
        if self._successor is not None and self.unit not in (None, OPTIMIZER, ITERATIONS):
            self._successor().stepped(optimizer)
            return
        self._trained_at = self._counts[BATCHES]
        if self._marker is None:
            self._marker = optimizer
        if self._in_iterations(optimizer):
            return
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

    def trains_on(self, optimizer: int) -> None:
        """Note that an optimizer stepped, where its steps are recorded already."""
        self._recorded_instead(self._note(optimizer))

    # ---- iterations around bursts of an optimizer's steps

    def look_for_iterations(self, found: Callable[[Iteration], Steps[Stamp]] | None) -> None:
        """Have *found* called where steps of an optimizer were recorded, and turn out to be parts of iterations to record.

        What it returns is told of the optimizer's step in place of these.
        """
        self._on_iterations = found

    @property
    def may_iterate(self) -> bool:
        """True while the end of a pause may be near: iterations that have begun to show would be recorded in place of these."""
        several = MOST_IN_TURN * self._usual if self._bursts and self.has_others else 0.0
        return self._pauses.may_end(self._now(), self._usual, several)

    @property
    def _usual(self) -> float:
        """Seconds between two steps of an optimizer in a burst; 0.0 where that is not known."""
        return min((bursts.usual for bursts in list((self._bursts or {}).values()) if bursts.usual), default=0.0)

    def _worked(self) -> float:
        """Tell the time by which bursts are told: without waits for a core, nor for batches, which workers make several at a time.

        It never goes back, where a wait for a batch was one for a core as well.
        """
        before, told = self._clock_of_bursts
        now = self._working() - self._fetched()
        self._clock_of_bursts = now, told + max(now - before, 0.0)
        return self._clock_of_bursts[1]

    @property
    def around(self) -> Iteration | None:
        """The iterations around the bursts of the optimizer that marks the steps, found last; None where none showed."""
        return None if self._marker is None else self._found.get(self._marker)

    def _in_iterations(self, optimizer: int) -> bool:
        """Note when an optimizer stepped; tell whether iterations around its bursts are the steps, or are from here on."""
        found = self._note(optimizer)
        if self.unit == ITERATIONS and (self.burst or self._apart):
            self._step_of_iteration(optimizer)
            return True
        if self._begun:
            return self._recorded_instead(found)
        if found is None or not self._is_step(found):
            return False
        self._count_iterations(found)
        return True

    def _note(self, optimizer: int) -> Iteration | None:
        """Note when an optimizer stepped; return the iterations around its bursts as this step begins one."""
        self.trained_until, self._worked_last = self._now(), self._working()
        last, self._stepped_last = self._stepped_last, optimizer
        self._in_row = self._in_row + 1 if last == optimizer else 1
        if self._bursts is None:
            return None
        try:
            return self._look_at_bursts(self._bursts, optimizer, last)
        except Exception:  # noqa: BLE001  (a program without bursts told is better than one that ends)
            self._bursts = None
            return None

    def _look_at_bursts(self, found: dict[int, Bursts], optimizer: int, last: int | None) -> Iteration | None:
        """Add a step to the bursts that were *found*, behind one of the *last* optimizer."""
        worked, before = self._worked(), self._stepped_at
        if self._busy():
            for bursts in found.values():
                bursts.interrupt()
            self._stepped_at = None
            return None
        self._stepped_at = worked
        if before is None:
            self._pauses.begin(self._now())
        else:
            self._pauses.note(worked - before, self._now(), first=last is None)
        bursts = found.setdefault(optimizer, Bursts(optimizer))
        iteration = bursts.stepped(worked, others=last is not None and last != optimizer)
        # A chance between two bursts makes equal ones look unequal.
        if iteration is not None and (
            iteration.steps or optimizer not in self._found or not self._found[optimizer].steps
        ):
            self._found[optimizer] = iteration
        if bursts.count > MOST_WATCHED:
            self._bursts = None
        return iteration

    def _is_step(self, found: Iteration) -> bool:
        """Tell whether iterations that were *found* are to be the steps."""
        return (self.unit in (None, OPTIMIZER) and self._fits(found)) or self.unit == ITERATIONS

    def _recorded_instead(self, found: Iteration | None) -> bool:
        """Have iterations that were *found* recorded in place of what was; tell whether they are."""
        if found is None or self._on_iterations is None or not self._is_step(found):
            return False
        later = self._on_iterations(found)
        if later is self:
            return False
        later.trained_until, later._worked_last = self.trained_until, self._worked_last
        later._count_iterations(found)
        return True

    def _count_iterations(self, found: Iteration) -> None:
        """Take for the steps the iterations that were *found*, with those of them that lie behind."""
        stamps = self._stamps[OPTIMIZER] if self._marker == found.optimizer else []
        self.unit, self.burst, self._apart, self._marker = ITERATIONS, found.steps, found.apart, found.optimizer
        self._bursts, self.fed, self._pending = None, False, False
        self._found[found.optimizer], self._is_sure = found, True
        # The step that began this burst is not stamped yet: the one before it is the last of the burst before.
        # Of unequal bursts the first step is what ends an iteration.
        back = found.ends if found.steps else [each - 1 for each in found.ends]
        ends = [stamps[-each] for each in back if 0 < each <= len(stamps)]
        self._stamps[ITERATIONS], self._counts[ITERATIONS] = ends, len(ends)
        self._stamps[OPTIMIZER], self._stamps["fed"] = [], []
        self._in_burst, self._before = 1, self._worked()
        self._watched_from = self._watched_from if ends else None
        if found.steps is None:
            self._end_iteration()

    def _step_of_iteration(self, optimizer: int) -> None:
        """Note a step of an optimizer where iterations are the steps: the last one of a burst ends one.

        Where bursts differ in length, the first one of the next burst does.
        """
        if self.burst and self._in_row == self.burst and not self._is_sure:
            self._marked_by(optimizer)
        if optimizer != self._marker:
            waiting = self._others.setdefault(optimizer, [])
            waiting.append(self._clock())
            if not self._begun and len(waiting) >= SUCCESSION * (self.burst or SUCCESSION):
                self._marker, self._in_burst = optimizer, 0
                self._others.clear()
            return
        self._others.clear()
        now, before = self._worked(), self._before
        self._before = now
        self._counts[OPTIMIZER] += 1
        self._in_burst += 1
        begins = before is not None and now - before > self._apart
        if self.burst and not self._begun and self.around is not None and not self.around.others:
            self._doubt(begins)
        if self.burst is None:
            if begins:
                self._end_iteration()
        elif self._in_burst >= self.burst:
            self._in_burst = 0
            self._end_iteration()

    def _marked_by(self, optimizer: int) -> None:
        """Let the optimizer mark the iterations that takes as many steps in a row as a burst has: another may step before it."""
        self._is_sure = True
        if optimizer == self._marker or self._begun:
            return
        self._marker, self._in_burst, self._watched_from = optimizer, (self.burst or 1) - 1, None
        self._stamps[ITERATIONS], self._counts[ITERATIONS] = [], 0
        self._counts[OPTIMIZER] = self._in_burst

    def _doubt(self, begins: bool) -> None:
        """Take bursts for unequal where one begins within what should be a burst, and none where one should."""
        if begins == (self._in_burst == 1):
            return
        self._misplaced.add(begins)
        if len(self._misplaced) > 1:
            self.burst, self._watched_from = None, None
            self._stamps[ITERATIONS], self._counts[ITERATIONS] = [], 0

    def _end_iteration(self) -> None:
        self._count(ITERATIONS)
        now = self._now()
        if self._watched_from is None:
            self._watched_from = now
        watched = self._counts[ITERATIONS] - 1
        if watched >= self.skip or (watched >= LEAST_LEAD and now - self._watched_from > LONGEST_LEAD):
            self._begin()
            self._before = self._worked()

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
        if self._successor is not None and (self.unit == LOOPS or self.quiet):
            self._successor().call(module, loops)
            return
        if self.unit == LOOPS:
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

    # ---- turns of a loop around tensor operators

    def take_loop(self, stamps: list[Stamp], seconds: float) -> None:
        """Take the turns of a loop for steps, at the begin of one: *stamps* are of those before, in the last *seconds*."""
        self.unit = LOOPS
        self.first_at = self._now() - seconds
        self._counts[LOOPS], self._stamps[LOOPS] = len(stamps), stamps
        if len(stamps) > self.skip:
            self._begin()

    def turned(self) -> None:
        """Note the begin of another turn of that loop."""
        self._count(LOOPS)
        if self._counts[LOOPS] > self.skip:
            self._begin()

    @property
    def signs(self) -> tuple[int, ...]:
        """Counts of all that may tell of steps."""
        return (*self._counts.values(), sum(self._calls.values()))

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
            if self.unit in (OPTIMIZER, ITERATIONS):
                self.trained_until, self._worked_last = now, self._working()

"""One recording: hooks listen, steps are found, passes run, a file is written. The same for a script and for a block of code."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from advisor.reading.program_settings import Recorded, reach_between
from advisor.record import NONE, SECOND_PASS, environment, load, memory, overhead, places, wording
from advisor.record.bursts import Iteration
from advisor.record.hooks import Hooks
from advisor.record.leaving import leave
from advisor.record.passes import STACK_STEPS, WARMUP, Passes
from advisor.record.plain import Plain
from advisor.record.ranks import Ranks, exchanging, ranks, settle
from advisor.record.settings import Settings
from advisor.record.stamps import Stamp, growth, milliseconds, take, waits
from advisor.record.steps import BATCHES, CALLS, ITERATIONS, LONGEST_ITERATION, LOOPS, OPTIMIZER, TURNS, Steps
from advisor.record.training import Training
from advisor.record.watching import Watching
from advisor.record.writing import amend, write
from advisor.results.version import __version__


@dataclass(frozen=True)
class Options:
    """Options of a recording: *skip* steps are left out, *steps* are recorded, and then stacks in the way *stacks* names."""

    path: Path
    steps: int = 5
    skip: int = 5
    stacks: str = SECOND_PASS
    unit: str | None = None
    stop: bool = False


def _written_ns(path: Path) -> int:
    """Return when a file was last written; -1 where there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return -1


_LOOK_S = 0.25
"""Seconds between two looks at whether the training has ended."""
_LONGEST_HOLD_S = 20.0
"""Seconds from the first sign of a step for which steps that workers' ready batches feed are left out."""
_LEAST = 3
"""Whole steps from which a second recording stands for the first."""
_RECORDED_S = 20.0
"""Seconds of iterations, as they are without the profiler, that a pass records at most."""
_UNRECORDED = 0.1
"""Share of the time between bursts of steps from which on it is said that it was not recorded."""
_BYTES_A_SECOND = 600_000_000
"""Memory that torch takes to end a pass, for each second of a program of small operators: 60,000 of them, and 10 kB each."""
_ENOUGH = (40, 1.0)
"""Calls and seconds after which a program that is to stop once it is recorded is taken to do nothing but call."""


@dataclass(frozen=True)
class _Earlier:
    """A recording that was written, of steps by a weaker sign: *unit*, and the seconds for which its loop ran."""

    unit: str
    seconds: float


class Session:
    """Records into ``options.path``. *say* is told what became of it, line by line, in words for the user.

    ``written`` is the file once there is one. What goes wrong in here is said, ends the recording, and never the program.

    Calls of a model may be a calibration, or a look at a checkpoint, and batches an evaluation: what the program is for comes
    later. So steps found by them are recorded, and then those of a loader, or of an optimizer, in their place. And where an
    optimizer's steps have ended, and what follows outlasts them, the calls or batches of that.
    """

    def __init__(self, options: Options, say: Callable[[str], None], *, finds_steps: bool = True) -> None:
        self.options = options
        self.written: Path | None = None
        self._say = say
        self._settings = Settings()
        self._working = load.working_clock()
        self._finds_steps = finds_steps
        self._earlier: _Earlier | None = None
        self._plain: Plain | None = None
        if finds_steps and options.unit is None:
            self._plain = Plain(torch, self._needs_loop, self._stamp, self._take_loop, self._turned, self._loop_ended)
        self._training = Training(options.stop)
        self._anew()
        self._hooks = Hooks(self._settings, self._steps, self._on_other_profiler)
        self._target = options.path.absolute()  # the program may change its working directory
        self._pid = os.getpid()
        self._had_other_profiler = False
        self._marks: list[Stamp] = []
        self._over = self._ending = False
        self._at_work = 0  # what is asked for meanwhile, from another thread, must not begin amid it
        self._kept: Passes | None = None  # what a recording was written of that another one may follow
        self._kept_at = 0.0
        self._began_at: float | None = None  # when what is recorded now began, where a training had ended before it
        self._trained_before = 0.0  # seconds of a training that was taken for ended
        self._more = 0  # steps seen since
        self._closed = threading.Event()
        self._ranks: Ranks | None = None  # which end together
        self._left_to: dict[Path, int] = {}
        """Files that ranks write in place of this session, and when each was last written before they began."""

    def _anew(self, unit: str | None = None, burst: int | None = None) -> None:
        """Begin with nothing recorded, and look for steps: by *unit*, or by whatever tells of them.

        Of iterations *burst* is how many steps of an optimizer each holds.
        """
        self._passes = Passes(self.options.steps, self.options.stacks, self._finish, self._around)
        if self._passes.lines is not None and self._plain is not None:
            self._passes.lines.turning = self._plain.turning
        self._steps: Steps[Any] | None = None
        if self._finds_steps:
            self._steps = Steps(
                self.options.skip,
                self._boundary,
                self._stamp,
                unit or self.options.unit,
                hold=self._held_ready,
                watched=lambda: self._watching.watches,
                working=self._working,
                fetched=lambda: self._hooks.waited,
                burst=burst,
                busy=self._is_busy,
                fits=self._fits,
            )
            if self.options.unit is None and unit is None:
                self._steps.follow(self._record_again)
                self._steps.look_for_iterations(self._record_iterations)
        self._unprofiled: tuple[float, ...] = ()
        self._waits: tuple[float, ...] = ()
        self._growth: int | None = None
        self._backwards = [0, 0]
        self._updates: list[int] = []  # steps of optimizers before the recorded steps, and to their end
        self._watching = Watching(self._settings, self._passes, self._steps)
        self._profiled_from = self._profiled_to = 0.0

    def begin(self, *, whole_block: bool = False) -> None:
        """Start to listen. *whole_block*: record from here on, until the first mark of a step tells that there are steps."""
        places.begin()
        self._hooks.install()
        if self._steps is not None and self.options.unit is None:
            threading.Thread(target=self._await_quiet, name="advisor", daemon=True).start()
        if self._plain is not None:
            self._training.begin()
            self._plain.begin()
        if whole_block:
            self._hooks.forget_lookups()
            self._guarded(self._passes.open)
            self._hooks.recording = self._passes.recording

    def mark(self) -> None:
        """Mark the end of a step, for programs that mark their steps."""
        if not self._marks:
            self._guarded(self._passes.withdraw)
            self._hooks.recording = False
            if not self._over:
                self._hooks.watch_lookups()
        self._marks.append(self._stamp())
        if len(self._marks) >= max(self.options.skip, 1):
            self._boundary()

    @property
    def inherited(self) -> bool:
        """True in a child that was forked while a profiler ran, and must not shut that down."""
        return os.getpid() != self._pid and self._passes.recording

    @property
    def idle(self) -> bool:
        """True where nothing is recorded yet, in the process that began the session."""
        begun = self._over or self._passes.recording or self._passes.files or self.written
        return os.getpid() == self._pid and not begun

    def leave_to(self, ranks: Sequence[Path]) -> None:
        """Record nothing from here on: the processes that begin now do, into the files *ranks*."""
        self._left_to = {path.absolute(): _written_ns(path) for path in ranks}
        self._close()
        self._passes.discard()

    @property
    def recorded(self) -> bool:
        """True where a recording was written, here or by a rank."""
        return self.written is not None or any(_written_ns(path) > then for path, then in self._left_to.items())

    def end(self) -> None:
        """Write the recording at the end of the program, if that was not done before."""
        if os.getpid() != self._pid or self._over:
            return
        self._ending = True
        self._guarded(self._passes.stop)
        self._finish()

    # ---- while the program runs

    def _boundary(self) -> None:
        if self._over:
            return
        self._guarded(self._step)
        if self._over and self.options.stop and self.written:
            leave()

    def _step(self) -> None:
        before = self._passes.recording
        self._hooks.forget_lookups()
        if self._passes.done:
            self._wait_on()
            return
        if not before and not self._unprofiled:
            self._profiled_from = time.monotonic()
            self._updates = [self._hooks.updates]
            self._limit()
            stamps = self._steps.stamps if self._steps else self._marks
            self._unprofiled, self._growth = milliseconds([stamp.time for stamp in stamps]), growth(stamps)
            self._waits = waits(stamps)
        timing = "timing" not in self._passes.files
        self._watching.look(timing=timing, before=before)
        self._watching.end_step()
        self._passes.boundary()
        self._watching.begin_step(before)
        if timing and "timing" in self._passes.files:
            self._watching.timed()
            self._updates.append(self._hooks.updates)
        self._hooks.recording = self._passes.recording
        if self._steps is None:
            return
        # Backward passes of the steps that are timed: from the end of the warm-up to the end of the pass.
        if timing and before and not self._backwards[0]:
            self._backwards[0] = self._steps.backwards + 1
        if timing and "timing" in self._passes.files:
            self._backwards[1] = self._steps.backwards + 1

    def _stamp(self) -> Stamp:
        return take(self._hooks.waited)

    def _held_ready(self) -> bool:
        """Tell whether the steps so far found batches that workers held ready, and it is early enough to wait for others."""
        if self.options.stop and self._ranks is None and (found := ranks(torch)) is not None:
            self._ranks = found
            found.begin()
        steps = self._steps
        if steps is None or steps.first_at is None or time.monotonic() - steps.first_at > _LONGEST_HOLD_S:
            return False
        more = self.options.steps + WARMUP + STACK_STEPS + 1
        return self._settings.ready.feeds(len(steps.stamps), more)

    def _limit(self) -> None:
        """Record fewer steps where they are long iterations."""
        around = self._steps.around if self._steps is not None and self._steps.unit == ITERATIONS else None
        if around is not None:
            self._passes.limit(int(_RECORDED_S / max(around.seconds, 1e-3)))

    def _is_busy(self) -> bool:
        """Tell whether the steps that pass now take no usual time: they are recorded or watched, or a device works behind them.

        To launch work takes little, and then a step waits for all of it, as where a loss is logged now and then: the host's clock
        would tell bursts that are none.
        """
        if self._hooks.on_device and self.options.unit != ITERATIONS:
            return True
        return self._passes.recording or self._passes.watching

    def _fits(self, iteration: Iteration) -> bool:
        """Tell whether iterations around an optimizer's bursts should be the steps, and one can be recorded.

        Ranks would not choose alike.
        """
        if not iteration.worthwhile or self.options.unit is not None or exchanging(torch):
            return False
        room = memory.available()
        fits = room is None or iteration.seconds * _BYTES_A_SECOND < room
        return fits and iteration.seconds <= LONGEST_ITERATION

    def _around(self, own: bool) -> None:
        self._hooks.own_profiler = own

    def _on_other_profiler(self, begins: bool) -> None:
        self._had_other_profiler = True
        if begins and not self._over:
            self._watching.interrupt()
            self._guarded(self._passes.interrupt)
        elif not begins:
            self._passes.blocked = False

    def _guarded(self, action: Callable[[], None]) -> None:
        """Do something of the recorder's that must not bring the program down."""
        self._at_work += 1
        try:
            action()
        except Exception as error:  # noqa: BLE001  (whatever fails in the profiler, the training goes on)
            self._close()
            self._passes.abandon()
            self._passes.discard()
            self._say(f"recording failed, the program goes on: {type(error).__name__}: {error}")
        finally:
            self._at_work -= 1

    # ---- at the end

    def _close(self) -> None:
        self._over = True
        if self._ranks is not None:
            self._ranks.done()
        self._closed.set()
        if self._plain is not None:
            self._plain.end()
        self._watching.close()
        self._hooks.remove()

    def _finish(self) -> None:
        if self._over:
            return
        self._profiled_to = self._profiled_to or time.monotonic()
        if self._kept is self._passes:  # written already
            if self._ending:
                self._end_quietly()
            return
        if self._earlier is not None and self.written and not self._outlasts(self._earlier):
            if self._ending:
                self._end_quietly()
            return  # asked again at the next step
        if self._may_be_followed():
            self._guarded(self._keep)
            return
        if self._ranks is not None and not self._ending and "timing" in self._passes.files:
            self._guarded(self._keep)
            self._await_ranks()
            return
        self._close()
        try:
            self._guarded(self._write)
        finally:
            self._passes.discard()

    def _end_quietly(self) -> None:
        self._guarded(self._note_unrecorded)
        self._close()
        self._passes.discard()

    def _note_unrecorded(self) -> None:
        """Note in the file what lies between bursts of the steps that were recorded, where that showed behind the recording."""
        around = self._steps.around if self._steps is not None else None
        if self._kept is not self._passes or self.written is None or around is None or self._unit != OPTIMIZER:
            return
        if around.share < _UNRECORDED:
            return
        with suppress(OSError, ValueError):  # the program may have moved the file, or changed it
            amend(self._target, between_share=self._between(), steps_burst=self._burst())
        if not reach_between(self._passes.steps["timing"], around.steps):
            self._say(wording.of_bursts(around.share, around.steps))

    # ---- a second recording, in place of the first

    def _may_be_followed(self) -> bool:
        """Tell whether what is recorded now may come before what the program is for."""
        if self._steps is None or self._ending or self.options.unit or "timing" not in self._passes.files:
            return False
        if self._steps.unit in (OPTIMIZER, ITERATIONS):
            # Ranks would not choose alike.
            return self._steps.follows and not exchanging(torch)
        return self._steps.unit in (CALLS, TURNS, LOOPS) or not self.options.stop

    def _keep(self) -> None:
        """Write what there is; a recording of stronger steps may follow it."""
        self._write()
        self._passes.discard()
        self._kept, self._kept_at = self._passes, time.monotonic()
        if self.options.stop:
            return
        if self._steps is not None and self._steps.unit in (OPTIMIZER, ITERATIONS):
            self._hooks.rest()
        elif self._steps is not None and self._steps.unit == LOOPS and self._plain is not None:
            self._plain.rest()
        else:
            self._hooks.forget_calls()  # no more calls are counted

    def _wait_on(self) -> None:
        """Note a step behind a recording: ask whether it stands now, or where the program is to stop, whether enough were seen."""
        if self._kept is not self._passes:
            self._finish()
        elif self._ranks is not None and self._ranks.is_done:
            settle(torch)
            if self._ranks.may_end(self._steps.count(self._steps.unit or OPTIMIZER) if self._steps is not None else 0):
                self._end_quietly()
        elif self._steps is not None and self._steps.unit in (OPTIMIZER, ITERATIONS):
            # The training goes on: it is what the program is for.
            if self.options.stop:
                if self._steps.unit == OPTIMIZER and self._steps.may_iterate and not exchanging(torch):
                    self._steps.follow(self._stop_waiting)  # what comes behind the training is not waited for
                else:
                    self._end_quietly()
            else:
                self._hooks.rest()
        elif self.options.stop:
            self._more += 1
            if self._more >= _ENOUGH[0] and time.monotonic() - self._kept_at >= _ENOUGH[1]:
                if self._ranks is None:
                    self._end_quietly()
                else:
                    self._await_ranks()

    def _await_ranks(self) -> None:
        """Record nothing more, and let the program go on until the other ranks are done as well."""
        if self._over or self._ranks is None or self._steps is None:
            return
        self._steps.follow(None)
        self._steps.look_for_iterations(None)
        self._ranks.done()

    def _stop_waiting(self) -> Steps[Any]:
        """End the program, whose training was recorded and has ended; return the steps, where that does not end it."""
        assert self._steps is not None  # they called
        self._steps.follow(None)
        self._end_quietly()
        leave()
        return self._steps

    def _record_again(self) -> Steps[Any]:
        """Begin anew, and return the new steps: by a stronger sign, or behind a training that has ended by any.

        A stronger sign is an optimizer's step, or where these steps are calls a loader's batch.
        """
        assert self._steps is not None  # they called
        unit, trains, ended = self._steps.unit or CALLS, self._steps.trains, self._steps.quiet
        seconds = self._steps.trained_for if ended else self._seconds()
        self._began_at = self._steps.trained_until if ended else None
        self._steps.follow(None)
        if self._kept is not self._passes and not self._over:
            self._guarded(self._cut_short)
        if self._over:
            return self._steps
        if unit in (OPTIMIZER, ITERATIONS) or not ended:
            self._earlier = _Earlier(unit, seconds)
        if unit == LOOPS and self._plain is not None:
            self._plain.rest()
        elif not ended:
            self._hooks.forget_calls()
        self._trained_before += seconds if ended else 0.0
        self._anew(OPTIMIZER if unit == BATCHES else None)
        self._steps.trains = trains and not ended
        self._hooks.follow(self._steps)
        return self._steps

    def _record_iterations(self, iteration: Iteration) -> Steps[Any]:
        """Begin anew with iterations that hold several of the steps that were recorded; return the new steps, or the old ones."""
        assert self._steps is not None  # they called
        before = self._steps
        if self._over or self._kept is not self._passes:
            return before
        self._guarded(lambda: self._begin_iterations(before, iteration))
        return before if self._over or self._steps is None else self._steps

    def _begin_iterations(self, before: Steps[Any], iteration: Iteration) -> None:
        before.follow(None)
        before.look_for_iterations(None)
        self._earlier = _Earlier(OPTIMIZER, 0.0)
        self._began_at = None
        self._anew(ITERATIONS, iteration.steps)
        assert self._steps is not None  # there were steps before
        self._steps.trains = True
        self._steps.follow(self._record_again)
        self._hooks.follow(self._steps)
        if self._hooks.resting:
            self._hooks.install(calls=False)

    # ---- loops of plain tensor code

    def _needs_loop(self) -> bool:
        """Tell whether nothing tells of steps, so that a loop around tensor operators may be what the program is."""
        steps = self._steps
        if steps is None or self._over or self._had_other_profiler or self._settings.has_compiled:
            return False
        if steps.trains or self._hooks.updates or not (steps.unit is None or self._kept_a_loop):
            return False
        return self._training.none(steps.signs)

    @property
    def _kept_a_loop(self) -> bool:
        """True where a loop was recorded, behind which a longer one may come."""
        steps = self._steps
        kept = steps is not None and steps.unit == LOOPS and self._kept is self._passes
        return kept and not self.options.stop

    def _take_loop(self, stamps: list[Stamp]) -> None:
        if self._kept_a_loop:
            self._anew()
            assert self._steps is not None  # there were steps before
            self._hooks.follow(self._steps)
        if self._steps is not None and self._steps.unit is None and stamps:
            now = time.perf_counter()
            seconds = now - stamps[0].time if isinstance(stamps[0].time, float) else 0.0
            self._steps.take_loop(stamps, seconds)

    def _turned(self) -> None:
        if self._steps is not None and self._steps.unit == LOOPS:
            self._steps.turned()

    def _loop_ended(self) -> None:
        """Keep what was recorded of a loop that has ended, or look for another one."""
        if self._steps is None or self._steps.unit != LOOPS or self._over or self._kept is self._passes:
            return
        if self._at_work:
            return  # the profiler ends already, as the program does, or other steps come
        self._profiled_to = time.monotonic()
        self._guarded(self._cut_loop)

    def _cut_loop(self) -> None:
        self._stop_watching()
        if "timing" in self._passes.files:
            self._finish()
        else:
            if self._plain is not None:
                self._plain.release()
            self._passes.discard()
            self._anew()
            assert self._steps is not None  # there were steps before
            self._hooks.follow(self._steps)

    def _stop_watching(self) -> None:
        """Stop all that looks at the program while its steps are recorded."""
        self._watching.end()
        self._passes.stop()
        self._hooks.recording = False

    def _await_quiet(self) -> None:
        """Have calls of modules heard again where the training has ended; runs in a thread of its own, as nothing else tells."""
        while not self._closed.wait(_LOOK_S):
            steps = self._steps
            if steps is None or not steps.follows or not steps.quiet or self._over:
                continue
            calls = not self._settings.has_compiled  # graphs look for hooks
            if self._hooks.resting:
                self._hooks.install(calls=calls)
            elif calls:
                self._hooks.watch_calls()

    def _cut_short(self) -> None:
        """Write the whole steps that there are of a recording that other steps broke off."""
        self._profiled_to = time.monotonic()
        self._stop_watching()
        if "timing" in self._passes.files:
            self._write()
        self._passes.discard()

    def _outlasts(self, earlier: _Earlier) -> bool:
        """Tell whether the steps that are recorded now are what the program is for, and not those *earlier*.

        Batches of a loader are, where there were calls of a model before. An optimizer's steps are where they take longer: a
        program may as well compute features for an hour, and then fit a small layer to them. So are calls and batches behind a
        training.
        """
        enough = self._passes.steps.get("timing", 0) >= min(_LEAST, self.options.steps)
        unit = self._steps.unit if self._steps is not None else None
        if unit == ITERATIONS and earlier.unit == OPTIMIZER:
            return self._passes.steps.get("timing", 0) > 0
        batches = unit == BATCHES and earlier.unit != OPTIMIZER
        trained = self._trained_before if unit == OPTIMIZER else 0.0
        return enough and (batches or self._seconds() + trained > earlier.seconds)

    def _seconds(self) -> float:
        """Return for how long the loop of these steps has run, without what recording it took."""
        steps = self._passes.steps
        recorded = sum(steps.values()) + 1
        usual = recorded * statistics.median(self._unprofiled) / 1e3 if self._unprofiled else 0.0
        began = self._began_at or (self._steps.first_at if self._steps is not None else None)
        spent = max(self._profiled_to - self._profiled_from - usual, 0.0) if self._profiled_from else 0.0
        return time.monotonic() - (began or time.monotonic()) - spent

    def _write(self) -> None:
        files, steps = self._passes.files, self._passes.steps
        if "timing" not in files:
            self._say(
                wording.of_nothing(
                    self.options,
                    self._steps,
                    len(self._marks),
                    interrupted=self._had_other_profiler,
                    idle=self._plain.without_tensors if self._plain is not None else None,
                )
            )
            return
        stacks = self.options.stacks
        if stacks == SECOND_PASS and "stacks" not in files:
            stacks = NONE
        marked = self._passes.lines
        lines, draws = (marked.frames, marked.draws) if marked is not None else ((), ())
        settings = self._recorded(stacks)
        collected = self._passes.collections.places if self._passes.collections is not None else ()
        stacked = files.get("stacks")
        write(
            self._target,
            files["timing"],
            stacked,
            lines,
            settings,
            whole_steps=steps["timing"],
            collected=collected,
            draws=draws,
        )
        self.written = self.options.path
        self._report(stacks)

    def _recorded(self, stacks: str) -> Recorded:
        steps = self._passes.steps["timing"]
        first, last = self._backwards
        watched = self._watching.summary()
        return Recorded(
            recorder=f"advisor {__version__}",
            **environment.facts(torch),
            **watched,
            steps_by=self._unit,
            steps_loop=self._plain.name if self._plain is not None and self._unit == LOOPS else self._hooks.loop,
            steps_skipped=max(self.options.skip, 1) if self._steps is not None else None,
            steps_behind=self._behind() or None,
            steps_burst=self._burst(),
            between_share=self._between(),
            backwards_per_step=round((last - first) / steps, 3) if first and last else None,
            unprofiled_step_ms=self._unprofiled,
            unprofiled_wait_ms=self._waits if any(self._waits) else (),
            event_ns=self._event_ns(),
            peak_resident_bytes=memory.peak(),
            unprofiled_growth_bytes=self._growth,
            stacks=stacks,
        )

    def _between(self) -> float | None:
        """Return the part of the time that lies between bursts of an optimizer's steps; None where none come in bursts."""
        around = self._steps.around if self._steps is not None else None
        return round(around.share, 4) if around is not None else None

    def _burst(self) -> int | None:
        """Return how many steps of its optimizer a burst has; None where that differs, or none come in bursts."""
        if self._steps is None or self._steps.unit == ITERATIONS or self._steps.around is None:
            return self._steps.burst if self._steps is not None else None
        return self._steps.around.steps

    def _behind(self) -> bool:
        """Tell whether optimizers stepped before the recorded steps, and in none of them."""
        before, *after = self._updates or [0]
        return before > 0 and before == (after or [self._hooks.updates])[0]

    def _event_ns(self) -> float | None:
        """Measure what an operator's event takes; None where another profiler may run, or it cannot be measured."""
        if self._had_other_profiler or torch._C._autograd._profiler_enabled():
            return None
        self._around(True)
        try:
            return overhead.event_ns(torch)
        except Exception:  # noqa: BLE001  (a recording without this figure is better than none)
            return None
        finally:
            self._around(False)

    @property
    def _unit(self) -> str | None:
        if self._passes.whole_block:
            return None
        return self._steps.unit if self._steps is not None else wording.MARKED

    def _report(self, stacks: str) -> None:
        if self._passes.whole_block:
            self._say(wording.of_block(stacks))
        else:
            earlier, other = self._earlier.unit if self._earlier is not None else None, self._had_other_profiler
            for line in wording.of_steps(
                self.options,
                self._passes,
                self._steps,
                stacks,
                earlier=earlier,
                interrupted=other,
                loop=self._plain.found if self._plain is not None else None,
            ):
                self._say(line)
        if self._had_other_profiler:
            self._say("the program runs a profiler itself; only one can run at a time, and ours made way for it")
        self._say(f"wrote {self.options.path}; next: advisor analyze {self.options.path}")

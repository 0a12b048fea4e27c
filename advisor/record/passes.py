"""The two passes of a recording: one for the timings, and a short one for the stacks, which would distort them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerAction, ProfilerActivity

from advisor.record import INLINE, SECOND_PASS, memory
from advisor.record.collections import Collections
from advisor.record.lines import Lines
from advisor.record.unchanged import STEPS

WATCH = "watch"
# Steps of the pass for stacks: a second one where the first takes another way than the steps that were timed.
STACK_STEPS = 2
WARMUP = 1
_PART = 0.6
"""Share of the free memory that a pass may take: torch ends a process that finds none, or the system does."""
_ENDING = 12
"""Bytes that torch takes to end a pass, for each that it took while recording (2.13: 657 MB became 7.1 GB)."""
_PER_FILE_BYTE = 9
"""The same for each byte of the file that the pass wrote (857 MB)."""
_STACK_EVENTS = 3
"""Events of a step with stacks, for each without."""
_OWN_GROWTH = 1 << 28
"""So much a program may grow by itself within the steps of a pass."""
_LARGE = 384 << 20
"""Growth after which a pass has steps enough: some 450,000 operators, for which torch takes 5 GB and half a minute to end."""
_LARGE_STACKS = 4 << 30
"""Memory that all steps but the first of the pass for stacks may take."""
_RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


@dataclass
class Pass:
    """One run of torch.profiler: *warmup* steps that it throws away, then *active* ones that it records."""

    name: str
    warmup: int
    active: int
    with_stack: bool
    path: Path


def activities() -> list[ProfilerActivity]:
    """Return the host, and the devices that this process has set up by now: asking for others would set them up."""
    supported = torch.profiler.supported_activities()
    unused = {ProfilerActivity.CUDA} if not torch.cuda.is_initialized() else set()
    return [activity for activity in supported if activity not in unused]


class Passes:
    """Runs torch.profiler over the steps that :meth:`boundary` divides. *on_end* is called once, with no profiler running.

    *around* is told before ours begins or ends (True) and after (False). ``files`` are the traces by pass, ``steps`` how many
    whole steps each holds. In one more step behind them nothing is recorded, and ``watching`` is true.
    """

    def __init__(self, steps: int, stacks: str, on_end: Callable[[], None], around: Callable[[bool], None]) -> None:
        self.files: dict[str, Path] = {}
        self.steps: dict[str, int] = {}
        self.blocked = False  # by another profiler
        self.short_of_memory = False
        """True where fewer steps, or no stacks, were recorded than asked for: more would not have fitted."""
        self.large = False
        """True where fewer steps were recorded than asked for: they hold so many operators that these are enough."""
        self._folder = folder = Path(tempfile.mkdtemp(prefix="advisor-"))
        self._plan = [Pass("timing", WARMUP, steps, stacks == INLINE, folder / "timing.json")]
        if stacks == SECOND_PASS:
            self._plan.append(Pass("stacks", 0, min(STACK_STEPS, steps), True, folder / "stacks.json"))
        self._plan += [Pass(WATCH, 0, 1, False, folder) for _ in range(STEPS - 1)]
        self.watching = False
        # torch before 2.2 has no spans that are cheap enough to mark lines with.
        span = getattr(torch._C._profiler, "_RecordFunctionFast", None)
        self.lines = Lines(span) if span is not None and stacks == SECOND_PASS else None
        # Where stacks are recorded with the timings, torch marks collections itself.
        self.collections = Collections(span) if span is not None and stacks != INLINE else None
        self._passes = tuple(self._plan)
        self.whole_block = False
        self._on_end = on_end
        self._around = around
        self._profiler: Any = None
        self._step = 0
        self._room: float | None = None
        self._resident: int | None = None
        self._pid = os.getpid()

    @property
    def done(self) -> bool:
        """True where nothing is left to record."""
        return not self._plan

    @property
    def recording(self) -> bool:
        """True while a profiler of ours is running."""
        return self._profiler is not None

    @property
    def ends_next(self) -> bool:
        """True where the next boundary is the last of the pass that runs."""
        return bool(self._plan) and self.recording and self._step + 1 == self._plan[0].warmup + self._plan[0].active

    def open(self) -> None:
        """Record from here on without steps, until :meth:`stop` or :meth:`withdraw`."""
        self.whole_block = True
        del self._plan[1:]
        self._profiler = self._make(torch.profiler.supported_activities(), None)
        self._run_own(self._profiler.start)

    def withdraw(self) -> None:
        """Drop the recording without steps, as there are steps; the passes begin at the next boundary."""
        if self.whole_block and self._profiler is not None:
            self._run_own(self._stop)
            self._profiler = None
        self.whole_block = False
        self._plan = list(self._passes)

    def boundary(self) -> None:
        """End a step and begin the next."""
        if self.done:
            return
        if self.watching:
            self.watching = False
            self._next()
            return
        if self._profiler is None:
            if not self.blocked and not torch._C._autograd._profiler_enabled():
                self._start()
            return
        self._step += 1
        current = self._plan[0]
        recorded = self._step - current.warmup
        if 0 < recorded < current.active and self._ends_early(recorded):
            self._run_own(self._stop)
            self._keep(recorded)
            self._next()
            return
        self._run_own(self._profiler.step)
        if recorded == 0:
            self._resident = memory.resident()
        if recorded == current.active:
            self._keep(current.active)
            self._next()

    def stop(self) -> None:
        """Keep the whole steps that there are, as the program ends or another profiler begins. No pass follows."""
        if self._profiler is not None:
            self._cut()
        self._plan.clear()
        self.watching = False

    def limit(self, steps: int) -> None:
        """Record so many steps at most, of passes that have not begun: each takes long."""
        for planned in self._plan:
            planned.active = min(planned.active, max(steps, 1))

    def leave_out_watching(self) -> None:
        """Plan no step in which nothing is recorded."""
        self._plan = [planned for planned in self._plan if planned.name != WATCH]

    def interrupt(self) -> None:
        """Make way for another profiler. A pass that is not complete by then is recorded when it is over, if any steps are left."""
        self.blocked = True
        if self._profiler is not None:
            self._cut()
            if self._plan[0].name in self.files:
                self._plan.clear()
                self._on_end()

    def discard(self) -> None:
        """Remove the temporary files."""
        if os.getpid() == self._pid:
            shutil.rmtree(self._folder, ignore_errors=True)

    def abandon(self) -> None:
        """Leave no profiler running, after an error."""
        self._plan.clear()
        if self.lines is not None:
            self.lines.stop()
        if self.collections is not None:
            self.collections.stop()
        if self._profiler is not None:
            self._around(True)
            with suppress(Exception):  # it may be what failed
                self._profiler.stop()
            self._around(False)
            self._profiler = None

    def _cut(self) -> None:
        """End the pass now."""
        whole_steps = self._step - self._plan[0].warmup
        self._run_own(self._stop)
        if whole_steps > 0 or self.whole_block:
            self._keep(max(whole_steps, 0))
        self._profiler, self._step = None, 0

    def _stop(self) -> None:
        self._profiler.stop()
        self._profiler.current_action = ProfilerAction.NONE

    def _ends_early(self, recorded: int) -> bool:
        """Return True where one more step would not fit, by what the *recorded* ones took, or these are enough."""
        now = memory.resident()
        if now is None or self._resident is None or self._room is None:
            return False
        growth = now - self._resident
        if growth > _OWN_GROWTH and growth * (recorded + 1) / recorded * _ENDING > self._room:
            self.short_of_memory = True
            return True
        # One step alone where it is twice as large: the program's own growth looks the same.
        if growth > _LARGE * (2 if recorded == 1 else 1):
            self.large = True
            return True
        return False

    def _fit_stacks(self) -> None:
        """Shorten the pass for stacks, or leave it out, where it would not fit, by the size of the first one's file."""
        timing = self.files.get("timing")
        if timing is None or self._room is None or self._plan[0].name == WATCH:
            return
        a_step = timing.stat().st_size / max(self.steps["timing"], 1) * _PER_FILE_BYTE * _STACK_EVENTS
        fitting = int(self._room // max(a_step, 1.0))
        if fitting:
            self._plan[0].active = min(self._plan[0].active, max(int(_LARGE_STACKS // max(a_step, 1.0)), 1))
        if fitting < self._plan[0].active:
            self.short_of_memory = True
            self._plan[0].active = fitting
        if not fitting:
            del self._plan[0]

    def _start(self) -> None:
        current = self._plan[0]
        if current.name == WATCH:
            self.watching = True
            return
        if self._room is None and (free := memory.available()) is not None:
            self._room = free * _PART
        self._resident = memory.resident()

        def schedule(step: int) -> ProfilerAction:
            if step < current.warmup:
                return ProfilerAction.WARMUP
            remaining = current.warmup + current.active - step
            if remaining == 1:
                return ProfilerAction.RECORD_AND_SAVE
            return ProfilerAction.RECORD if remaining > 1 else ProfilerAction.NONE

        self._profiler = self._make(activities(), schedule)
        self._step = 0
        self._run_own(self._profiler.start)

    def _make(self, kinds: Iterable[ProfilerActivity], schedule: Callable[[int], ProfilerAction] | None) -> Any:
        return torch.profiler.profile(
            activities=kinds,
            schedule=schedule,
            record_shapes=True,
            profile_memory=self._plan[0].name == "timing",
            with_stack=self._plan[0].with_stack,
        )

    def _keep(self, steps: int) -> None:
        current = self._plan[0]
        self._run_own(lambda: self._profiler.export_chrome_trace(str(current.path)))
        self.files[current.name], self.steps[current.name] = current.path, steps

    def _next(self) -> None:
        self._profiler = None
        del self._plan[0]
        if self._plan:
            self._fit_stacks()
        if self._plan:
            self._start()
        else:
            self._on_end()

    def _run_own(self, action: Callable[[], Any]) -> None:
        self._around(True)
        if self.lines is not None:
            self.lines.stop()
        if self.collections is not None:
            self.collections.stop()
        try:
            with _whole_paths() if self._plan and self._plan[0].with_stack else nullcontext():
                action()
        finally:
            self._around(False)
        if not self._plan or self._profiler is None or self._profiler.current_action not in _RECORDS:
            return
        if self.lines is not None and self._plan[0].name == "stacks":
            self.lines.start()
        elif self.collections is not None and self._plan[0].name == "timing":
            self.collections.start()


@contextmanager
def _whole_paths() -> Iterator[None]:
    """Have the profiler write whole paths, from which the owner of a file is found."""
    from torch.profiler import python_tracer

    original = python_tracer._prefix_regex
    python_tracer._prefix_regex = list
    try:
        yield
    finally:
        python_tracer._prefix_regex = original

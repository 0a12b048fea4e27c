"""Watches of one recording: the machine's load and workers while steps are timed, and modules and operators of single steps."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any

import torch

from advisor.record import load
from advisor.record.constants import Constants
from advisor.record.passes import Passes
from advisor.record.ranks import exchanging
from advisor.record.repeats import Repeats
from advisor.record.settings import Settings
from advisor.record.steps import BATCHES, OPTIMIZER, Steps


def _compiles() -> bool:
    """Tell whether torch.compile made anything of the program: it would compile again what calls modules in another way."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None) or {}
    return bool(counters.get("stats", {}).get("unique_graphs"))


class Watching:
    """Watches the *steps* that *passes* record; workers and this thread's looks are those of *settings*."""

    def __init__(self, settings: Settings, passes: Passes, steps: Steps[Any] | None) -> None:
        self._settings, self._passes, self._steps = settings, passes, steps
        self._from: load.Moment | None = None
        self._load: load.Load | None = None
        self._shares: load.Load | None = None
        self._repeats: Repeats | None = None
        self._constants: Constants | None = None

    @property
    def watches(self) -> bool:
        """True while operators are looked at, which takes a step up to some seconds more."""
        return self._constants is not None and self._constants.watches

    def look(self, *, timing: bool, before: bool) -> None:
        """Look at the machine, at workers and at this thread while steps are timed; *before*: the profiler was running already."""
        if timing and before and self._from is None:
            self._from = load.now()
            self._settings.workers.begin()
            self._settings.looks.begin()
        elif timing and before:
            self._settings.looks.turn()
        if timing and self._passes.ends_next:
            # Before the profiler ends: meanwhile workers run ahead, and have nothing to do then.
            self._shares = load.between(self._from, load.now())
            self.look_no_more()

    def look_no_more(self) -> None:
        """End the looks at workers and at this thread."""
        for watch in (self._settings.workers, self._settings.looks):
            watch.end()

    def timed(self) -> None:
        """Note that the last of the timed steps has ended."""
        self.look_no_more()  # where the pass ended before its last step
        # With the time that the profiler took to end: that the machine is busy shows in it as well, and no step is longer.
        self._load = load.between(self._from, load.now())

    def end_step(self) -> None:
        """End what was watched in the step that ends here."""
        self._stop()
        if self._passes.recording and (self._constants is None or not self._constants.worthwhile):
            self._passes.leave_out_watching()

    def begin_step(self, before: bool) -> None:
        """Watch calls of modules and constants in the warm-up step, and constants in a step behind the passes.

        *before*: whether the profiler was running already.
        """
        if self._passes.watching and self._constants is not None:
            self._constants.start()
        elif (
            self._repeats is None
            and self._passes.recording
            and not before
            and not self._settings.has_compiled
            and not _compiles()
        ):
            # Ranks that exchange tensors of their own kinds on GPUs are not shown to a mode of ours.
            if not (torch.cuda.is_initialized() and exchanging(torch)):
                self._constants = Constants(torch, lambda: self._count(OPTIMIZER) > 0)
            self._repeats = Repeats(
                torch,
                lambda: self._count(BATCHES),
                self._settings.batches.look_at_call,
                nullcontext if self._constants is None else self._constants.hidden,
                lambda: self._count(OPTIMIZER),
                waits=not exchanging(torch),
            )
            self._repeats.start()
            if self._constants is not None:
                self._constants.start()

    def _count(self, unit: str) -> int:
        return self._steps.count(unit) if self._steps is not None else 0

    def interrupt(self) -> None:
        """Make way for a profiler of the program's own."""
        if self._constants is not None:
            self._constants.stop()
        self.look_no_more()

    def end(self) -> None:
        """Stop all that looks at the program while its steps are recorded."""
        self._stop()
        self.look_no_more()

    def close(self) -> None:
        """Stop it for good."""
        self._settings.workers.stop()
        self._settings.looks.end()
        self._stop()

    def _stop(self) -> None:
        for watch in (self._repeats, self._constants):
            if watch is not None:
                watch.stop()

    def summary(self) -> dict[str, Any]:
        """Return the fields of :class:`advisor.reading.program_settings.Recorded` that all this told, and the settings'."""
        # Where no second pass follows, the recording is written as the first one ends.
        found = self._load or load.between(self._from, load.now())
        shares = self._shares or found
        told = self._settings.summary()
        if self._constants is not None:
            # What a loss is given goes before what batches hold: labels may be made behind the loader.
            unlabelled = self._constants.labels.share()
            told |= {"ignored_share": unlabelled} if unlabelled is not None else {}
            told |= self._constants.summary()
        if self._repeats is not None:
            told |= {
                "repeats": self._repeats.found,
                "singles": self._repeats.singles,
                "rows_compared": self._repeats.rows,
            }
        return told | {
            "waited_share": found.waited_share if found else None,
            "others_cores": found.others_cores if found else None,
            "own_cores": shares.own_cores if shares else None,
            "workers_cores": shares.workers_cores if shares else None,
        }

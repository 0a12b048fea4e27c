"""A program on the CPU, run again: one thread sets its pace, and what its rows no longer take the step no longer takes.

No graph is needed. The ledger divides every ns of the main thread, each to one row; what other threads do beside it costs
nothing (:mod:`advisor.timeline.cpu`). A fix takes a share of what its rows own, and fixes of the same time take it once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from advisor.engine.claims import WIDEST, Claim, priced, ranked_bundles
from advisor.replay.rungs import Priced, Rung, joined
from advisor.timeline.context import Context
from advisor.timeline.ledger import CAUSES
from advisor.timeline.unprofiled import bare_steps, unprofiled

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]
_PACE = {"compute": "operators", "communication": "collectives", "loader": "loader"}
"""Meaning of a cause of the ledger for the pace; all others are Python and what it does."""


_ERROR = 0.2
"""Of a saving, and up to 2.5 times that where its range stays narrow: what the profiler takes is known so well, medians of two
runs of a program differ by up to 5 %, and what is beside a fault runs faster without it, as more of the cache is its own and less
memory is asked for and given back. Of 13 programs measured without a profiler 9 returned more than the upper end without this
(benchmarks/cpu_programs), with this part alone 11 of 35 of three sets, and with half as much again 17 of 68 of seven sets; of these
17 six lie within 2.5 times this part, and six returned more for reasons of their own (docs/replay.md)."""


class Thread:
    """The main thread of a program on the CPU. It can always be run again: its ledger is the record."""

    reason = ""
    how = "one thread limits the step, so what its rows no longer take the step no longer takes: without"

    def __init__(self, context: Context) -> None:
        self.context = context

    @property
    def error(self) -> float:
        """Part by which savings may be larger than what is reckoned."""
        return _ERROR if bare_steps(self.context) else 0.0

    def price(self, claims: Sequence[Claim], whole_ms: float, *, beside: Sequence[Claim] = ()) -> Priced:
        """Price the fixes and order them by what they return, weighed by confidence; *whole_ms* is the step.

        What stands *beside* them changes nothing here: each takes a share of its own time.
        """
        ledger, bare = self.context.ledger, self.context.once(unprofiled)
        dur_ns, counted_ns = (ledger.dur_ns, ledger.counted_ns) if bare is None else (bare.dur_ns, bare.counted_ns)
        left = np.bincount(ledger.cause[ledger.counted], weights=dur_ns[ledger.counted], minlength=len(CAUSES))
        fixes = [claim for claim in claims if claim.has_price]
        plan: dict[str, Rung] = {}
        high_ms = low_ms = whole_ms
        ranked = sorted(
            priced(fixes, dur_ns, counted_ns, whole_ms, error=self.error, at_most_ns=bare.alike_ns if bare else None),
            key=lambda claim: tuple(-part for part in claim.rank),
        )
        after = {claim.rule.id: claim.after for claim in ranked if claim.after is not None}
        worth = {claim.rule.id: claim for claim in ranked if claim.saving is not None}
        order = ranked_bundles(list(worth.values()))
        if self.error:
            for rules in order:
                worth[rules[0]] = _narrowed([worth[rule] for rule in rules], whole_ms)
        for rule in (rule for rules in order for rule in rules):
            claim, saving = worth[rule], worth[rule].saving
            assert saving is not None
            own = np.bincount(ledger.cause[claim.segments], weights=dur_ns[claim.segments], minlength=len(CAUSES))
            part = saving.high_ms / whole_ms * counted_ns / max(own.sum(), 1)
            left = np.maximum(left - own * part, 0)
            high, low = high_ms - saving.high_ms, low_ms - saving.low_ms
            plan[rule] = Rung(rule, high_ms, low, high, _pace(left), low_ms)
            high_ms, low_ms = high, low
        found = joined([[plan[rule] for rule in rules] for rules in order], 0.0, {})
        return replace(found, after=after, alone=_alone(worth, found))

    def timeline_with(self, claims: Sequence[Claim], *, beside: Sequence[Claim] = ()) -> pd.DataFrame:
        """The main thread as it would run with the hopeful assumptions of all fixes."""
        import pandas as pd

        ledger = self.context.ledger
        keep = np.ones(len(ledger.dur_ns))
        for claim in claims:
            if claim.rule.replay is not None:
                # Fixes of the same time take it once: the one that takes most.
                keep[claim.segments] = np.minimum(keep[claim.segments], 1 - claim.rule.replay.high)
        dur = np.rint(ledger.dur_ns * keep).astype(np.int64)
        shift = np.cumsum(ledger.dur_ns - dur) - (ledger.dur_ns - dur)
        columns = {
            "name": np.array(CAUSES, object)[ledger.cause],
            "device": -1,
            "stream": -1,
            "start_ns": ledger.start_ns - shift,
            "dur_ns": dur,
            "recorded_start_ns": ledger.start_ns,
            "recorded_dur_ns": ledger.dur_ns,
        }
        return pd.DataFrame(columns)


def _narrowed(claims: Sequence[Claim], whole_ms: float) -> Claim:
    """Return the first of some claims that are one change, its least raised until they together spread no wider than one.

    Each has an error of its own, and not all of them return the least at once.
    """
    lead, savings = claims[0], [claim.saving for claim in claims if claim.saving is not None]
    saving = lead.saving
    spread_ms = sum(each.high_ms - each.low_ms for each in savings)
    more_ms = spread_ms - WIDEST * whole_ms
    if saving is None or len(savings) < 2 or more_ms <= 0:
        return lead
    low_ms = min(saving.low_ms + more_ms, saving.high_ms)
    return replace(lead, saving=replace(saving, low_ms=low_ms, low_share=low_ms / whole_ms))


def _alone(worth: Mapping[str, Claim], found: Priced) -> dict[str, tuple[float, float]]:
    """Return what fixes with a price return with none of the others, where that is said."""
    savings = ((rule, worth[rule].saving) for rule in found.savings)
    told = ((rule, saving.alone_ms) for rule, saving in savings if saving is not None)
    return {rule: (ms["low"], ms["high"]) for rule, ms in told if ms is not None}


def _pace(left: Floats) -> str:
    paces: dict[str, float] = {}
    for cause, ns in zip(CAUSES, left.tolist(), strict=True):
        pace = _PACE.get(cause, "python")
        paces[pace] = paces.get(pace, 0.0) + ns
    return max(paces, key=lambda pace: paces[pace])

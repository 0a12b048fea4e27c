"""Whether a figure changed: medians of per-step samples, a seeded bootstrap, and an honest third answer.

A change is one only where it passes the threshold, the bootstrap of the difference of medians excludes none, and the ranks
of the samples say the same (steps of one run are few; with five against five, nearly all must lie apart). "Same" is said only
where the noise would not hide twice the threshold; else the answer is that there is none.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Outcome = Literal["worse", "better", "same", "inconclusive"]
Floats = npt.NDArray[np.float64]
LEAST_STEPS = 5
"""With fewer on a side, even samples that lie wholly apart happen by chance in 1 of 70 comparisons."""
_DRAWS = 2000
_CERTAIN = 0.005
_HOPEFUL = 0.10
_CHANCE = 0.01


@dataclass(frozen=True)
class Decision:
    """What became of one figure. ``change`` is now less base; ``low`` and ``high`` bound it (99 %); None where unknown."""

    outcome: Outcome
    base: float | None
    now: float | None
    low: float | None = None
    high: float | None = None
    because: str = ""

    @property
    def change(self) -> float | None:
        """By how much it grew."""
        return None if self.base is None or self.now is None else self.now - self.base


def decide(
    base: Sequence[Sequence[float]],
    now: Sequence[Sequence[float]],
    *,
    threshold: float,
    worse: Literal["up", "down"] = "up",
    exact: bool = False,
    name: str = "",
) -> Decision:
    """Compare the samples of some runs with those of others; each run is a list of steps.

    *threshold* is the least change that matters, in the figure's unit. *exact* figures (counts, bytes) repeat: where all
    steps of each side agree, two are enough. *name* seeds the draws, so that the same samples give the same answer.
    """
    left, right = [run for run in base if len(run)], [run for run in now if len(run)]
    if not left or not right:
        missing = "the baseline" if not left else "the candidate"
        return Decision("inconclusive", _median(left), _median(right), because=f"{missing} holds no sample of it")
    before, after = np.concatenate(left), np.concatenate(right)
    sign = 1.0 if worse == "up" else -1.0
    was, is_now = float(np.median(before)), float(np.median(after))
    grown = sign * (is_now - was)
    fewest = min(len(before), len(after))
    if exact and fewest >= 2 and np.ptp(before) == 0 and np.ptp(after) == 0:
        outcome: Outcome = "worse" if grown > threshold else "better" if -grown > threshold else "same"
        return Decision(outcome, was, is_now, is_now - was, is_now - was)
    if fewest < LEAST_STEPS:
        side = "the baseline" if len(before) < LEAST_STEPS else "the candidate"
        if len(before) < LEAST_STEPS and len(after) < LEAST_STEPS:
            side = "either side"
        because = f"{fewest} step{'s' * (fewest != 1)} on {side}; {LEAST_STEPS} are needed"
        return Decision("inconclusive", was, is_now, because=because)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    drawn = sign * (_medians(right, rng) - _medians(left, rng))
    low, high = (float(np.quantile(drawn, q)) for q in (_CERTAIN, 1 - _CERTAIN))
    bounds = (low, high) if sign > 0 else (-high, -low)
    if abs(grown) > threshold:
        clear = (low > 0 if grown > 0 else high < 0) and _apart(
            before, after, upward=sign * grown > 0, rng=rng
        ) <= _CHANCE
        if clear:
            return Decision("worse" if grown > 0 else "better", was, is_now, *bounds)
        return Decision("inconclusive", was, is_now, *bounds, because="it changed, but no more than its own noise can")
    if float(np.quantile(drawn, 1 - _HOPEFUL)) > 2 * threshold:
        return Decision("inconclusive", was, is_now, *bounds, because="its noise would hide a change that matters")
    return Decision("same", was, is_now, *bounds)


def _median(runs: Sequence[Sequence[float]]) -> float | None:
    return float(np.median(np.concatenate(runs))) if runs else None


def _medians(runs: Sequence[Sequence[float]], rng: np.random.Generator) -> Floats:
    """Medians of bootstrapped samples: runs are drawn first, then the steps of each, so that runs that differ widen it."""
    lengths = np.array([len(run) for run in runs])
    width = int(np.median(lengths))
    padded = np.zeros((len(runs), int(lengths.max())))
    for row, run in zip(padded, runs, strict=True):
        row[: len(run)] = run
    chosen = rng.integers(0, len(runs), (_DRAWS, len(runs)))
    steps = (rng.random((_DRAWS, len(runs), width)) * lengths[chosen][..., None]).astype(np.int64)
    values: Floats = padded[chosen[..., None], steps].reshape(_DRAWS, -1)
    return np.median(values, axis=1)


def _apart(before: Floats, after: Floats, *, upward: bool, rng: np.random.Generator) -> float:
    """How often chance alone would put the ranks of *after* as far up (or down): a permutation test, seeded."""
    pooled = np.concatenate([before, after])
    ranks = np.searchsorted(np.sort(pooled), pooled, "left") + np.searchsorted(np.sort(pooled), pooled, "right")
    signed = ranks.astype(np.float64) if upward else -ranks.astype(np.float64)
    seen = signed[len(before) :].sum()
    order = np.argsort(rng.random((10_000, len(pooled))), axis=1)[:, : len(after)]
    return float((signed[order].sum(axis=1) >= seen).mean())

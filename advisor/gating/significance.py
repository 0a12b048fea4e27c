"""Significance of a change: medians of per-step samples, a seeded bootstrap, and a third answer where neither is certain.

A change is one only where it passes the threshold, the bootstrap of the difference of medians excludes none, and the ranks
of the samples say the same (steps of one run are few; with four against four, all must lie apart). That there is *no
regression* is said only where the noise would not hide one of twice the threshold; else the answer is that there is none.

Two things no arithmetic on one run a side can see: what differs from run to run (clocks, neighbours, the memory's layout),
for which the tolerance stands; and that neighbouring steps are alike, so that n steps tell less than n. Several runs a side
answer the first: runs are drawn before steps, and a single run is taken to be off by as much as those of the other side.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Outcome = Literal["worse", "better", "same", "inconclusive"]
Floats = npt.NDArray[np.float64]
LEAST_STEPS = 4
"""With three on a side, even samples that lie wholly apart happen by chance in 1 of 20 comparisons; with four, in 1 of 70."""
_DRAWS = 2000
_MOST = 2_000_000
_FEW = 40
_CERTAIN = 0.005
_HOPEFUL = 0.10
_CHANCE = 0.015


@dataclass(frozen=True)
class Decision:
    """Decision on one figure. ``change`` is now less base; ``low`` and ``high`` bound it (99 %); None where unknown.

    ``likely`` is how much worse it may have become, at 90 %.
    """

    outcome: Outcome
    base: float | None
    now: float | None
    low: float | None = None
    high: float | None = None
    because: str = ""
    likely: float | None = None

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
        return Decision("inconclusive", _median(left), _median(right), because=f"{missing} does not hold it")
    before, after = np.concatenate(left), np.concatenate(right)
    sign = 1.0 if worse == "up" else -1.0
    was, is_now = float(np.median(before)), float(np.median(after))
    worsening = sign * (is_now - was)
    fewest = min(len(before), len(after))
    if exact and fewest >= 2 and np.ptp(before) == 0 and np.ptp(after) == 0:
        repeated, _ = _verdict(worsening, threshold, 0.0, clear=abs(worsening) > threshold)
        return Decision(repeated, was, is_now, is_now - was, is_now - was)
    if fewest < LEAST_STEPS:
        return Decision("inconclusive", was, is_now, because=_too_few(len(before), len(after)))
    changes = sign * _differences(left, right, np.random.default_rng(zlib.crc32(name.encode())))
    low, high, likely = (float(np.quantile(changes, q)) for q in (_CERTAIN, 1 - _CERTAIN, 1 - _HOPEFUL))
    clear = abs(worsening) > threshold and (low > 0 if worsening > 0 else high < 0)
    clear = clear and _chance(before, after, upward=sign * worsening > 0) <= _CHANCE
    outcome, because = _verdict(worsening, threshold, likely, clear=clear)
    bounds = (low, high) if sign > 0 else (-high, -low)
    return Decision(outcome, was, is_now, *bounds, because=because, likely=likely)


def _verdict(grown: float, threshold: float, likely: float, *, clear: bool) -> tuple[Outcome, str]:
    """Judge a figure that got worse by *grown*, at 90 % by no more than *likely*; *clear* where noise alone does not do so."""
    if clear:
        return ("worse" if grown > 0 else "better"), ""
    if grown > threshold:
        return "inconclusive", "it got worse, but by no more than its noise can"
    if likely > 2 * threshold:
        return "inconclusive", "its noise would hide a regression that matters"
    # Here a regression is excluded, and that is what is asked: an improvement that is not certain is no question.
    return "same", "" if -grown <= threshold else "it got better, but by no more than its noise can"


def _too_few(before: int, after: int) -> str:
    sides = ((before, "the baseline"), (after, "the candidate"))
    few = [f"{count} on {side}" for count, side in sides if count < LEAST_STEPS]
    return f"too few steps, {' and '.join(few)}; {LEAST_STEPS} are needed"


def _median(runs: Sequence[Sequence[float]]) -> float | None:
    return float(np.median(np.concatenate(runs))) if runs else None


def _medians(runs: Sequence[Sequence[float]], rng: np.random.Generator) -> Floats:
    """Return medians of bootstrapped samples: runs are drawn first, then the steps of each, so that runs that differ widen it."""
    lengths = np.array([len(run) for run in runs])
    width = int(np.median(lengths))
    padded = np.zeros((len(runs), int(lengths.max())))
    for row, run in zip(padded, runs, strict=True):
        row[: len(run)] = run
    draws = int(np.clip(_MOST // (len(runs) * width), 500, _DRAWS))
    chosen = rng.integers(0, len(runs), (draws, len(runs)))
    steps = (rng.random((draws, len(runs), width)) * lengths[chosen][..., None]).astype(np.int64)
    values: Floats = padded[chosen[..., None], steps].reshape(draws, -1)
    return np.median(values, axis=1)


def _differences(left: Sequence[Sequence[float]], right: Sequence[Sequence[float]], rng: np.random.Generator) -> Floats:
    """Draw differences of medians, *right* less *left*."""
    first, second = _medians(left, rng), _medians(right, rng)
    count = min(len(first), len(second))
    changes: Floats = second[:count] + _between(left, right, count, rng) - first[:count]
    return changes


def _between(
    left: Sequence[Sequence[float]], right: Sequence[Sequence[float]], count: int, rng: np.random.Generator
) -> Floats:
    """Draw errors of a single run on one side, as the runs of the other side differ; 0 where neither or both tell."""
    several = left if len(left) > 1 else right
    if (len(left) > 1) == (len(right) > 1):
        return np.zeros(count)
    medians = np.array([np.median(run) for run in several])
    # The mean is of the runs themselves, which makes them look closer than a new one will be.
    off = (medians - medians.mean()) * math.sqrt(len(medians) / (len(medians) - 1))
    errors: Floats = rng.choice(off, count)
    return errors


def _chance(before: Floats, after: Floats, *, upward: bool) -> float:
    """Return the probability that chance alone puts the ranks of *after* as far up (or down): the rank-sum test, one-sided.

    Exact, ties included, where there are few; by the normal distribution where there are many.
    """
    pooled = np.concatenate([before, after])
    ordered = np.sort(pooled)
    # Twice the rank from 0, the mean of its ties: whole numbers.
    ranks = np.searchsorted(ordered, pooled, "left") + np.searchsorted(ordered, pooled, "right") - 1
    if not upward:
        ranks = 2 * (len(pooled) - 1) - ranks
    seen, size = int(ranks[len(before) :].sum()), len(after)
    if len(pooled) > _FEW:
        mean = size * float(ranks.mean())
        spread = math.sqrt(float(ranks.var(ddof=1)) * size * len(before) / len(pooled))
        return 0.5 * math.erfc((seen - 1 - mean) / spread / math.sqrt(2)) if spread else 1.0
    ways = np.zeros((size + 1, int(ranks.sum()) + 1))
    ways[0, 0] = 1
    for rank in ranks.tolist():
        shifted = ways[:-1, : ways.shape[1] - rank].copy()
        ways[1:, rank:] += shifted
    return float(ways[size, seen:].sum() / ways[size].sum())

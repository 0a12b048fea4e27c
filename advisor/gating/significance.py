"""Significance of a change: per-step samples of some runs beside those of others, and a third answer where neither is certain.

A figure is summed up by its median (the typical step), its mean (what single slow steps add; sums of counts) or its peak
(memory: one step too many is out of memory). A change is one only where it passes the threshold, the noise does not make it,
and the ranks of the steps (of a mean: the ways to deal them) say the same. That there is *no regression* is said only where
the noise would not hide one of twice the threshold; else there is no answer.

Noise, where each side is one run: a seeded bootstrap, and because neighbouring steps are alike, so that n steps tell less
than n, a share of the steps' own spread on top of the threshold, and bounds for an autocorrelation of 0.7. A regression must
also be several *lasting* spreads, of what neighbours show together. Few steps show little of it. What differs from run to
run no arithmetic on one run a side can see: the tolerance stands for that. Where a side has several runs, they are the
evidence, not their steps: Student's t, of the spread between the runs.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

Outcome = Literal["worse", "better", "same", "inconclusive"]
Statistic = Literal["median", "mean", "peak"]
Floats = npt.NDArray[np.float64]
LEAST_STEPS = 4
"""With three on a side, even samples that lie wholly apart happen by chance in 1 of 20 comparisons; with four, in 1 of 70."""
_DRAWS, _LEAST_DRAWS = 2000, 500
_MOST = 2_000_000
_FEW = 40
_CERTAIN = 0.005
_HOPEFUL = 0.10
_CHANCE = 0.015
_ALIKE = 0.7
"""Autocorrelation of neighbouring steps that bounds allow for."""
WITHIN = ", but within its noise"
"""End of what is said of a change whose direction is not certain."""
DRIFT = "worse, but so few steps may drift as far apart by chance: record twenty, or several runs"
"""Said of a change that is a regression by all else, but no more than what lasts from step to step explains."""
QUIET_RUNS = 0.05
"""Spread between runs, as a share: two or three runs hardly show theirs, but it is hardly over this where they show less."""
_REFUTED = 2.326
"""Runs that show more than one in a hundred of such would are believed. A quantile of the normal distribution."""
_PLAUSIBLE = 1e15
"""No step has a figure beyond it, in ms, MB or calls."""
LEVEL = 0.001
"""Chance of several runs to put one figure as far up, where nothing changed."""
_MARGIN, _SPREADS = 2.326, 1.6
"""By how much a regression must pass the threshold: standard errors of steps that are alike; at most so many spreads."""
_HIDES = (4.5, 3.5)
"""Change that noise may hide: standard errors of steps that are alike; but no more spreads, or few steps would never pass."""
_SLACK = 1.2
_LASTS = 0.005
"""Chance of steps that are alike to lie as many lasting spreads apart, of one run a side that did not change."""
_SEEN = (5.0, 2.326)
"""Spreads of independent steps (twice the threshold where they vary by two fifths of it) to be seen in 99 of 100 cases."""
_STANDS_OUT = 6.0
"""Deviations beyond which a step stands alone: it tells nothing of how far the others vary, and counts as their median."""
_FEW_STEPS = 0.05
_HARDLY = 0.001
"""Chance to pass a regression of twice the threshold, of several runs."""
_UNDER = 0.02
"""Chance of runs that lie as far under the threshold as no regression must, by the spread that they show, to be as far over it."""
_FEWEST = 2
"""Times the chance for two or three runs in all, which know next to nothing of their spread: else no answer were ever had."""
_TWOFOLD = math.log(2)
_NORMAL = NormalDist()
_DRAWN_IN = 2.0


class Decision(Struct, frozen=True):
    """Decision on one figure. ``change`` is now less base; ``low`` and ``high`` bound it (99 %); None where unknown.

    ``likely`` is how much worse it may have become, at 90 % (at 99 % where neighbouring steps are alike, or of several runs).
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

    @property
    def doubtful(self) -> bool:
        """True of a regression that is none only as steps may be alike: it has no answer, and never passes."""
        return self.because == DRIFT


Runs = Sequence[Sequence[float]]


def decide(
    base: Runs,
    now: Runs,
    *,
    threshold: float,
    worse: Literal["up", "down"] = "up",
    exact: bool = False,
    name: str = "",
    statistic: Statistic = "median",
    quiet: float | None = None,
    level: float = LEVEL,
) -> Decision:
    """Compare the samples of some runs with those of others; each run is a list of steps.

    *threshold* is the least change that matters, in the figure's unit. *exact* figures (counts, bytes) repeat: where all
    steps of each side agree, two are enough. *name* seeds the draws, so that the same samples give the same answer. Of several
    runs a side, *quiet* is the spread that they hardly exceed (without it a share of the figure), and *level* the chance of a
    false alarm that is allowed: who asks for several figures at once shares it out among them.
    """
    left, right = [run for run in base if len(run)], [run for run in now if len(run)]
    if lacking := _lacking(left, right, statistic):
        return lacking
    before, after = np.concatenate(left), np.concatenate(right)
    was, is_now = summed_up(before, statistic), summed_up(after, statistic)
    sign = 1.0 if worse == "up" else -1.0
    worsening = sign * (is_now - was)
    fewest = min(len(before), len(after))
    if exact and fewest >= 2 and np.ptp(before) == 0 and np.ptp(after) == 0:
        repeated, _ = _verdict(worsening, threshold, 0.0, clear=abs(worsening) > threshold)
        return Decision(repeated, was, is_now, is_now - was, is_now - was)
    if fewest < LEAST_STEPS:
        return Decision("inconclusive", was, is_now, because=_too_few(len(before), len(after)))
    if statistic == "peak":
        return _of_peaks(before, after, threshold, sign)
    if len(left) > 1 or len(right) > 1:
        found = _of_runs(left, right, sign, statistic, quiet, level)
    else:
        rng = np.random.default_rng(zlib.crc32(f"{name}{statistic}".encode() if statistic == "mean" else name.encode()))
        found = _of_steps(left, right, threshold, sign, statistic, rng)
    outcome, because = found.judge(worsening, threshold)
    edges = (found.low, found.high) if sign > 0 else (-found.high, -found.low)
    return Decision(outcome, was, is_now, *edges, because=because, likely=found.likely)


def _lacking(left: Runs, right: Runs, statistic: Statistic) -> Decision | None:
    """Return the decision where a side holds nothing, or nothing that can be; else None."""
    if not (usable(left) and usable(right)):
        side = "the candidate" if usable(left) else "the baseline"
        return Decision("inconclusive", None, None, because=f"{side} holds a figure that no step has")
    if left and right:
        return None
    side = "the candidate" if left else "the baseline"
    was, is_now = (summed_up(np.concatenate(runs), statistic) if runs else None for runs in (left, right))
    return Decision("inconclusive", was, is_now, because=f"{side} does not hold it")


def usable(runs: Runs) -> bool:
    """Tell if all figures are numbers that a step can have."""
    return all(math.isfinite(value) and abs(value) <= _PLAUSIBLE for run in runs for value in run)


def summed_up(values: Floats | Sequence[float], statistic: Statistic) -> float:
    """Return the one figure that stands for those of some steps."""
    figures = np.asarray(values, np.float64)
    if statistic == "peak":
        return float(figures.max())
    return _middle(figures) if statistic == "median" else float(figures.mean())


def _middle(values: Floats) -> float:
    """Return the median; for some dozen figures numpy's own takes ten times as long."""
    if not len(values):
        return math.nan
    ordered, half = np.sort(values), len(values) // 2
    return float(ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2)


def _middles(rows: Floats) -> Floats:
    """Return the median of each row; rows of up to some hundred are sorted in a third of the time that numpy's own takes."""
    width, half = rows.shape[1], rows.shape[1] // 2
    if width > _SORTED:
        return np.asarray(np.median(rows, axis=1))
    ordered = np.sort(rows, axis=1)
    middles: Floats = ordered[:, half] if width % 2 else (ordered[:, half - 1] + ordered[:, half]) / 2
    return middles


_SORTED = 500


def _verdict(grown: float, threshold: float, likely: float, *, clear: bool) -> tuple[Outcome, str]:
    """Judge a figure that got worse by *grown*, hardly by more than *likely*; *clear* where noise alone does not do so."""
    if clear:
        return ("worse" if grown > 0 else "better"), ""
    if grown > threshold:
        return "inconclusive", f"worse{WITHIN}"
    if likely > 2 * threshold:
        return "inconclusive", "its noise would hide a regression that matters"
    # Here a regression is excluded, and that is what is asked: an improvement that is not certain is no question.
    return "same", "" if -grown <= threshold else f"better{WITHIN}"


def _too_few(before: int, after: int) -> str:
    sides = ((before, "the baseline"), (after, "the candidate"))
    few = [f"{count} on {side}" for count, side in sides if count < LEAST_STEPS]
    return f"too few steps, {' and '.join(few)}; {LEAST_STEPS} are needed"


def _of_peaks(before: Floats, after: Floats, threshold: float, sign: float) -> Decision:
    """Decide on the highest of all steps: it is reached or it is not, and varies by no more than the steps do."""
    was, is_now = float(before.max()), float(after.max())
    grown, spread = sign * (is_now - was), float(max(np.ptp(before), 0.0) if is_now > was else np.ptp(after))
    clear = abs(grown) > max(threshold, spread)
    outcome, because = _verdict(grown, threshold, 0.0, clear=clear)
    return Decision(outcome, was, is_now, because=because, likely=grown)


# ---- one run a side


class Bounds(NamedTuple):
    """Bounds of how much worse a figure got: ``low`` and ``high`` at 99 %, and how much is ``likely`` at most.

    ``shift`` is a second measure of how much it got worse, ``clear`` says that it passes the threshold by more than the steps'
    noise, ``slack`` by how much it must stay under the threshold to be no regression. ``lasting`` says that it is more than steps
    that are alike drift apart by chance.
    """

    low: float
    high: float
    likely: float
    shift: float
    clear: bool
    slack: float
    lasting: bool = True

    def judge(self, worsening: float, threshold: float) -> tuple[Outcome, str]:
        """Judge a figure that got worse by *worsening*, by these bounds."""
        alike = min(abs(worsening), abs(self.shift)) > threshold and (self.shift > 0) == (worsening > 0)
        clear = self.clear and alike and (self.low > 0 if worsening > 0 else self.high < 0)
        if clear and worsening > 0 and not self.lasting:
            return "inconclusive", DRIFT
        grown = worsening if clear else max(worsening, self.shift)
        hidden = self.likely if grown > threshold or grown + self.slack <= threshold else math.inf
        return _verdict(grown, threshold, hidden, clear=clear)


def _of_steps(
    left: Runs, right: Runs, threshold: float, sign: float, statistic: Statistic, rng: np.random.Generator
) -> Bounds:
    before, after = np.asarray(left[0], np.float64), np.asarray(right[0], np.float64)
    first, second = _drawn(before, statistic, rng), _drawn(after, statistic, rng)
    count = min(len(first), len(second))
    changes = sign * (second[:count] - first[:count])
    low, high, likely = np.quantile(changes, (_CERTAIN, 1 - _CERTAIN, 1 - _HOPEFUL)).tolist()
    shift = grown = sign * (summed_up(after, statistic) - summed_up(before, statistic))
    (mild_before, mild_after), spread = _drawn_in(before, after)
    error = _error(len(before), len(after))
    if statistic == "median":
        shift = sign * float(mild_after.mean() - mild_before.mean())
    else:
        likely = grown  # single steps that are far off count as they were; if they are chance is asked of the ways to deal them
    # With few steps only a part of that can be asked for, or the gate would not see what is large and plain.
    fewest = min(len(before), len(after))
    margin = min(_MARGIN * error, _SPREADS * (1 - 3 / fewest)) * spread
    # Under ten steps that look alike by chance, or because they are alike, do not show a spread at all.
    margin = max(margin, _FEW_STEPS * max(0, 10 - fewest) * threshold)
    hidden = max(grown, shift) + min(_HIDES[0] * error, _HIDES[1]) * spread
    clear = abs(shift) > threshold + margin
    if clear:
        upward = sign * grown > 0
        deals = statistic == "mean"
        chance = _of_deals(before, after, rng, upward=upward) if deals else _chance(before, after, upward=upward)
        clear = chance <= _CHANCE
    lasting = _lasts(before, after, statistic)
    return Bounds(low, high, max(likely, hidden), shift, clear, _SLACK * min(1.0, error) * spread, lasting)


def _drawn(values: Floats, statistic: Statistic, rng: np.random.Generator) -> Floats:
    """Return what samples come to that are drawn from *values* with replacement; of very many, what that tends to."""
    count, draws = len(values), min(_MOST // len(values), _DRAWS)
    if draws < _LEAST_DRAWS:
        normal = rng.normal(size=_LEAST_DRAWS)
        means: Floats = values.mean() + values.std() / math.sqrt(count) * normal
        middle = np.clip(np.rint(count / 2 + math.sqrt(count) / 2 * normal), 0, count - 1)
        return means if statistic == "mean" else np.sort(values)[middle.astype(np.int64)]
    chosen = values[(rng.random((draws, len(values))) * len(values)).astype(np.int64)]
    drawn: Floats = _middles(chosen) if statistic == "median" else chosen.mean(axis=1)
    return drawn


def _squares(runs: Sequence[Floats] | Runs) -> float:
    """Sum the squares of what steps are off the mean of their run."""
    return float(sum(np.square(np.asarray(run) - np.mean(run)).sum() for run in runs))


def _drawn_in(before: Floats, after: Floats) -> tuple[list[Floats], float]:
    """Draw in single steps that are far off the median of their side; return the steps of both sides, and their spread."""
    sides = [before, after]
    middles = [_middle(side) for side in sides]
    off = [side - middle for side, middle in zip(sides, middles, strict=True)]
    far = _DRAWN_IN * 1.4826 * _middle(np.abs(np.concatenate(off)))
    mild = [np.clip(side, -far, far) for side in off]
    spread = math.sqrt(float(sum(np.square(side).sum() for side in mild)) / max(1, len(before) + len(after) - 2))
    return [middle + rest for middle, rest in zip(middles, mild, strict=True)], spread


@cache
def _error(*lengths: int) -> float:
    """Return the standard error of a difference of two runs, in spreads of their steps as they show it.

    Steps that are alike, by an autocorrelation of 0.7, are off together: the mean is farther off, and the spread that they
    show is too small.
    """
    total = 0.0
    for length in lengths:
        lags = np.arange(1, length)
        inflation = 1 + 2 * float(((1 - lags / length) * _ALIKE**lags).sum())
        total += (length - 1) / length * inflation / (length - inflation)
    return math.sqrt(total)


def _lasts(before: Floats, after: Floats, statistic: Statistic) -> bool:
    """Tell whether the sides lie farther apart than steps do that are alike, by the lasting spread of both together."""
    middles = [_middle(side) for side in (before, after)]
    off = [side - middle for side, middle in zip((before, after), middles, strict=True)]
    far = _STANDS_OUT * 1.4826 * _middle(np.abs(np.concatenate(off)))
    near = [middle + np.where(np.abs(rest) > far, 0.0, rest) for middle, rest in zip(middles, off, strict=True)]
    first, second = near if statistic == "median" else (before, after)
    return abs(float(second.mean() - first.mean())) > _spreads_needed(len(before), len(after)) * _lasting(near)


def _lasting(sides: Sequence[Floats]) -> float:
    """Return the spread that lasts for two steps: s · sqrt(1 + r), of the pooled spread and the pooled lag-one correlation.

    Steps that wander off together add to it twice, those that come back at once cancel.
    """
    off = [side - side.mean() for side in sides]
    total = sum(float(np.square(side).sum() + (side[1:] * side[:-1]).sum()) for side in off)
    return math.sqrt(max(0.0, total) / (sum(map(len, off)) - len(off)))


@cache
def _spreads_needed(*lengths: int) -> float:
    """Return how many lasting spreads a regression must be: what chance makes of steps that are alike, by Student's t.

    Of few steps that is more than independent steps would show of a plain change, so no more is asked for than what they show.
    """
    lasting, freedom, error = _shown(lengths, _ALIKE)
    low = math.floor(freedom)
    quantiles = [student(_LASTS, low), student(_LASTS, low + 1)]
    chance = math.sqrt(error / lasting) * float(np.interp(freedom, [low, low + 1], quantiles))
    lasting, freedom, error = _shown(lengths, 0.0)
    plain, sure = _SEEN
    # change - spreads * shown is positive in 99 of 100 cases: as far over 0 as 2.326 of its own deviations.
    mean, variance = math.sqrt(lasting) * (1 - 1 / (4 * freedom)), lasting / (2 * freedom)
    square = mean**2 - sure**2 * variance
    root = math.sqrt((plain * mean) ** 2 - square * (plain**2 - sure**2 * error))
    return min(chance, (plain * mean - root) / square)


def _shown(lengths: Sequence[int], alike: float) -> tuple[float, float, float]:
    """Return the square of the lasting spread that sides show, its degrees of freedom, and the variance of their difference.

    All in variances of a step, for an autocorrelation of *alike*, 0 or 0.7; the degrees as Satterthwaite adds them.
    """
    squares, lost, error = 0.0, 0.0, 0.0
    for n in lengths:
        powers = alike ** np.arange(n)
        inflation = 2 * float(((1 - np.arange(n) / n) * powers).sum()) - 1
        neighbours = (n - 1) * (alike + inflation / n) - 2 * (inflation - float(powers.sum()) / n)
        own = n - inflation + neighbours
        freedom = (n + 2) / 4 if alike else 2 * n / 3 - 0.5  # within 5 % of 2 E² / Var, from four steps on
        squares, lost, error = squares + own, lost + own**2 / freedom, error + inflation / n
    return squares / (sum(lengths) - len(lengths)), squares**2 / lost, error


def _of_deals(before: Floats, after: Floats, rng: np.random.Generator, *, upward: bool) -> float:
    """Return the share of ways to deal the steps to both sides that put the sum of *after* as far up (or down)."""
    pooled = np.concatenate([before, after])
    draws = min(_MOST // len(pooled), _DRAWS)
    if draws < _LEAST_DRAWS:
        spread = float(pooled.std()) * math.sqrt(len(before) * len(after) / (len(pooled) - 1))
        above = (float(after.sum()) - len(after) * float(pooled.mean())) * (1 if upward else -1)
        return 0.5 * math.erfc(above / spread / math.sqrt(2)) if spread else 1.0
    order = np.argsort(rng.random((draws, len(pooled))), axis=1)[:, : len(after)]
    sums, seen = pooled[order].sum(axis=1), float(after.sum())
    slack = 1e-9 * float(np.abs(pooled).sum())
    hits = (sums >= seen - slack) if upward else (sums <= seen + slack)
    return (int(hits.sum()) + 1) / (draws + 1)


# ---- several runs


def _of_runs(left: Runs, right: Runs, sign: float, statistic: Statistic, quiet: float | None, level: float) -> Bounds:
    """Take each run as one figure: how far the sides lie apart, beside how far runs of one side do."""
    sides = [np.array([summed_up(run, statistic) for run in runs]) for runs in (left, right)]
    grown = sign * float(sides[1].mean() - sides[0].mean())
    freedom = len(left) + len(right) - 2
    between = _squares(sides) / freedom
    lengths = [len(run) for run in (*left, *right)]
    steps, within = max(1, sum(lengths) - len(lengths)), 0.0
    if (
        statistic == "mean"
    ):  # what single steps make of it is known from all of them, and the runs cannot differ by less
        within = _squares([*left, *right]) / steps * float(np.mean([1 / n for n in lengths]))
    least = QUIET_RUNS * abs(float(sides[0].mean())) if quiet is None else quiet
    hardly_more = math.sqrt(least**2 + within)
    known = math.sqrt(between) <= hardly_more * _shown_at_most(freedom)
    error = math.sqrt(1 / len(left) + 1 / len(right))

    def far(chance: float) -> float:
        """Return the distance that chance puts between the sides, by the spread that runs show or hardly exceed."""
        most = -_NORMAL.inv_cdf(chance / 2) * max(math.sqrt(between), hardly_more) if known else math.inf
        shown = min(student(chance, freedom) * math.sqrt(between), most)
        return error * max(shown, student(chance, steps) * math.sqrt(within))

    certain, hardly = far(level * (_FEWEST if freedom <= 2 else 1)), far(_HARDLY)
    slack = error * student(_UNDER, freedom) * math.sqrt(between)
    low, high = grown - certain, grown + certain
    if (low <= 0 <= high) and (times := _by_times(sides, error, level * (_FEWEST if freedom <= 2 else 1))):
        least = sign * float(sides[0].mean()) * (times - 1)
        low, high = (max(low, least), high) if least > 0 else (low, min(high, least))
    return Bounds(low, high, grown + hardly, grown, True, slack)


def _by_times(sides: Sequence[Floats], error: float, chance: float) -> float:
    """Return by what factor the second side is at least larger (or smaller) than the first; 0 under twofold, or for chance.

    Runs of something slow spread more than runs of something fast, about in proportion: where one side takes a multiple of the
    other, the spread of the slow one in its unit says little of the fast one's, and logarithms are the scale of both.
    """
    if any((side <= 0).any() for side in sides):
        return 0.0
    logs = [np.log(side) for side in sides]
    apart, freedom = float(logs[1].mean() - logs[0].mean()), sum(map(len, logs)) - 2
    certain = abs(apart) - error * student(chance, freedom) * math.sqrt(_squares(logs) / freedom)
    return math.exp(math.copysign(certain, apart)) if abs(apart) >= _TWOFOLD and certain > 0 else 0.0


def _shown_at_most(freedom: int) -> float:
    """Return the spread that so many runs hardly show, in their true one: by Wilson and Hilferty's cube root."""
    part = 2 / (9 * freedom)
    return math.sqrt((1 - part + _REFUTED * math.sqrt(part)) ** 3)


@cache
def student(chance: float, freedom: int) -> float:
    """Return what Student's t exceeds with this chance."""
    low, high = 0.0, 1.0
    while _beyond(high, freedom) > chance:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _beyond(middle, freedom) > chance else (low, middle)
    return high


def _beyond(t: float, freedom: int) -> float:
    """Return the chance of Student's t to exceed *t*: the finite sums for whole degrees of freedom."""
    angle = math.atan2(t, math.sqrt(freedom))
    square, odd = math.cos(angle) ** 2, freedom % 2
    term = total = 1.0 if freedom > 1 else 0.0
    for index in range(2 + odd, freedom - 1, 2):
        term *= square * (index - 1) / index
        total += term
    total *= math.sin(angle) * (math.cos(angle) if odd else 1.0)
    return 0.5 * (1 - (2 / math.pi * (angle + total) if odd else total))


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

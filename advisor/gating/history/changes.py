"""Change points of one figure over runs: raised as runs come in, placed once more of them are there.

Raising is sequential: the mean of the last runs is held against the mean of all runs before them since the last change, for
windows of several lengths at once, by the generalized likelihood ratio (T. L. Lai, "Sequential changepoint detection in quality
control and dynamical systems", J. R. Stat. Soc. B 57, 1995: window-limited GLR). What a prefix of the runs raises, the whole
series raises too, at the same run. Placing is retrospective: each change goes to the split of largest likelihood between its
neighbours, and the weakest is taken back until all that are left are significant (as P. Fryzlewicz, "Wild binary segmentation
for multiple change-point detection", Ann. Stat. 42, 2014, does after its search).

Noise is the mean moving range of neighbouring runs, over 1.128, as of a chart of individual values: a change of level adds to
only one of the ranges. Single slow runs are drawn in towards the median of the last five (F. R. Hampel's identifier), so that
three runs at least make a change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
WINDOWS = np.array([3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 25, 30, 40])
"""Numbers of last runs that are held against those before."""
LEAST_RUNS = 8
"""Runs of a series before which nothing is raised: three on a side, and ranges enough to know the noise."""
SHORT = 8
THRESHOLD = 3.4
LONG_THRESHOLD = 3.8
"""Deviations of the mean of the last runs, of a known noise, at which a change for the worse is raised: of at most SHORT runs,
and of more. What gets better is in no hurry, and needs the second from the first run on."""
_RANGES = 100
"""Moving ranges that the noise is taken from at most, to draw single slow runs in."""
_RUNS = 300
"""Runs that the noise of a level is taken from at most: machines change, too."""
_INHERITED = 20.0
"""Degrees of freedom at most for which the noise of a level stands on the next one, whose own is not known yet."""
_PER_RANGE = 1.128379167095513
"""Mean moving range of a normal distribution, in its standard deviations: 2 / sqrt(pi)."""
_DRAWN_IN = 3.0
"""Deviations from the median of the last five runs to which a single run is drawn in."""
_MEDIAN_OF = 5
_SHORT_LIVED = 20
"""Runs at most of a level that a return to the one before it only takes back: chance raises such pairs."""
_SAME = 2.5
"""Deviations within which two levels are the same."""
_LEAST_SIDE = 3
_NOISE_FLOOR = 0.0005
"""Least noise, as a share of the figure: clocks and counters resolve no less."""
_BLOCK = 64
_MOST_BLOCK = 4096
_PASSES = 3
_AROUND = 40
"""Runs on each side of a change that tell a step from a ramp."""
_RAMPS = (5, 8, 12, 16, 24, 32)
"""Runs that a gradual change may take."""


class ChangePoint(NamedTuple):
    """A change of level between the runs *at* - 1 and *at*. ``raised`` is the run that first showed it; runs count from 0.

    ``before`` and ``after`` are the mean levels up to the neighbouring changes, ``noise`` is the deviation of single runs,
    ``strength`` how many times as large the change is as it has to be, *back* true of a return to the level before a short one.
    """

    at: int
    raised: int
    before: float
    after: float
    noise: float
    strength: float
    back: bool


class Scan(NamedTuple):
    """Series made ready: figures with single slow runs drawn in, their sums, and the sums of their squares."""

    figures: Floats
    sums: Floats
    squares: Floats


class Level(NamedTuple):
    """Variance of single runs about a level that ended, and the degrees of freedom that stand for it on the next one."""

    variance: float
    freedom: float


class Alarm(NamedTuple):
    """A run that showed a change, and the first run behind the change as it was placed then."""

    raised: int
    at: int
    back: bool = False
    """True where it only goes back to the level before a short one."""


class Limits(NamedTuple):
    """Least change that matters, as a share of the level before and in the figure's unit, and the way that is worse."""

    least: float = 0.01
    floor: float = 0.0
    worse: Literal["up", "down"] = "up"


def find(
    figures: Sequence[float] | Floats, least: float = 0.01, floor: float = 0.0, worse: Literal["up", "down"] = "up"
) -> list[ChangePoint]:
    """Return the change points of a series without gaps, in the order of its runs.

    A change matters from a share *least* of the level before it, and from *floor*, in the figure's unit.
    """
    limits = Limits(least, floor, worse)
    series = np.asarray(figures, np.float64)
    if len(series) < LEAST_RUNS:
        return []
    scan = prepare(series)
    return _place(scan, raise_alarms(scan, limits), limits)


def prepare(series: Floats) -> Scan:
    """Draw single slow runs in, and sum up."""
    ranges = np.cumsum(np.abs(np.diff(series, prepend=series[0])))
    count = np.arange(len(series))
    first = np.maximum(count - _RANGES, 0)
    noise = (ranges - ranges[first]) / np.maximum(count - first, 1) / _PER_RANGE
    padded = np.concatenate([np.full(_MEDIAN_OF - 1, series[0]), series])
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, _MEDIAN_OF), axis=1)
    far = np.maximum(_DRAWN_IN * noise, np.abs(middle) * _NOISE_FLOOR)
    drawn = np.clip(series, middle - far, middle + far)
    return Scan(drawn, _sums(drawn), _sums((drawn - drawn[0]) ** 2))


def _sums(values: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values)])


def _wanted(freedom: Floats, z: Floats) -> Floats:
    """Return the deviations that a change needs: Student's t for those of a known noise, as Cornish and Fisher expand it."""
    few = 4 * np.maximum(freedom, 1.0)
    wanted: Floats = z + (z**3 + z) / few + (5 * z**5 + 16 * z**3 + 3 * z) / (6 * few**2)
    return wanted


def _variance(scan: Scan, start: Ints, end: Ints, level: Level) -> tuple[Floats, Floats]:
    """Return the variance of single runs from *start* to before *end*, that of the level before counted in, and its freedom."""
    start = np.maximum(start, end - _RUNS)
    size = end - start
    mean = (scan.sums[end] - scan.sums[start]) / size
    about = mean - scan.figures[0]
    squares = np.maximum(scan.squares[end] - scan.squares[start] - size * about**2, 0.0)
    freedom = size - 1 + level.freedom
    variance = (squares + level.variance * level.freedom) / np.maximum(freedom, 1)
    return np.maximum(variance, (mean * _NOISE_FLOOR) ** 2), freedom


def raise_alarms(scan: Scan, limits: Limits) -> list[Alarm]:
    """Go through the runs as they came, and return what was raised."""
    alarms: list[Alarm] = []
    level = Level(0.0, 0.0)
    start, now, block = 0, LEAST_RUNS - 1, _BLOCK
    total = len(scan.figures)
    while now < total:
        end = min(total, now + block)
        found = _first(scan, start, now, end, level, limits)
        if found is None:
            now, block = end, min(2 * block, _MOST_BLOCK)
            continue
        at = _split(scan.sums, start, found + 1, _LEAST_SIDE)
        alarms.append(Alarm(found, at, _goes_back(scan, alarms, at, found + 1)))
        level = _ended(scan, start, at, found + 1, level)
        start, now, block = at, found + 1, _BLOCK
    return alarms


def _goes_back(scan: Scan, alarms: list[Alarm], at: int, end: int) -> bool:
    """Tell whether the runs from *at* are on the level again that stood before a short one."""
    if not alarms or at - alarms[-1].at > _SHORT_LIVED:
        return False
    start, left = alarms[-2].at if len(alarms) > 1 else 0, alarms[-1].at
    if left - start < _LEAST_SIDE:
        return False
    variance = float(_variance(scan, np.array([start]), np.array([left]), Level(0.0, 0.0))[0][0])
    change = abs(_mean(scan.sums, at, end) - _mean(scan.sums, start, left))
    return change <= _SAME * math.sqrt(variance * (1 / (end - at) + 1 / (left - start)))


def _mean(sums: Floats, start: int, end: int) -> float:
    return float(sums[end] - sums[start]) / (end - start)


def _ended(scan: Scan, start: int, at: int, end: int, level: Level) -> Level:
    """Return the noise that a level leaves to the next: in proportion to the figures, and worth some runs."""
    variance, freedom = _variance(scan, np.array([start]), np.array([at]), level)
    before, after = _mean(scan.sums, start, at), _mean(scan.sums, at, end)
    scale = min(1.0, (after / before) ** 2) if before else 1.0
    return Level(float(variance[0]) * scale, min(float(freedom[0]), _INHERITED))


def _first(scan: Scan, start: int, now: int, end: int, level: Level, limits: Limits) -> int | None:
    """Return the first of the runs *now* to *end* - 1 at which the last runs are off the level since *start*."""
    last = np.arange(now, end)
    windows = WINDOWS[: np.searchsorted(WINDOWS, end - start - _LEAST_SIDE, "right"), None]
    if not len(windows):
        return None
    split = last - windows + 1
    usable = split - start >= _LEAST_SIDE
    split = np.where(usable, split, start + 1)
    size = split - start
    sums = scan.sums
    after = (sums[last + 1] - sums[split]) / windows
    before = (sums[split] - sums[start]) / size
    variance, freedom = _variance(scan, np.full_like(split, start), split, level)
    change = after - before
    error = np.sqrt(variance * (1 / windows + 1 / size))
    worse = change if limits.worse == "up" else -change
    short = np.where(windows <= SHORT, THRESHOLD, LONG_THRESHOLD)
    off = worse >= _wanted(freedom, short) * error
    off |= -worse >= _wanted(freedom, np.array(LONG_THRESHOLD)) * error
    off &= usable & (np.abs(change) >= np.maximum(limits.least * np.abs(before), limits.floor))
    hits = np.flatnonzero(off.any(axis=0))
    return int(last[hits[0]]) if len(hits) else None


def _strengths(sums: Floats, start: int, end: int, side: int) -> tuple[Ints, Floats, Floats]:
    """Return all splits of the runs *start* to *end* - 1, the change of the mean at each, and its likelihood's root."""
    splits = np.arange(start + side, end - side + 1)
    left, right = splits - start, end - splits
    change = (sums[end] - sums[splits]) / right - (sums[splits] - sums[start]) / left
    return splits, change, np.abs(change) / np.sqrt(1 / left + 1 / right)


def _split(sums: Floats, start: int, end: int, side: int) -> int:
    """Return the split of the runs *start* to *end* - 1 of the largest likelihood."""
    splits, _, strength = _strengths(sums, start, end, side)
    return int(splits[np.argmax(strength)])


def _place(scan: Scan, alarms: list[Alarm], limits: Limits) -> list[ChangePoint]:
    """Place each change between its neighbours, and take back what is none."""
    kept = list(alarms)
    total = len(scan.figures)
    while kept:
        for _ in range(_PASSES):
            places = [alarm.at for alarm in kept]
            for index in range(len(kept)):
                start = kept[index - 1].at if index else 0
                end = kept[index + 1].at if index + 1 < len(kept) else total
                if end - start >= 2 * _LEAST_SIDE:
                    kept[index] = kept[index]._replace(at=_split(scan.sums, start, end, _LEAST_SIDE))
            if places == [alarm.at for alarm in kept]:
                break
        points = _points(scan, kept, total)
        weak = [
            (point.strength, index)
            for index, point in enumerate(points)
            if point.strength < 1
            or abs(point.after - point.before) < max(limits.least * abs(point.before), limits.floor)
        ]
        if not weak:
            return points
        del kept[min(weak)[1]]
    return []


def _points(scan: Scan, alarms: list[Alarm], total: int) -> list[ChangePoint]:
    bounds = [0, *(alarm.at for alarm in alarms), total]
    points = []
    for index, alarm in enumerate(alarms):
        start, at, end = bounds[index], bounds[index + 1], bounds[index + 2]
        before, after = _mean(scan.sums, start, at), _mean(scan.sums, at, end)
        variance, freedom = _variance(scan, np.array([start, at]), np.array([at, end]), Level(0.0, 0.0))
        pooled = float((variance * freedom).sum() / max(float(freedom.sum()), 1.0))
        error = math.sqrt(pooled * (1 / (at - start) + 1 / (end - at)))
        wanted = float(_wanted(freedom.sum(keepdims=True), np.array([THRESHOLD]))[0])
        strength = abs(after - before) / error / wanted if error else math.inf
        points.append(ChangePoint(at, alarm.raised, before, after, math.sqrt(pooled), float(strength), alarm.back))
    return points


def noise_of(series: Floats) -> float:
    """Return the standard deviation of single runs, by the mean moving range; 0 for one run."""
    return float(np.abs(np.diff(series)).mean()) / _PER_RANGE if len(series) > 1 else 0.0


def extent(series: Floats, point: ChangePoint, points: Sequence[ChangePoint]) -> tuple[int, int]:
    """Return the run that a change began with, the last on the level before, and the one it ended with.

    They are neighbours of a step. A change is gradual where a ramp fits the runs around it better than a step, by more than
    its further parameter is worth (G. Schwarz, "Estimating the dimension of a model", Ann. Stat. 6, 1978).
    """
    index = points.index(point)
    start = max(points[index - 1].at if index else 0, point.at - _AROUND)
    end = min(points[index + 1].at if index + 1 < len(points) else len(series), point.at + _AROUND)
    runs, x = series[start:end], np.arange(start, end)
    best, ends = _misfit(runs, (x >= point.at).astype(np.float64)), (point.at - 1, point.at)
    worth = len(runs) ** (1 / len(runs))
    for length in _RAMPS:
        for first in range(max(start + 1, point.at - length), min(point.at + 1, end - 2)):
            ramp = np.clip((x - first + 1) / length, 0.0, 1.0)
            misfit = _misfit(runs, ramp) * worth
            if misfit < best:
                best, ends = misfit, (first - 1, min(first + length - 1, end - 1))
    return ends


def _misfit(runs: Floats, shape: Floats) -> float:
    """Return the squares that are left of some runs by a level and a *shape* that is added to it."""
    about, centred = shape - shape.mean(), runs - runs.mean()
    size = float(about @ about)
    return float(centred @ centred) - (float(about @ centred) ** 2 / size if size else 0.0)

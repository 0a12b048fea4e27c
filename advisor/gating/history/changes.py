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
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
WINDOWS = np.array([3, 4, 5, 6, 7, 8, 10, 14, 20, 28, 40])
"""Numbers of last runs that are held against those before."""
LEAST_RUNS = 8
"""Runs of a series before which nothing is raised: three on a side, and ranges enough to know the noise."""
SHORT = 8
THRESHOLD = 3.3
LONG_THRESHOLD = 4.1
"""Deviations of the mean of the last runs, of a known noise, at which a change for the worse is raised: of at most SHORT runs,
and of more. What gets better is in no hurry, and needs the second from the first run on."""
_RANGES = 100
"""Moving ranges that the noise is taken from at most, to draw single slow runs in."""
_RUNS = 1000
"""Runs that a level and its noise are taken from at most: machines change, too."""
_INHERITED = 20
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
_BLOCK = 128
_MOST_BLOCK = 4096
_PASSES = 3
_NEWS = 20
"""Runs after which a change has to be as sure as one of the whole series: sqrt(2 log n) deviations, as after Fryzlewicz."""
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
    """Series made ready, single slow runs drawn in: sums of what each differs from the *origin* by, and of the squares."""

    origin: float
    sums: Floats
    squares: Floats

    @property
    def total(self) -> int:
        """The number of runs."""
        return len(self.sums) - 1

    def mean(self, start: int, end: int) -> float:
        """Return the mean of the runs *start* to *end* - 1."""
        return self.origin + float(self.sums[end] - self.sums[start]) / (end - start)


class Level(NamedTuple):
    """Variance of single runs about a level that ended, and the degrees of freedom that stand for it on the next one."""

    variance: float
    freedom: int


class Alarm(NamedTuple):
    """A run that showed a change, and the first run behind the change as it was placed then."""

    raised: int
    at: int
    rise: bool = True
    """True where the figure went up."""
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
    return _place(prepare(series, behind=_MEDIAN_OF // 2), raise_alarms(scan, limits), limits)


def prepare(series: Floats, behind: int = 0) -> Scan:
    """Draw single slow runs in, and sum up. The median is of the runs up to each, and of so many *behind* it.

    Without any behind, the first two runs after a change are drawn in too.
    """
    ranges = np.cumsum(np.abs(np.diff(series, prepend=series[0])))
    # A run's own range, and that of a slow one just before, are not what it is measured by.
    count = np.arange(len(series))
    count = np.where(count > 2 * _LEAST_SIDE, count - _LEAST_SIDE, count)
    first = np.maximum(count - _RANGES, 0)
    noise = (ranges[count] - ranges[first]) / np.maximum(count - first, 1) / _PER_RANGE
    ends = np.full(_MEDIAN_OF - 1 - behind, series[0]), np.full(behind, np.median(series[-_LEAST_SIDE:]))
    padded = np.concatenate([ends[0], series, ends[1]])
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, _MEDIAN_OF), axis=1)
    far = np.maximum(_DRAWN_IN * noise, np.abs(middle) * _NOISE_FLOOR)
    drawn = np.clip(series, middle - far, middle + far)
    origin = float(series[0])
    return Scan(origin, _sums(drawn - origin), _sums((drawn - origin) ** 2))


def _sums(values: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values)])


def _wanted(z: float) -> Floats:
    """Return the deviations that a change needs by the degrees of freedom of the noise: Student's t, for a normal quantile *z*.

    By the expansion of Cornish and Fisher.
    """
    few = 4 * np.maximum(np.arange(2 * _RUNS + 100, dtype=np.float64), 1.0)
    wanted: Floats = z + (z**3 + z) / few + (5 * z**5 + 16 * z**3 + 3 * z) / (6 * few**2)
    return wanted


_SHORT_WANTED, _LONG_WANTED = _wanted(THRESHOLD), _wanted(LONG_THRESHOLD)


def _noise(scan: Scan, start: int, end: int, level: Level) -> Level:
    """Return the noise about the level of the runs *start* to *end* - 1, that of the level before it counted in."""
    start = max(start, end - _RUNS)
    size = end - start
    about = float(scan.sums[end] - scan.sums[start]) / size
    squares = max(float(scan.squares[end] - scan.squares[start]) - size * about**2, 0.0)
    freedom = size - 1 + level.freedom
    variance = (squares + level.variance * level.freedom) / max(freedom, 1)
    return Level(max(variance, ((about + scan.origin) * _NOISE_FLOOR) ** 2), freedom)


def raise_alarms(scan: Scan, limits: Limits) -> list[Alarm]:
    """Go through the runs as they came, and return what was raised."""
    alarms: list[Alarm] = []
    level = Level(0.0, 0)
    start, now, block = 0, LEAST_RUNS - 1, _BLOCK
    total = scan.total
    while now < total:
        end = min(total, now + block)
        found = _first(scan, start, now, end, level, limits)
        if found is None:
            now, block = end, min(2 * block, _MOST_BLOCK)
            continue
        at = _split(scan.sums, start, found + 1, _LEAST_SIDE)
        rise = scan.mean(at, found + 1) > scan.mean(start, at)
        alarms.append(Alarm(found, at, rise, _goes_back(scan, alarms, at, found + 1)))
        level = _ended(scan, start, at, found + 1, level)
        start = at + _MEDIAN_OF // 2  # the runs before it are drawn in towards the level that ended
        now, block = max(found + 1, start + 2 * _LEAST_SIDE - 1), _BLOCK
    return alarms


def _goes_back(scan: Scan, alarms: list[Alarm], at: int, end: int) -> bool:
    """Tell whether the runs from *at* are on the level again that stood before a short one."""
    if not alarms or at - alarms[-1].at > _SHORT_LIVED:
        return False
    start, left = alarms[-2].at if len(alarms) > 1 else 0, alarms[-1].at
    at += _MEDIAN_OF // 2  # the runs before it are drawn in
    if left - start < _LEAST_SIDE:
        return False
    variance = _noise(scan, start, left, Level(0.0, 0)).variance
    change = abs(scan.mean(at, end) - scan.mean(start, left))
    return change <= _SAME * math.sqrt(variance * (1 / (end - at) + 1 / (left - start)))


def _ended(scan: Scan, start: int, at: int, end: int, level: Level) -> Level:
    """Return the noise that a level leaves to the next: in proportion to the figures, and worth some runs."""
    noise = _noise(scan, start, at, level)
    before, after = scan.mean(start, at), scan.mean(at, end)
    scale = min(1.0, abs(after) / abs(before)) ** 2 if before else 1.0
    return Level(noise.variance * scale, min(noise.freedom, _INHERITED))


def _first(scan: Scan, start: int, now: int, end: int, level: Level, limits: Limits) -> int | None:
    """Return the first of the runs *now* to *end* - 1 at which the last runs are off the level since *start*."""
    last = np.arange(now + 1, end + 1)
    split = np.maximum(last - WINDOWS[:, None], start + _LEAST_SIDE)
    first = np.maximum(start, split - _RUNS)
    size, window = split - first, last - split
    about, at_split = scan.sums.take(split) - scan.sums.take(first), scan.sums.take(split)
    about /= size
    change = scan.sums[last] - at_split
    change /= window
    change -= about
    freedom = size + (level.freedom - 1)
    variance = scan.squares.take(split) - scan.squares.take(first)
    variance -= size * about**2
    variance += level.variance * level.freedom
    variance /= freedom
    before = np.abs(about + scan.origin)
    np.maximum(variance, (before * _NOISE_FLOOR) ** 2, out=variance)
    error = np.sqrt(variance * (1 / window + 1 / size))
    wanted = _LONG_WANTED.take(freedom)
    short = (change > 0) == (limits.worse == "up")
    short &= window <= SHORT
    np.copyto(wanted, _SHORT_WANTED.take(freedom), where=short)
    wanted *= error
    np.abs(change, out=change)
    off = (change >= wanted) & (change > 0)
    off &= change >= np.maximum(limits.least * before, limits.floor)
    hits = np.flatnonzero(off.any(axis=0))
    return int(last[hits[0]]) - 1 if len(hits) else None


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
    total = scan.total
    moved = set(range(len(kept)))
    while kept:
        for _ in range(_PASSES):
            moved = _moved(scan, kept, moved)
            if not moved:
                break
        points = _points(scan, kept, total)
        weak = [
            (point.strength, index)
            for index, point in enumerate(points)
            if point.strength < 1
            or point.after == point.before
            or abs(point.after - point.before) < max(limits.least * abs(point.before), limits.floor)
        ]
        if not weak:
            return points
        # Of neighbours only the weakest is taken back: the other may be sure without it.
        gone: set[int] = set()
        for _, index in sorted(weak):
            if not gone & {index - 1, index, index + 1}:
                gone.add(index)
        left = [index for index in range(len(kept)) if index not in gone]
        moved = {place for place, index in enumerate(left) if gone & {index - 1, index + 1}}
        kept = [kept[index] for index in left]
    return []


def _moved(scan: Scan, kept: list[Alarm], candidates: set[int]) -> set[int]:
    """Place changes anew between their neighbours; return those whose neighbours were moved."""
    moved: set[int] = set()
    for index in sorted(candidates):
        start = kept[index - 1].at if index else 0
        end = kept[index + 1].at if index + 1 < len(kept) else scan.total
        if end - start >= 2 * _LEAST_SIDE:
            at = _split(scan.sums, start, end, _LEAST_SIDE)
            if at != kept[index].at:
                kept[index] = kept[index]._replace(at=at)
                moved |= {index - 1, index + 1} & set(range(len(kept)))
    return moved


def _points(scan: Scan, alarms: list[Alarm], total: int) -> list[ChangePoint]:
    bounds = [0, *(alarm.at for alarm in alarms), total]
    old = max(THRESHOLD, math.sqrt(2 * math.log(total)))
    points = []
    for index, alarm in enumerate(alarms):
        start, at, end = bounds[index], bounds[index + 1], bounds[index + 2]
        before, after = scan.mean(start, at), scan.mean(at, end)
        sides = [_noise(scan, start, at, Level(0.0, 0)), _noise(scan, at, end, Level(0.0, 0))]
        freedom = max(sides[0].freedom + sides[1].freedom, 1)
        pooled = sum(side.variance * side.freedom for side in sides) / freedom
        error = math.sqrt(pooled * (1 / (at - start) + 1 / (end - at)))
        # Of a change that is no news all splits of the series were looked at; one that was just raised waits for more runs.
        z = THRESHOLD if total - alarm.raised <= _NEWS else old
        wanted = float(_SHORT_WANTED[freedom]) * z / THRESHOLD
        strength = abs(after - before) / error / wanted if error else math.inf
        points.append(ChangePoint(at, alarm.raised, before, after, math.sqrt(pooled), strength, alarm.back))
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
    inside = slice(start - point.at + _AROUND, end - point.at + _AROUND)
    shapes, bounds = _shapes()
    fits = (bounds[:, 0] >= start - point.at) & (bounds[:, 0] < end - point.at - 1)
    fits[0] = True
    shapes, bounds = shapes[fits, inside], bounds[fits]
    about, runs = shapes - shapes.mean(axis=1, keepdims=True), series[start:end] - series[start:end].mean()
    sizes = np.einsum("ij,ij->i", about, about)
    misfits = runs @ runs - (about @ runs) ** 2 / np.maximum(sizes, 1e-12)
    misfits[1:] *= len(runs) ** (1 / len(runs))
    first, last = bounds[int(np.argmin(misfits))]
    return point.at + int(first), min(point.at + int(last), end - 1)


@cache
def _shapes() -> tuple[Floats, Ints]:
    """Return a step and all ramps around it, 0 before and 1 behind, and the runs with which they begin and end, from the step."""
    runs = np.arange(-_AROUND, _AROUND)
    shapes, bounds = [(runs >= 0).astype(np.float64)], [(-1, 0)]
    for length in _RAMPS:
        for first in range(-length, 1):
            shapes.append(np.clip((runs - first) / length, 0.0, 1.0))
            bounds.append((first, first + length))
    return np.array(shapes), np.array(bounds)

"""Change points on synthetic series: how soon a shift and a drift are raised, where they are placed, and how often for nothing.

    python benchmarks/history.py              the study, 1,000 series of each kind
    python benchmarks/history.py --series 200
    python benchmarks/history.py --otava /path/to/python   the same series by Apache Otava, in an environment of its own

Noise is 1.5 % of the figure, the shift 3 % for the worse, the drift 0.3 % a run; 100 runs come before either.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from advisor.gating.history import changes

NOISE, SHIFT, DRIFT = 0.015, 0.03, 0.003
BEFORE, SOON, MORE, GRADUAL = 100, 6, 20, 15
QUIET = 1000
LEVEL_MS = 100.0
NEAR = 2


class Study(NamedTuple):
    """Shares of series, and false alarms in 1,000 runs: for the worse, and in either direction."""

    raised: float
    placed: float
    drift: float
    false_worse: float
    false_any: float


def shifted(random: np.random.Generator, more: int = SOON + MORE) -> changes.Floats:
    """Return a series that gets 3 % worse after 100 runs."""
    series = _quiet(random, BEFORE + more)
    series[BEFORE:] *= 1 + SHIFT
    return series


def drifting(random: np.random.Generator) -> changes.Floats:
    """Return a series that gets 0.3 % worse with each of the last 15 of its runs."""
    series = _quiet(random, BEFORE + GRADUAL)
    series[BEFORE:] *= 1 + DRIFT * np.arange(1, GRADUAL + 1)
    return series


def _quiet(random: np.random.Generator, runs: int) -> changes.Floats:
    return LEVEL_MS * (1 + NOISE * random.standard_normal(runs))


def alarms(series: changes.Floats) -> list[tuple[int, str]]:
    """Return the runs that raised a change as they came in, and which way it went."""
    scan, limits = changes.prepare(series), changes.Limits()
    return [
        (alarm.raised, "worse" if alarm.rise else "better")
        for alarm in changes.raise_alarms(scan, limits)
        if not alarm.back
    ]


def study(series: int, quiet: int, seed: int = 19) -> Study:
    """Measure on *series* of each kind, and on *quiet* of 1,000 runs in which nothing happens."""
    random = np.random.default_rng(seed)
    raised = placed = drift = worse = either = 0
    for _ in range(series):
        figures = shifted(random)
        raised += any(BEFORE <= run < BEFORE + SOON and way == "worse" for run, way in alarms(figures))
        placed += any(abs(point.at - BEFORE) <= NEAR for point in changes.find(figures))
        drift += any(run >= BEFORE and way == "worse" for run, way in alarms(drifting(random)))
    for _ in range(quiet):
        found = alarms(_quiet(random, QUIET))
        either += len(found)
        worse += sum(way == "worse" for _, way in found)
    runs = quiet * QUIET / 1000
    return Study(raised / series, placed / series, drift / series, worse / runs, either / runs)


_OTAVA = """
import json, sys
from otava.analysis import compute_change_points
rows = json.load(sys.stdin)
out = []
for row in rows:
    result = compute_change_points(row, window_len=50, max_pvalue=0.001, min_magnitude=0.0)
    points = result[0] if isinstance(result, tuple) else result
    out.append([int(point.index) for point in points])
json.dump(out, sys.stdout)
"""


def otava(python: str, rows: list[list[float]]) -> tuple[list[list[int]], float]:
    """Return the change points of each row by Apache Otava's E-divisive with its t-test, and the seconds that took."""
    begin = time.perf_counter()
    answer = subprocess.run([python, "-c", _OTAVA], input=json.dumps(rows), capture_output=True, text=True, check=True)
    return json.loads(answer.stdout), time.perf_counter() - begin


def beside_otava(python: str, series: int, quiet: int, seed: int = 19) -> None:
    """Print both on the same series."""
    random = np.random.default_rng(seed)
    soon = [shifted(random, SOON) for _ in range(series)]
    late = [shifted(random) for _ in range(series)]
    slow = [drifting(random) for _ in range(series)]
    none = [_quiet(random, QUIET) for _ in range(quiet)]
    begin = time.perf_counter()
    ours = [[[point.at for point in changes.find(row)] for row in rows] for rows in (soon, late, slow, none)]
    took = time.perf_counter() - begin
    theirs, theirs_took = otava(python, [row.tolist() for rows in (soon, late, slow, none) for row in rows])
    cut = [0, series, 2 * series, 3 * series, 3 * series + quiet]
    parts = [theirs[start:end] for start, end in pairwise(cut)]
    for name, (first, second, third, last), seconds in (("advisor", ours, took), ("otava", parts, theirs_took)):
        print(
            f"{name:8} shift seen in {SOON} runs {_share(first):.3f}   placed after {MORE} more "
            f"{np.mean([any(abs(at - BEFORE) <= NEAR for at in row) for row in second]):.3f}   drift seen in {GRADUAL} "
            f"{_share(third):.3f}   false points in 1,000 runs {sum(map(len, last)) / quiet / QUIET * 1000:.2f}   {seconds:.1f} s"
        )


def _share(rows: list[list[int]]) -> float:
    """Return the share of series with a change point near the change or behind it."""
    return float(np.mean([any(at >= BEFORE - NEAR for at in row) for row in rows]))


def main() -> None:
    """Print the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=1000)
    parser.add_argument("--quiet", type=int, default=300, help="series of 1,000 runs in which nothing happens")
    parser.add_argument("--otava", metavar="PYTHON", help="Python of an environment with apache-otava")
    options = parser.parse_args()
    if options.otava:
        return beside_otava(options.otava, options.series, options.quiet)
    result = study(options.series, options.quiet)
    print(
        f"3 % shift at 1.5 % noise: raised within {SOON} runs {result.raised:.3f}, placed within {NEAR} {result.placed:.3f}"
    )
    print(f"drift of 0.3 % a run: raised within {GRADUAL} runs {result.drift:.3f}")
    print(f"false alarms in 1,000 runs: {result.false_worse:.2f} for the worse, {result.false_any:.2f} in all")
    return None


if __name__ == "__main__":
    sys.exit(main())

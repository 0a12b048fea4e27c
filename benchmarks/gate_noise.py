"""Error rates of the gate under noise of known kind and size, by steps and runs: simulated, so that it can be asked often.

One program, a step of 100 ms of which 80 are kernels, is put under noise of its steps (independent, autocorrelated, drifting,
spiked) or between its runs, and judged by the whole gate against itself and against itself with longer kernels.
``benchmarks/gate_study.py`` writes the tables into docs/gate-study.md.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

import advisor
from advisor.gating import baseline
from advisor.gating import judge as gating
from advisor.results.analysis import Analysis
from advisor.testing import TraceBuilder

STEP_MS, KERNEL_MS = 100.0, 80.0
GROWN = (0.03, 0.05, 0.10, 0.20)
STEPS = (5, 10, 20)
Noise = Callable[[int, np.random.Generator], np.ndarray]
"""Factors of the steps of one run."""


class Model(NamedTuple):
    """A kind of noise, and of runs that differ as a whole by a standard deviation of *between*.

    Where *parts* is given, causes of idle time differ from run to run by that share of theirs, each by itself. *often* is how
    many times as many comparisons with itself are made, where what is promised is rare.
    """

    name: str
    noise: Noise
    between: float = 0.0
    parts: float = 0.0
    often: int = 1


def independent(spread: float) -> Noise:
    """Steps that know nothing of each other."""
    return lambda count, rng: 1 + rng.normal(0, spread, count)


def autocorrelated(spread: float, of: float = 0.7) -> Noise:
    """Steps that are like the one before."""

    def factors(count: int, rng: np.random.Generator) -> np.ndarray:
        values = rng.normal(0, spread, count)
        for index in range(1, count):
            values[index] = of * values[index - 1] + np.sqrt(1 - of * of) * values[index]
        return 1 + values

    return factors


def drifting(by: float, spread: float = 0.01) -> Noise:
    """A run that gets slower evenly from its first step to its last, by as much or as little as chance has it."""
    return lambda count, rng: 1 + rng.uniform(0, by) * np.linspace(0, 1, count) + rng.normal(0, spread, count)


def spiked(share: float, times: float, spread: float = 0.01) -> Noise:
    """Some steps, by chance, that take times as long."""
    return lambda count, rng: (1 + rng.normal(0, spread, count)) * np.where(rng.random(count) < share, times, 1.0)


OF_STEPS = (
    Model("independent, 1 %", independent(0.01)),
    Model("independent, 2 %", independent(0.02)),
    Model("independent, 5 %", independent(0.05)),
    Model("autocorrelated 0.7, 2 %", autocorrelated(0.02)),
    Model("autocorrelated 0.7, 5 %", autocorrelated(0.05), often=5),
    Model("drift of up to 5 % in a run, 1 %", drifting(0.05)),
    Model("one step of 20 takes twice as long, 1 %", spiked(0.05, 2.0)),
)
BETWEEN_RUNS = (
    *(Model(f"{100 * spread:g} % between runs", independent(0.01), spread) for spread in (0.0, 0.01, 0.02, 0.05)),
    Model("1 % between runs, causes of idle time 30 %", independent(0.01), 0.01, 0.3),
)
THREE = tuple(
    model._replace(name=f"{model.name}, three runs", often=1)
    for model in (OF_STEPS[1], OF_STEPS[3], OF_STEPS[4], *BETWEEN_RUNS[2:4])
)
"""Noise of three runs a side, by the number of their steps."""
TABLES = {"steps": OF_STEPS, "runs": BETWEEN_RUNS, "three": THREE}
IDLE, IDLE_MS = ("loader_ms", "sync_ms", "host_ms", "exposed_communication_ms"), 5.0
RUNS = ((1, 1), (3, 1), (3, 3), (5, 5))
OFTEN = 3
"""Times as many comparisons of several runs: what they promise is rare."""


@cache
def program() -> Analysis:
    """The program, with rules left out: what is asked is how the figures are judged."""
    made = TraceBuilder(profile_memory=False)
    for _ in range(6):
        with made.step(), made.op("aten::mm"):
            made.kernel("volta_sgemm_128x64_nn", us=1000)
    with tempfile.TemporaryDirectory() as folder:
        path = made.write(Path(folder) / "program.json")
        return advisor.analyze(advisor.read(str(path), source="program"), only=["sync/*"], samples=True)


def run(factors: Sequence[float] | np.ndarray, grown: float = 0.0, parts: Sequence[float] = ()) -> Analysis:
    """A run of the program whose steps take *factors* of the usual, and whose kernels take longer by a share of the step.

    Causes of idle time take *parts* of what they usually do.
    """
    times, whole = np.asarray(factors, np.float64), program()
    samples = whole.samples
    assert samples is not None
    more = STEP_MS * grown
    figures = {
        "step_ms": times * STEP_MS + more,
        "kernel_ms": times * KERNEL_MS + more,
    }
    figures |= {name: times * IDLE_MS * part for name, part in zip(IDLE, parts, strict=False)}
    count = len(times)
    metrics = {name: np.round(values, 6).tolist() for name, values in figures.items()}
    made = msgspec.structs.replace(samples, steps=count, metrics=metrics, rules={})
    return msgspec.structs.replace(whole, samples=made)


def verdict(base: Sequence[Analysis], now: Sequence[Analysis]) -> str:
    """The gate's verdict."""
    return gating.judge(now, baseline.make(base)).verdict


def drawn(model: Model, steps: int, runs: tuple[int, int], grown: float, rng: np.random.Generator) -> str:
    """The gate's answer to one comparison by chance."""

    def one(more: float) -> Analysis:
        parts = np.maximum(0.0, 1 + rng.normal(0, model.parts, len(IDLE))) if model.parts else ()
        return run(model.noise(steps, rng) * (1 + rng.normal(0, model.between)), more, parts)

    return verdict(*([one(more) for _ in range(count)] for count, more in zip(runs, (0.0, grown), strict=True)))


class Row(NamedTuple):
    """Outcomes of comparisons: of the program with itself, and by the size of a regression."""

    model: str
    steps: int
    runs: tuple[int, int]
    same: Counter[str]
    grown: dict[float, Counter[str]]


class Task(NamedTuple):
    """One row to make: the model by its place in a table, so that another process finds it too."""

    table: str
    model: int
    steps: int
    runs: tuple[int, int]
    draws: int
    seed: int


def row(task: Task) -> Row:
    """Make a row: so many comparisons with itself, and a fifth as many of each size of regression."""
    model = TABLES[task.table][task.model]
    rng = np.random.default_rng(task.seed)
    same = Counter(drawn(model, task.steps, task.runs, 0.0, rng) for _ in range(task.draws * model.often))
    grown = {
        share: Counter(drawn(model, task.steps, task.runs, share, rng) for _ in range(max(1, task.draws // 5)))
        for share in GROWN
    }
    return Row(model.name, task.steps, task.runs, same, grown)


def of_steps(draws: int) -> Iterator[Task]:
    """One run a side, by kind of noise and number of steps."""
    for number in range(len(OF_STEPS)):
        for steps in STEPS:
            yield Task("steps", number, steps, (1, 1), draws, 1000 + 10 * number + steps)


def between_runs(draws: int) -> Iterator[Task]:
    """Runs of ten steps, by how far runs differ and how many there are."""
    for number in range(len(BETWEEN_RUNS)):
        for runs in RUNS:
            yield Task("runs", number, 10, runs, OFTEN * draws, 2000 + 100 * number + 10 * runs[0] + runs[1])


def three_runs(draws: int) -> Iterator[Task]:
    """Three runs a side, by kind of noise and number of steps."""
    for number in range(len(THREE)):
        for steps in STEPS:
            yield Task("three", number, steps, (3, 3), OFTEN * draws, 6000 + 100 * number + steps)


def least(steps: int, draws: int, missed: float = 0.01) -> float:
    """Return the least rate of false alarms of any test that sees +10 % of independent steps of 2 % in all but *missed* cases.

    Its steps are alike by 0.7 and vary by 5 %. By Neyman and Pearson the test is the ratio of likelihoods, which knows both kinds
    of noise and the size of the change; that of the differences between steps, as the level of the program is not known.
    """
    gaps, rng = np.abs(np.subtract.outer(np.arange(steps), np.arange(steps))), np.random.default_rng(5000 + steps)
    side = 0.05**2 * 0.7**gaps
    kinds = (0.02**2 * np.eye(2 * steps), np.kron(np.eye(2), side))
    grown = np.repeat([0.0, 0.10], steps)
    differences = np.diff(np.eye(2 * steps), axis=0)
    inverses = [np.linalg.inv(differences @ kind @ differences.T) for kind in kinds]

    def ratio(seen: np.ndarray) -> np.ndarray:
        changed, same = seen - differences @ grown, seen
        squares = [np.einsum("ij,jk,ik->i", y, of, y) for y, of in zip((changed, same), inverses, strict=True)]
        return np.asarray(squares[1] - squares[0])

    found = [
        ratio((rng.normal(size=(draws, 2 * steps)) @ np.linalg.cholesky(kind).T + shift) @ differences.T)
        for kind, shift in zip(kinds, (grown, 0.0), strict=True)
    ]
    return float(np.mean(found[1] > np.quantile(found[0], missed)))


class Spikes(NamedTuple):
    """Slow steps put into a quiet program."""

    slow: int
    steps: int
    times: float
    before: int
    verdicts: Counter[str]

    @property
    def raised(self) -> float:
        """By what share they raise the mean step."""
        return ((self.slow - self.before) * (self.times - 1) / self.steps) / (
            1 + self.before * (self.times - 1) / self.steps
        )


SPIKES = ((1, 20, 4.0, 0), (2, 20, 3.0, 0), (3, 20, 2.0, 0), (4, 20, 3.0, 0), (5, 20, 1.5, 0), (7, 20, 1.5, 0),
          (5, 20, 10.0, 1), (5, 20, 100.0, 1), (10, 20, 1.3, 0), (2, 10, 10.0, 0), (3, 10, 3.0, 0))  # fmt: skip


def spikes(number: int, draws: int) -> Spikes:
    """Put slow steps at places that chance chooses into a program whose steps vary by 1 %."""
    slow, steps, times, before = SPIKES[number]
    rng, counts = np.random.default_rng(3000 + number), Counter[str]()
    for _ in range(draws):
        sides = []
        for many in (before, slow):
            factors = 1 + rng.normal(0, 0.01, steps)
            factors[rng.choice(steps, many, replace=False)] *= times
            sides.append([run(factors)])
        counts[verdict(*sides)] += 1
    return Spikes(slow, steps, times, before, counts)


def short(draws: int) -> Counter[str]:
    """Answers to recordings of one, two and three steps: there is none."""
    rng = np.random.default_rng(4000)
    model = OF_STEPS[0]
    return Counter(drawn(model, 1 + number % 3, (1, 1), 0.1 * (number % 2), rng) for number in range(draws))


# ---- the page


def share(counts: Counter[str], word: str) -> str:
    """A share of the comparisons in per cent."""
    part = 100 * counts[word] / sum(counts.values())
    return f"{part:.1f}" if part in (0, 100) or part >= 10 else f"{part:.2g}"


def at_most(hits: int, of: int, sure: float = 0.95) -> float:
    """Return the highest rate that gives no more *hits* with a chance of 1 - *sure*: Clopper and Pearson's upper end."""
    low, high = hits / of, 1.0
    for _ in range(50):
        rate = (low + high) / 2
        chance = sum(
            math.exp(math.lgamma(of + 1) - math.lgamma(k + 1) - math.lgamma(of - k + 1) + k * math.log(rate)
                     + (of - k) * math.log1p(-rate))
            for k in range(hits + 1)
        )  # fmt: skip
        low, high = (rate, high) if chance > 1 - sure else (low, rate)
    return high


def false_alarms(counts: Counter[str]) -> str:
    """The share that failed in per cent, and what it is at most, with 95 %."""
    return f"{share(counts, 'failed')} (≤ {100 * at_most(counts['failed'], sum(counts.values())):.2g})"


BEST = (
    "Few steps cannot tell noise that is alike from a change. Of all tests that see +10 % of independent steps of 2 % in 99 of 100 "
    "comparisons, the best, which knows both kinds of noise and the size of the change but not the level of the program, fails "
    "{} % of A/A comparisons of 5 steps with an autocorrelation of 0.7 at 5 %, {} % of 10 and {} % of 20."
)
HEADS = ["A/A failed", "A/A passed", *(f"+{100 * grown:g} % failed" for grown in GROWN), "+10 % passed"]


def cells(found: Row) -> list[str]:
    """The figures of a row."""
    failed = [share(found.grown[grown], "failed") for grown in GROWN]
    return [false_alarms(found.same), share(found.same, "passed"), *failed, share(found.grown[0.10], "passed")]


def page(table: Callable[[list[str], list[list[str]]], str], draws: int, jobs: int) -> list[str]:
    """Make the simulated part of the page, in so many processes."""
    fifth = max(1, draws // 5)
    program()  # before the processes, which then have it, and before anything that takes long
    with ProcessPoolExecutor(jobs) as pool:
        by_steps, by_runs = pool.map(row, of_steps(draws)), pool.map(row, between_runs(draws))
        by_three = pool.map(row, three_runs(draws))
        spiked_ = pool.map(spikes, range(len(SPIKES)), [fifth] * len(SPIKES))
        steps = [[found.model, str(found.steps), *cells(found)] for found in by_steps]
        three = [[found.model, str(found.steps), *cells(found)] for found in by_three]
        runs = [[found.model, f"{found.runs[0]} / {found.runs[1]}", *cells(found)] for found in by_runs]
    slow = [
        [
            f"{found.slow} of {found.steps} take {found.times:g} times as long",
            str(found.before),
            f"{100 * found.raised:+.0f} %",
            *(share(found.verdicts, word) for word in ("failed", "passed", "inconclusive")),
        ]
        for found in spiked_
    ]
    few = short(max(3, draws // 10))
    more = [f"{draws * model.often} where {model.name}" for model in OF_STEPS if model.often > 1]
    return [
        "By noise and number of steps, one run a side. Simulated: a step of 100 ms, 80 of them kernels, that vary as said (by "
        "standard deviations); the gate judges it against itself (A/A: what failed is a false alarm) and against itself with "
        f"kernels that are longer by a share of the step. Per cent of {draws} comparisons A/A ({', '.join(more)}) and of {fifth} "
        "of each regression; what neither failed nor passed is inconclusive. In brackets: what the rate is at most, with 95 %.",
        table(["noise of the steps", "steps", *HEADS], steps),
        BEST.format(*(f"{100 * least(count, 200_000):.2g}" for count in STEPS)),
        "By what differs between runs, and number of runs (baseline / candidate), ten steps each that vary by 1 %. Per cent of "
        f"{OFTEN * draws} comparisons A/A and of {OFTEN * draws // 5} of each regression. In the last rows four causes of idle "
        f"time, {IDLE_MS:g} ms each, differ by 30 % from run to run, each by itself. One run a side does not show what differs "
        "between runs, so that nobody can tell it from a change: there the tolerance alone stands for it. Take three.",
        table(["spread", "runs", *HEADS], runs),
        "Three runs a side, by noise and number of steps: what a side's runs share is known then, whether steps are alike or runs "
        f"differ. Per cent of {OFTEN * draws} comparisons A/A and of {OFTEN * draws // 5} of each regression.",
        table(["noise", "steps", *HEADS], three),
        f"Single slow steps put into a program whose steps vary by 1 %, at places that chance chooses; per cent of "
        f"{fifth} comparisons.",
        table(["slow steps", "slow in the baseline", "mean step", "failed", "passed", "inconclusive"], slow),
        f"Recordings of one to three steps, {sum(few.values())} comparisons: {few['passed']} passed, {few['inconclusive']} "
        "inconclusive.",
    ]

"""Error rates of the gate on the real traces, and the share of comparisons without an answer.

    python benchmarks/gate_study.py [--traces DIR] [--draws N] [--jobs N] [--write]

Four questions. A/A: the same program on both sides (two runs of it; the two halves of a run), in either order: any failure
is a false alarm. Resampled: the steps of each trace with four or more, drawn with replacement for both sides. Planted: a
regression of known size put into each step of a trace, against the trace as it was, and with the steps of both drawn anew.
And simulated, in ``benchmarks/gate_noise.py``: noise of known kind, by steps and runs. ``--write`` puts the tables into
docs/gate-study.md.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "benchmarks")]

import gate_noise  # noqa: E402
from support import planting  # noqa: E402
from support.real import TRACES  # noqa: E402

import advisor  # noqa: E402
from advisor import rulebook  # noqa: E402
from advisor.gating import baseline  # noqa: E402
from advisor.gating import judge as gating  # noqa: E402
from advisor.gating.significance import LEAST_STEPS  # noqa: E402
from advisor.results.analysis import Analysis  # noqa: E402
from advisor.results.judgement import Judgement  # noqa: E402

RULEBOOK = rulebook.load([rulebook.builtin_rules_dir()])
RUNS = ("h100_transformer_run1.json.gz", "h100_transformer_run2.json.gz")


def analyzed(path: Path, name: str) -> Analysis:
    """One trace, with its samples, called *name*."""
    return advisor.analyze(advisor.read(str(path), source=name), RULEBOOK, samples=True)


@cache
def recorded(path: Path) -> tuple[Analysis, int]:
    """A recorded trace, called by its file, and how many steps it has. The files do not change: each is read once."""
    trace = advisor.read(str(path), source=path.name.removesuffix(".json.gz"))
    return advisor.analyze(trace, RULEBOOK, samples=True), trace.steps_recorded


def judged(base: Analysis, now: Analysis) -> Judgement:
    """*now* against *base*."""
    return gating.judge([now], baseline.make([base]), baseline_name="advisor-baseline.json")


class Pair(NamedTuple):
    """The same program twice."""

    name: str
    base: Analysis
    now: Analysis


def halves(traces: Path, scratch: Path) -> Iterator[Pair]:
    """Every trace of two steps or more against its other half, in both orders; and two runs of one program."""
    first, second = (analyzed(traces / name, name) for name in RUNS)
    yield Pair("h100_transformer run1, run2", first, second)
    yield Pair("h100_transformer run2, run1", second, first)
    for path in sorted(traces.rglob("*.json.gz")):
        if recorded(path)[1] < 2:
            continue
        name = path.name.removesuffix(".json.gz")
        document = planting.read(path)
        count = len(planting.steps(document))
        if count < 2:  # its steps were found: there are no marks to cut at
            continue
        rows = []
        for low, high in ((0, count // 2), (count // 2, count)):
            cut = planting.write(planting.half(document, low, high), scratch / "half.json")
            rows.append(analyzed(cut, f"{name} steps {low} to {high - 1}"))
        yield Pair(f"{name}, first and second half", rows[0], rows[1])
        yield Pair(f"{name}, second and first half", rows[1], rows[0])


def enough(traces: Path) -> list[Analysis]:
    """The traces whose times the gate can decide on."""
    whole = [recorded(path) for path in sorted(traces.rglob("*.json.gz"))]
    return [analysis for analysis, steps in whole if steps > LEAST_STEPS]


def drawn(analysis: Analysis, rng: np.random.Generator) -> Analysis:
    """The same analysis with its steps drawn with replacement; all figures of a step stay together."""
    samples = analysis.samples
    assert samples is not None
    indices = rng.integers(0, samples.steps, samples.steps).tolist()
    replace = msgspec.structs.replace
    metrics = {name: [values[index] for index in indices] for name, values in samples.metrics.items()}
    rules = {name: [values[index] for index in indices] for name, values in samples.rules.items()}
    return replace(analysis, samples=replace(samples, metrics=metrics, rules=rules))


def resampled(analyses: list[Analysis], draws: int) -> dict[str, Counter[str]]:
    """Count the outcomes of *draws* comparisons of a program with itself, by trace."""
    rng = np.random.default_rng(20261121)
    outcomes: dict[str, Counter[str]] = {analysis.trace.path: Counter() for analysis in analyses}
    for number in range(draws):
        analysis = analyses[number % len(analyses)]
        outcomes[analysis.trace.path][judged(drawn(analysis, rng), drawn(analysis, rng)).verdict] += 1
    return outcomes


class Planted(NamedTuple):
    """A regression put into a trace. ``noise`` and ``effect`` are of the step, in ms; ``caught`` of ``draws``."""

    trace: str
    plant: str
    noise: float
    effect: float
    judgement: Judgement
    caught: int
    draws: int

    @property
    def quiet(self) -> bool:
        """True where the trace's own noise is under half the effect, so that the gate must catch it."""
        return self.noise < 0.5 * self.effect or self.plant in ("copies turned pageable", "a synchronization a step")


def noise_of(values: list[float]) -> float:
    """The spread of the middle 80 % of the steps."""
    return float(np.percentile(values, 90) - np.percentile(values, 10))


# What a plant makes grow, whose own noise decides whether it can be seen.
GROWS = {
    "loader wait +10 % of the step": "loader_ms",
    "kernels 8 % slower": "kernel_ms",
    "a synchronization a step": "sync_count",
    "copies turned pageable": "pageable_mb",
    "a rule newly fires (.item() in the loop)": "sync_count",
}


def planted(traces: Path, scratch: Path, draws: int) -> Iterator[Planted]:
    """Every plant in every trace that has room for it."""
    rng = np.random.default_rng(20261122)
    for base in enough(traces):
        document = planting.read(traces / f"{base.trace.path}.json.gz")
        if len(planting.steps(document)) < 2:
            continue
        for name, plant in planting.PLANTS.items():
            changed = plant(document)
            if changed is None:
                continue
            now = analyzed(planting.write(changed, scratch / "planted.json"), base.trace.path)
            was, after = ((a.samples.metrics if a.samples else {}).get(GROWS[name], [0.0]) for a in (base, now))
            caught = sum(judged(drawn(base, rng), drawn(now, rng)).verdict == "failed" for _ in range(draws))
            effect = float(np.median(after) - np.median(was))
            yield Planted(base.trace.path, name, noise_of(was), effect, judged(base, now), caught, draws)


# ---- the page


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def page(traces: Path, draws: int, redraws: int, simulated: int, jobs: int) -> str:
    """The tables of docs/gate-study.md."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        pairs = Counter(judged(pair.base, pair.now).verdict for pair in halves(traces, scratch))
        outcomes = resampled(enough(traces), draws)
        plants = list(planted(traces, scratch, redraws))
    total = sum(outcomes.values(), Counter())
    words = ("failed", "passed", "inconclusive")
    rows = [
        ["two runs, and halves of one run, either order", str(sum(pairs.values())), *(str(pairs[w]) for w in words)]
    ]
    rows += [
        [f"{name}, steps drawn anew", str(sum(c.values())), *(str(c[w]) for w in words)] for name, c in outcomes.items()
    ]
    rows += [["all drawn anew", str(sum(total.values())), *(str(total[w]) for w in words)]]
    must = [plant for plant in plants if plant.quiet]
    rate = sum(plant.caught for plant in must) / max(1, sum(plant.draws for plant in must))
    again = [
        [f.trace, f.plant, f.judgement.verdict, "yes" if f.quiet else "no", f"{100 * f.caught / f.draws:.1f} %"]
        for f in plants
    ]
    return "\n\n".join(
        [
            "The same program on both sides. `failed` is a false alarm; `inconclusive` says that there is no answer.",
            table(["pairs", "compared", *words], rows),
            "A regression planted into every step. The last column draws the steps of both sides anew, "
            f"{redraws} times each; noise is the spread of the middle 80 % of the steps, in the figure that grows.",
            table(
                ["trace", "planted", "as recorded", "noise under half the effect", "caught, steps drawn anew"], again
            ),
            f"Caught where the noise is under half the effect: {sum(f.judgement.verdict == 'failed' for f in must)} of "
            f"{len(must)} as recorded, {100 * rate:.1f} % with steps drawn anew.",
            *gate_noise.page(table, simulated, jobs),
        ]
    )


def main() -> int:
    """Print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=TRACES)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--redraws", type=int, default=100)
    parser.add_argument("--simulated", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1, help="processes of the simulated part; the figures are the same")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    study = page(arguments.traces, arguments.draws, arguments.redraws, arguments.simulated, arguments.jobs)
    if not arguments.write:
        print(study)
        return 0
    target = ROOT / "docs" / "gate-study.md"
    text = target.read_text(encoding="utf-8")
    block = f"<!-- study -->\n\n{study}\n\n<!-- /study -->"
    target.write_text(
        re.sub(r"<!-- study -->.*<!-- /study -->", lambda _: block, text, flags=re.DOTALL), encoding="utf-8"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

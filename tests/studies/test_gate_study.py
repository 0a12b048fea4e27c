"""False alarms and catches of the gate on the real traces: what docs/gate-study.md publishes, held to its promise here.

Every run does a small part: a few traces, a few draws. ``-m study`` does it all.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from support.paths import ROOT
from support.real import NAMES
from support.traces import folder_of

pytestmark = pytest.mark.real


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gate_study", ROOT / "benchmarks" / "gate_study.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gate_study"] = module
    spec.loader.exec_module(module)
    return module


class Extent(NamedTuple):
    """The part of the study that a run does, and the least that must come of it."""

    names: list[str]
    pairs: int
    passed_pairs: int
    draws: int
    redraws: int
    caught: int
    plants: int


FEW = ("h100_transformer_run1", "h100_transformer_run2", "a100_copies_pinned")
STEADY = {
    "a100_copies_pageable",
    "a100_copies_pinned",
    "a100_dlrm_rank3of8",
    "ns_resolution_rank0",
    "v100_resnet50_workers4",
}
"""Traces of enough steps that vary too little to hide a regression that matters: the gate passes them."""
SMALL = Extent([f"{name}.json.gz" for name in FEW], 4, 2, 40, 2, 4, 4)
WHOLE = Extent(NAMES, 20, 4, 1000, 10, 18, 5)


@pytest.fixture(
    scope="module", params=[pytest.param(SMALL, id="small"), pytest.param(WHOLE, id="whole", marks=pytest.mark.study)]
)
def extent(request: pytest.FixtureRequest) -> Extent:
    made: Extent = request.param
    return made


@pytest.fixture(scope="module")
def traces(extent: Extent) -> Iterator[Path]:
    with folder_of(extent.names) as folder:
        yield folder


@pytest.fixture(scope="module")
def study() -> ModuleType:
    return _load()


@pytest.fixture(scope="module")
def plants(study: ModuleType, extent: Extent, traces: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return list(study.planted(traces, tmp_path_factory.mktemp("planted"), extent.redraws))


def test_a_program_never_fails_against_itself(study: ModuleType, extent: Extent, traces: Path, tmp_path: Path) -> None:
    pairs = [(pair.name, study.judged(pair.base, pair.now)) for pair in study.halves(traces, tmp_path)]
    failed = [(name, judgement.headline) for name, judgement in pairs if judgement.verdict == "failed"]
    assert failed == []
    assert len(pairs) >= extent.pairs
    counts = Counter(judgement.verdict for _, judgement in pairs)
    assert counts["passed"] >= extent.passed_pairs
    # What decides is enough steps: wherever both halves have them, there is an answer.
    unsaid = [judgement.headline for _, judgement in pairs if judgement.verdict == "inconclusive"]
    assert all("too few steps" in headline or "cannot be compared" in headline for headline in unsaid)


def test_every_real_trace_is_judged_and_never_fails_against_itself(
    study: ModuleType, extent: Extent, traces: Path
) -> None:
    answers: dict[str, set[str]] = defaultdict(set)
    for path in sorted(traces.rglob("*.json.gz")):
        analysis, _ = study.recorded(path)
        judgement = study.judged(analysis, analysis)
        assert judgement == study.judged(analysis, analysis)
        assert judgement.verdict != "failed", (path.name, judgement.headline)
        answers[judgement.verdict].add(path.name.removesuffix(".json.gz"))
        if judgement.verdict == "inconclusive":
            assert "too few steps" in judgement.headline or "its noise would hide" in judgement.headline
    assert answers["passed"] == STEADY & {name.removesuffix(".json.gz") for name in extent.names}


def test_a_thousand_resamplings_give_at_most_one_per_cent_false_alarms(
    study: ModuleType, extent: Extent, traces: Path
) -> None:
    counts = sum(study.resampled(study.enough(traces), extent.draws).values(), Counter())
    assert sum(counts.values()) == extent.draws
    assert counts["failed"] <= 0.01 * extent.draws
    # Of five steps that vary by 3 % and may be alike, the gate no longer says that nothing of 10 % hides in them.
    assert counts["passed"] >= 0.75 * extent.draws


def test_planted_regressions_are_caught(extent: Extent, plants: list[Any]) -> None:
    must = [found for found in plants if found.quiet]
    assert len(must) >= extent.caught
    assert {found.plant for found in plants} <= set(SAID)
    assert len({found.plant for found in plants}) >= extent.plants
    missed = [(found.trace, found.plant) for found in must if found.judgement.verdict != "failed"]
    assert missed == []
    assert sum(found.caught for found in must) >= 0.95 * sum(found.draws for found in must)


SAID = {
    "loader wait +10 % of the step": r"loader_ms .* ms a step .*most in enumerate\(DataLoader\)",
    "a synchronization a step": (
        r"sync_(count|ms) .* a step .*most in|waits for the GPU at explicit synchronizations, and did not before: .* ms a step"
    ),
    "copies turned pageable": r"pageable_mb .* → [\d.]+ MB a step.*most in Memcpy (HtoD|DtoH) \(.*Pageable",
    "kernels 8 % slower": r"kernel_ms .* ms a step \(\+[78]\.\d %\), most in \w",
    "a rule newly fires (.item() in the loop)": (
        r"in every step, and did not before: .* ms a step|sync_count .*most in cudaStreamSynchronize"
    ),
}


def test_the_message_names_what_grew_by_how_much_and_where(plants: list[Any]) -> None:
    for found in plants:
        if found.judgement.verdict == "failed":
            grown = [
                check.message for check in found.judgement.checks if check.outcome == "regression" and check.counts
            ]
            assert any(re.search(SAID[found.plant], message) for message in grown), (found.trace, found.plant, grown)


def test_causes_that_differ_from_run_to_run_are_no_regression(study: ModuleType) -> None:
    noise = study.gate_noise
    model = noise.BETWEEN_RUNS[-1]
    assert model.parts == 0.3
    rng = np.random.default_rng(20261123)
    for runs, draws in (((3, 1), 150), ((3, 3), 300)):
        counts = Counter(noise.drawn(model, 10, runs, 0.0, rng) for _ in range(draws))
        assert counts["failed"] <= 1  # 17 and 12, where the spread of few runs is believed to be that of all
        assert noise.drawn(model, 10, runs, 0.3, rng) == "failed"


def test_ten_steps_that_are_alike_seldom_fail_and_independent_ones_do(study: ModuleType, extent: Extent) -> None:
    noise = study.gate_noise
    alike, quiet = (
        next(model for model in noise.OF_STEPS if model.name == name)
        for name in ("autocorrelated 0.7, 5 %", "independent, 2 %")
    )
    rng, draws = np.random.default_rng(20261124), 5 * extent.draws
    same = Counter(noise.drawn(alike, 10, (1, 1), 0.0, rng) for _ in range(draws))
    assert same["failed"] <= 0.005 * draws  # 1 in 40, where a change need not last beyond what steps show
    for steps in noise.STEPS:
        grown = Counter(noise.drawn(quiet, steps, (1, 1), 0.1, rng) for _ in range(extent.draws))
        assert grown["failed"] >= 0.99 * extent.draws


def test_a_part_that_grew_as_far_as_steps_drift_is_no_pass(study: ModuleType) -> None:
    noise = study.gate_noise
    quiet, drifting = np.array([0.999, 1.001] * 5), np.array([0.98] * 5 + [1.02] * 5)

    def run(more: float, kernels: float) -> Any:
        made = noise.run(quiet)
        metrics = {"step_ms": (100 * quiet + more).tolist(), "kernel_ms": (80 * drifting + kernels).tolist()}
        return msgspec.structs.replace(made, samples=msgspec.structs.replace(made.samples, metrics=metrics))

    # The step is 4 % longer, which is not enough; its kernels 7 ms, where their lasting spread of 2.2 ms makes 7.5 in 200th cases.
    found = study.judged(run(0.0, 0.0), run(4.0, 7.0))
    outcomes = {check.name: (check.outcome, check.counts) for check in found.checks}
    assert outcomes["step_ms"] == ("same", True)
    assert outcomes["kernel_ms"] == ("inconclusive", True)
    assert found.verdict == "inconclusive"
    assert study.judged(run(0.0, 0.0), run(4.0, 8.0)).verdict == "failed"


def test_the_rate_is_at_most_what_makes_so_few_alarms_unlikely(study: ModuleType) -> None:
    # No alarm in n comparisons: (1 - p)^n = 0.05, which is nearly 3 / n. Five of 600: by Clopper and Pearson's table 1.74 %.
    assert study.gate_noise.at_most(0, 2000) == pytest.approx(1 - 0.05 ** (1 / 2000), rel=1e-6)
    assert study.gate_noise.at_most(5, 600) == pytest.approx(0.0174, abs=5e-5)


def test_the_page_publishes_what_was_measured() -> None:
    page = (ROOT / "docs" / "gate-study.md").read_text(encoding="utf-8")
    block = re.search(r"<!-- study -->(.*)<!-- /study -->", page, re.DOTALL)
    assert block is not None
    rows = dict(re.findall(r"^\| ([^|]+?) \| (\d+ \| \d+ \| \d+ \| \d+) \|$", block[1], re.MULTILINE))
    whole = [int(figure) for figure in rows["all drawn anew"].split(" | ")]
    assert (whole[0], whole[1] <= 10, sum(whole[1:])) == (1000, True, 1000)
    halves = [int(figure) for figure in rows["two runs, and halves of one run, either order"].split(" | ")]
    assert (halves[1], sum(halves[1:])) == (0, halves[0])


def test_the_page_keeps_its_promises() -> None:
    page = (ROOT / "docs" / "gate-study.md").read_text(encoding="utf-8")
    row = r"^\| (\w[^|]+) \| (5|10|20) \| ([\d.]+) \(≤ [\d.]+\) \| [^|]+ \| [^|]+ \| [^|]+ \| ([\d.]+) \| [^|]+ \| ([\d.]+) \|$"
    rows = {(name, int(steps)): tuple(map(float, rest)) for name, steps, *rest in re.findall(row, page, re.MULTILINE)}
    for noise in ("independent, 1 %", "independent, 2 %"):
        for steps in (5, 10, 20):
            same, grown, passed = rows[noise, steps]
            assert (same <= 0.5, grown >= 99, passed) == (True, True, 0.0)
    for steps in (10, 20):
        assert rows["autocorrelated 0.7, 5 %", steps][0] <= 0.5
    for steps in (5, 10, 20):  # three runs a side keep all of it, whatever the noise
        same, grown, passed = rows["independent, 2 %, three runs", steps]
        assert (same <= 0.5, grown >= 99, passed) == (True, True, 0.0)
        for noise in ("autocorrelated 0.7, 2 %", "autocorrelated 0.7, 5 %", "2 % between runs", "5 % between runs"):
            same, _, passed = rows[f"{noise}, three runs", steps]
            assert (same <= 0.5, passed) == (True, 0.0), (noise, steps)

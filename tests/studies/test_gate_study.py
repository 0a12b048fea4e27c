"""False alarms and catches of the gate on the real traces: what docs/gate.md publishes, held to its promise here."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.paths import ROOT
from support.traces import TRACES, WHY, real_trace

pytestmark = pytest.mark.real


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gate_study", ROOT / "benchmarks" / "gate_study.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gate_study"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def study() -> ModuleType:
    real_trace("h100_transformer_run1.json.gz")
    return _load()


@pytest.fixture(scope="module")
def plants(study: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return list(study.planted(TRACES, tmp_path_factory.mktemp("planted"), 10))


def test_a_program_never_fails_against_itself(study: ModuleType, tmp_path: Path) -> None:
    pairs = [(pair.name, study.judged(pair.base, pair.now)) for pair in study.halves(TRACES, tmp_path)]
    failed = [(name, judgement.headline) for name, judgement in pairs if judgement.verdict == "failed"]
    assert failed == []
    assert len(pairs) >= 20
    counts = Counter(judgement.verdict for _, judgement in pairs)
    assert counts["passed"] >= 4
    # What decides is enough steps: wherever both halves have them, there is an answer.
    unsaid = [judgement.headline for _, judgement in pairs if judgement.verdict == "inconclusive"]
    assert all("too few steps" in headline or "cannot be compared" in headline for headline in unsaid)


def test_every_real_trace_is_judged_and_never_fails_against_itself(study: ModuleType, tmp_path: Path) -> None:
    verdicts = Counter()
    for path in sorted(TRACES.rglob("*.json.gz")):
        analysis = study.analyzed(path, path.name)
        judgement = study.judged(analysis, analysis)
        assert judgement == study.judged(analysis, analysis)
        assert judgement.verdict != "failed", (path.name, judgement.headline)
        verdicts[judgement.verdict] += 1
    assert verdicts["passed"] >= 6


def test_a_thousand_resamplings_give_at_most_one_per_cent_false_alarms(study: ModuleType) -> None:
    counts = sum(study.resampled(study.enough(TRACES), 1000).values(), Counter())
    assert sum(counts.values()) == 1000
    assert counts["failed"] <= 10
    assert counts["passed"] >= 850


def test_planted_regressions_are_caught(plants: list[Any]) -> None:
    must = [found for found in plants if found.quiet]
    assert len(must) >= 18
    assert {found.plant for found in plants} == set(SAID)
    missed = [(found.trace, found.plant) for found in must if found.judgement.verdict != "failed"]
    assert missed == []
    assert sum(found.caught for found in must) >= 0.95 * sum(found.draws for found in must)


SAID = {
    "loader wait +10 % of the step": r"loader_ms .* ms a step .*most in enumerate\(DataLoader\)",
    "a synchronization a step": r"sync_(count|ms) .* a step .*most in|synchronizes with the GPU in every step again: .* ms a step",
    "copies turned pageable": r"pageable_mb .* → [\d.]+ MB a step.*most in Memcpy (HtoD|DtoH) \(.*Pageable",
    "kernels 8 % slower": r"kernel_ms .* ms a step \(\+[78]\.\d %\), most in \w",
    "a rule newly fires (.item() in the loop)": r"in every step again: .* ms a step|sync_count .*most in cudaStreamSynchronize",
}


def test_the_message_names_what_grew_by_how_much_and_where(plants: list[Any]) -> None:
    for found in plants:
        if found.judgement.verdict == "failed":
            grown = [
                check.message for check in found.judgement.checks if check.outcome == "regression" and check.counts
            ]
            assert any(re.search(SAID[found.plant], message) for message in grown), (found.trace, found.plant, grown)


def test_the_page_publishes_what_was_measured() -> None:
    if not TRACES.exists():
        pytest.skip(WHY)
    page = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
    block = re.search(r"<!-- study -->(.*)<!-- /study -->", page, re.DOTALL)
    assert block is not None
    rows = dict(re.findall(r"^\| ([^|]+?) \| (\d+ \| \d+ \| \d+ \| \d+) \|$", block[1], re.MULTILINE))
    whole = [int(figure) for figure in rows["all drawn anew"].split(" | ")]
    assert (whole[0], whole[1] <= 10, sum(whole[1:])) == (1000, True, 1000)
    halves = [int(figure) for figure in rows["two runs, and halves of one run, either order"].split(" | ")]
    assert (halves[1], sum(halves[1:])) == (0, halves[0])

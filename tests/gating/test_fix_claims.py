"""Fixes: applied and holds, applied and does not hold, not applied; decided by settings and what ran, never by a rule's level."""

from __future__ import annotations

import msgspec
import pytest
from support.comparisons import whole
from support.paths import ROOT

from advisor.gating.claims import claims
from advisor.gating.compare import _turn as turn_of
from advisor.gating.compare import compare
from advisor.report import Options, render
from advisor.report.comparison import FORMATS
from advisor.results.analysis import Analysis
from advisor.results.judgement import Check
from advisor.results.samples import Samples

ARTICLE = ROOT / "sample_traces" / "article"
GATE = ROOT / "sample_traces" / "gate"
LOADER = "data-loading/single-process-loader"


@pytest.fixture(scope="module")
def no_workers() -> Analysis:
    return whole(GATE / "no_workers.json.gz")


@pytest.fixture(scope="module")
def workers() -> Analysis:
    return whole(GATE / "workers.json.gz")


def answers(before: Analysis, after: Analysis) -> dict[str, str]:
    return {claim.rule: claim.answer for claim in claims(before, after, {})}


def check_of(base: float, now: float) -> Check:
    return Check(
        name=LOADER,
        title="",
        unit="ms",
        base=base,
        now=now,
        outcome="improvement",
        kind="rule",
        level="error",
        message="",
    )


def with_facts(analysis: Analysis, **facts: bool | float | str | None) -> Analysis:
    samples = analysis.samples
    assert samples is not None
    changed: Samples = msgspec.structs.replace(samples, facts=samples.facts | facts)
    return msgspec.structs.replace(analysis, samples=changed)


def test_workers_were_given_and_the_wait_is_gone(no_workers: Analysis, workers: Analysis) -> None:
    assert answers(no_workers, workers)[LOADER] == "applied and holds"


def test_a_rule_that_fell_under_its_level_is_no_evidence_of_its_fix(no_workers: Analysis, workers: Analysis) -> None:
    """The wait is gone, but the batches still come from the training process: nobody gave it workers, less is to load."""
    same = with_facts(workers, iterators="single-process")
    assert answers(no_workers, same)[LOADER] == "cost fell"
    unknown = with_facts(workers, iterators=None)
    assert answers(no_workers, unknown)[LOADER] == "cannot be told"


def test_where_the_cost_fell_it_is_not_said_that_nothing_was_applied(no_workers: Analysis) -> None:
    """A sample takes less work to make: still no workers, the rule still fires, and the wait is a quarter of what it was."""
    less = check_of(39.5, 9.25)
    (claim,) = [claim for claim in claims(no_workers, no_workers, {LOADER: less}) if claim.rule == LOADER]
    assert claim.answer == "cost fell"
    assert claim.because.startswith("39.5 → 9.25 ms a step; the rule still fires")


def test_a_fix_that_was_applied_and_changed_nothing_does_not_hold(no_workers: Analysis) -> None:
    assert answers(no_workers, with_facts(no_workers, iterators="multi-process"))[LOADER] == "applied, does not hold"


def test_two_recordings_of_one_program_applied_nothing(no_workers: Analysis) -> None:
    assert set(answers(no_workers, no_workers).values()) == {"not applied"}


def test_an_analysis_without_facts_tells_nothing(no_workers: Analysis, workers: Analysis) -> None:
    samples = workers.samples
    assert samples is not None
    older = msgspec.structs.replace(workers, samples=msgspec.structs.replace(samples, facts={}))
    assert answers(no_workers, older)[LOADER] == "cannot be told"


RUNGS = {
    ("rung0_baseline", "rung1_workers"): {LOADER},
    ("rung1_workers", "rung2_pinned"): {"transfer/pageable-copy"},
    ("rung2_pinned", "rung3_batch512"): {"memory/low-peak"},
    ("rung3_batch512", "rung4_uint8"): {"transfer/large-copy"},
    ("rung4_uint8", "rung5_set_to_none"): {"gradient/zeroing-memset"},
    ("rung5_set_to_none", "rung6_amp"): {"precision/no-tensor-cores"},
    ("rung6_amp", "rung7_compile"): {"kernels/elementwise-chain", "kernels/normalization-chain"},
}


@pytest.fixture(scope="module")
def rungs() -> dict[str, Analysis]:
    names = dict.fromkeys(name for pair in RUNGS for name in pair)
    return {name: whole(ARTICLE / f"{name}.json.gz") for name in names}


@pytest.mark.study
@pytest.mark.parametrize("pair", RUNGS, ids=lambda pair: pair[1])
def test_each_rung_applied_what_its_author_did_and_nothing_else(
    pair: tuple[str, str], rungs: dict[str, Analysis]
) -> None:
    found = compare(rungs[pair[0]], rungs[pair[1]])
    tried = {claim.rule: claim.answer for claim in found.claims if claim.answer.startswith("applied")}
    assert tried == dict.fromkeys(RUNGS[pair], "applied and holds")


@pytest.mark.study
def test_where_the_batch_grew_a_sample_decides_and_comes_first(rungs: dict[str, Analysis]) -> None:
    found = compare(rungs["rung2_pinned"], rungs["rung3_batch512"])
    assert found.headline.startswith("1.33× as fast a sample: 840.5 → 631.3 µs a sample")
    assert found.division is not None
    assert found.division.per == "sample"


@pytest.mark.study
def test_where_the_batch_grew_every_figure_is_a_samples(rungs: dict[str, Analysis]) -> None:
    """311 launches in a step of 32 samples and of 512; a step copies 308,285,440 bytes, however late the GPU gets to it."""
    found = compare(rungs["rung2_pinned"], rungs["rung3_batch512"])
    assert found.per == "sample"
    figures = {shift.name: shift for shift in found.metrics}
    launches, copied, peak = (figures[name] for name in ("launch_count", "copied_mb", "peak_memory_mb"))
    assert (launches.before, launches.after) == (pytest.approx(311 / 32), pytest.approx(311 / 512))
    assert launches.outcome == "better"
    assert copied.after == pytest.approx((308_281_344 + 4096) / 1e6 / 512)
    assert peak.after == pytest.approx(12_085.189088)
    assert found.division is not None
    assert sum(shift.after or 0.0 for shift in found.causes) == pytest.approx(found.division.after_ms, rel=0.01)
    memsets = next(turned for turned in found.findings if turned.rule == "gradient/zeroing-memset")
    assert (memsets.before_ms, memsets.after_ms) == (pytest.approx(0.328196 / 32), pytest.approx(0.328196 / 512))
    claims = {claim.rule: claim.answer for claim in found.claims}
    assert claims["gradient/zeroing-memset"] == "not applied"  # 62 calls, as before
    text = render("text", found, Options(), FORMATS).decode()
    assert "Figures a sample" in text
    assert "calls a sample" in text
    assert "a step;" not in text.partition("Figures a sample")[2]


@pytest.mark.study
def test_a_fix_is_said_with_what_is_left_and_nothing_that_nobody_saw(rungs: dict[str, Analysis]) -> None:
    """Pinned copies take 1.56 ms: what was pageable is gone, the copies are not. And no trace holds a loss curve."""
    pinned = {claim.rule: claim for claim in compare(rungs["rung1_workers"], rungs["rung2_pinned"]).claims}
    assert pinned["transfer/pageable-copy"].because.endswith("and the waits for them, take 9.17 → 1.56 ms")
    grown = compare(rungs["rung2_pinned"], rungs["rung3_batch512"])
    assert "loss curve" not in render("text", grown, Options(), FORMATS).decode()


@pytest.mark.study
def test_a_batch_that_did_not_grow_is_no_larger_batch(rungs: dict[str, Analysis]) -> None:
    """Back from rung 2 to rung 0 the rule of small batches is quiet, for the loader's wait is all that there is."""
    claims = {claim.rule: claim for claim in compare(rungs["rung2_pinned"], rungs["rung0_baseline"]).claims}
    assert (claims["memory/low-peak"].answer, claims["memory/low-peak"].because) == (
        "not applied",
        "the batch did not grow",
    )


@pytest.mark.study
def test_what_one_side_has_in_every_step_is_named_however_little(rungs: dict[str, Analysis]) -> None:
    """Memsets of 0.1 % of the step are gone: they are what the program's author did."""
    found = compare(rungs["rung4_uint8"], rungs["rung5_set_to_none"])
    assert found.headline.startswith("probably faster: 306.6 → 305.9 ms")
    assert found.division is not None
    first = found.division.parts[0]
    assert (first.real, first.reason, first.label) == (True, "vanished", "Memset (Device) train.py:58 train")


@pytest.mark.parametrize(
    ("fired", "fires", "was", "now", "turn"),
    [
        (False, True, 0.0, 5.0, "new"),
        (True, False, 5.0, 0.0, "fixed"),
        (False, True, 0.0, 0.0, "new"),  # it owns no time
        (False, True, 4.9, 5.1, "same"),  # its level lies between
        (True, False, 5.1, 4.9, "same"),
        (False, True, 9.0, 1.5, "better"),  # what outranked it is gone
        (True, False, 5.0, 2.0, "better"),
        (False, True, 2.0, 5.0, "worse"),
    ],
)
def test_a_finding_is_new_where_its_cost_is(*, fired: bool, fires: bool, was: float, now: float, turn: str) -> None:
    assert turn_of(fired, fires, (was, now), None) == turn

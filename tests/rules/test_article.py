"""The ladder of the article, state by state: on state k the fix of rung k + 1 is found, and what leads saves most."""

from __future__ import annotations

import pytest
from support.paths import ROOT
from support.traces import sample

from advisor.results.analysis import Analysis, Finding
from advisor.trace import read

FOLDER = ROOT / "sample_traces" / "article"
STATES = sorted(path.name for path in FOLDER.glob("rung*.json.gz"))
# The rule behind each rung's fix: 1 workers, 2 pinned memory, 3 batch size, 4 uint8, 5 set_to_none, 6 autocast, 7 compile.
FIXES = {
    1: {"data-loading/single-process-loader"},
    2: {"transfer/pageable-copy"},
    3: {"memory/low-peak"},
    4: {"transfer/large-copy"},
    5: {"gradient/zeroing-memset", "gradient/zeroing-fill"},
    6: {"precision/no-tensor-cores"},
    7: {"kernels/elementwise-chain"},
}
# Published: GPU utilization (TensorBoard plugin) and ms a step (from samples a second where only those are given).
PUBLISHED = {0: (0.3165, 80.0), 1: (0.7281, 37.0), 2: (0.9237, None), 3: (None, 512 / 1.584), 4: (0.9751, 512 / 1.670)}


def analysis(rung: int) -> Analysis:
    return sample(FOLDER / STATES[rung])


def fired(rung: int) -> dict[str, Finding]:
    return {finding.rule: finding for finding in analysis(rung).findings}


def test_there_are_eight_states_each_labelled_as_built() -> None:
    assert [name[:5] for name in STATES] == [f"rung{number}" for number in range(8)]
    for name in STATES:
        assert read(str(FOLDER / name)).metadata.built


@pytest.mark.parametrize("rung", range(7))
def test_the_next_rungs_fix_is_among_the_findings(rung: int) -> None:
    assert FIXES[rung + 1] & set(fired(rung))


def test_zeroing_gradients_is_no_more_than_a_note() -> None:
    findings = [finding for rule, finding in fired(4).items() if rule in FIXES[5]]
    assert [finding.severity for finding in findings] == ["note"]


@pytest.mark.parametrize("rung", range(8))
def test_what_earlier_rungs_fixed_is_quiet(rung: int) -> None:
    for earlier in range(1, rung + 1):
        assert not FIXES[earlier] & set(fired(rung)), earlier


@pytest.mark.parametrize("rung", range(8))
def test_what_leads_is_what_saves_most(rung: int) -> None:
    """Weighed by confidence, within a factor of two; and a larger batch is behind all, as it spreads what they remove."""
    weight = {"certain": 1.0, "likely": 0.7, "possible": 0.4}
    level = {"high": 3, "medium": 2, "low": 1, "note": 0}
    found = analysis(rung).findings
    severities = [level[finding.severity] for finding in found]
    assert severities == sorted(severities, reverse=True)
    priced = [finding for finding in found if finding.saving and finding.severity != "note"]
    others = [finding for finding in priced if finding.rule != "memory/low-peak"]
    worth = [(f.saving.low_ms + f.saving.high_ms) / 2 * weight[f.confidence] for f in others if f.saving]
    assert all(2 * worth[0] > ms for ms in worth)
    assert "memory/low-peak" not in [finding.rule for finding in priced][:-1]
    # A step that does several findings' fixes has its price at the first of them.
    assert [step.rules[0] for step in analysis(rung).plan] == [finding.rule for finding in priced]


@pytest.mark.parametrize("rung", sorted(PUBLISHED))
def test_the_published_figures_come_back(rung: int) -> None:
    utilization, step_ms = PUBLISHED[rung]
    summary = analysis(rung).summary
    if utilization is not None:
        assert summary.gpu_utilization["0"] == pytest.approx(utilization, abs=0.0005)
    if step_ms is not None:
        assert summary.step_ms is not None
        assert summary.step_ms.median == pytest.approx(step_ms, rel=0.005)


def test_tensor_cores_come_with_autocast() -> None:
    assert analysis(5).summary.tensor_core_share == 0
    assert analysis(6).summary.tensor_core_share == pytest.approx(0.263, abs=0.005)


def test_no_rung_promises_more_than_its_step() -> None:
    for rung in range(8):
        result = analysis(rung)
        assert result.summary.step_ms is not None
        assert sum(f.saving.high_ms for f in result.findings if f.saving) <= result.summary.step_ms.median

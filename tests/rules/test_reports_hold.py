"""What holds of every report, whatever the trace: read as a person reads it, on all of the real ones."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support.prices import owned_ms
from support.real import AUDITED, NAMES
from support.traces import analysis, trace

from advisor.report import Options, render
from advisor.results.analysis import Analysis

pytestmark = pytest.mark.real
ORDER = ("note", "low", "medium", "high")
# Every call of a runtime has a number. A trace that holds under one in thirty of them was thinned by who published it.
_THINNED = 30
_TRAINING = re.compile(r"\.backward\(|GradScaler|scaler\.|optimizer\.step|zero_grad")
_DDP = re.compile(r"DistributedDataParallel|\bDDP\b|comm_hook|no_sync\(\)")


def shown(result: Analysis) -> str:
    return render("text", result, Options(verbosity=1)).decode().partition("\nRules: ")[0]


def calls_cover(name: str) -> bool:
    """Tell whether runtime calls can explain the idle time: host and device recorded, and the calls not thinned out."""
    read = trace(name)
    if not {"gpu", "host", "idle"} <= read.features:
        return False
    numbers = np.unique(read.frame("launches")["correlation"].dropna().to_numpy(np.int64))
    numbers = numbers[numbers > 0]
    return len(numbers) > 1 and (numbers[-1] - numbers[0]) / len(numbers) < _THINNED


@pytest.mark.parametrize("name", [name.removesuffix(".json.gz") for name in (*NAMES, *AUDITED)])
def test_a_report_holds(name: str) -> None:
    result = analysis(name)
    summary, findings, plan = result.summary, result.findings, result.plan
    text = shown(result)

    # Severity, order and price.
    assert "saves up to 0" not in text
    severities = [ORDER.index(finding.severity) for finding in findings]
    assert severities == sorted(severities, reverse=True)
    for finding in findings:
        saving = finding.saving
        if saving is None:
            continue
        assert 0 <= saving.low_ms <= saving.high_ms * (1 + 1e-9)
        assert saving.high_ms <= owned_ms(finding, findings) * (1 + 1e-9)
        of = "(?:the time it owns|its rows' time|what a step costs once)"
        assert re.search(rf"[\d.]+ to [\d.]+ % of {of}", saving.basis), saving.basis

    # A table of evidence shares out what the finding owns, and no more.
    for finding in findings:
        if "cost_ms" in finding.evidence.columns:
            at = finding.evidence.columns.index("cost_ms")
            costs = [float(row[at] or 0) for row in finding.evidence.rows]
            assert sum(costs) <= 1.01 * finding.cost_share * trace(name).ledger.counted_ns / 1e6 + 0.01 * len(costs)

    # What comes first.
    assert result.headline is not None
    assert result.headline.first == (findings[0].rule if findings else None)
    if plan:
        assert plan[0].rules[0] == result.headline.first
    if any(finding.saving is not None and finding.severity != "note" for finding in findings):
        assert findings[0].saving is not None

    # Time: all of it has an owner.
    assert sum(summary.causes.values()) == pytest.approx(1, abs=1e-6)
    if summary.steady_causes:
        assert sum(summary.steady_causes.values()) == pytest.approx(1, abs=1e-6)
    if calls_cover(name):
        assert summary.causes.get("unknown", 0.0) <= 0.10
    if not findings:
        silent_causes_are_named(result)

    # The fix is for this program.
    codes = [f"{finding.fix.before}\n{finding.fix.after}" for finding in findings]
    if result.headline.kind == "inference":
        assert not [code for code in codes if _TRAINING.search(code)]
    facts = trace(name).frame("trace").iloc[0]
    if not facts["ddp"]:
        wrapping = {
            "distributed/unbucketed-gradients",
            "distributed/unbucketed-wait",
            "distributed/data-parallel-module",
        }  # whose fix is to wrap the model
        assert not [
            f.rule for f, code in zip(findings, codes, strict=True) if _DDP.search(code) and f.rule not in wrapping
        ]


def silent_causes_are_named(result: Analysis) -> None:
    """Check that the headline of a report without findings speaks of each cause of over a fifth of the steady time."""
    assert result.headline is not None
    if result.headline.bound is None and "recorded" in result.headline.text:
        return  # a diagnosis: nothing steady of the device was recorded
    for cause, share in result.summary.steady_causes.items():
        if share > 0.20:
            named = result.headline.bound == cause or f"{100 * share:.0f} %" in result.headline.text
            assert named, f"{cause}, {share:.0%}, is not in: {result.headline.text}"
            if cause in ("compute", "operator", "host"):  # collectives and waits say what they are
                assert re.search(r"most in .+ \(|[\d.]+ m?s (of it )?in ", result.headline.text)

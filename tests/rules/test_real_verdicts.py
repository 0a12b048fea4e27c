"""What every rule comes to on every real trace: read as a diff when a rule or a frame changes.

``UPDATE_REAL=1 pytest tests/rules/test_real_verdicts.py`` renews ``tests/real_verdicts.json``. Each finding in it was read
against its trace by a person; a new one is to be read too before it is kept.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from support.paths import ROOT
from support.real import NAMES
from support.traces import analysis, rules, trace

from advisor.pipeline import analyze_many
from advisor.replay.pricing import Replay
from advisor.trace import Trace

RECORD = ROOT / "tests" / "real_verdicts.json"
KNOWN: dict[str, dict[str, Any]] = json.loads(RECORD.read_text()) if RECORD.is_file() else {}
RENEW = bool(os.environ.get("UPDATE_REAL"))


TOGETHER = "a100_megatron_tp8, eight ranks together"


def across() -> dict[str, Any]:
    """What the eight ranks of one run show together."""
    ranks = [f"a100_megatron_tp8/rank{rank}.json.gz" for rank in range(8)]
    _, found = analyze_many((trace(name) for name in ranks), rules())
    assert found is not None
    assert found.verdicts.error == []
    return {
        "findings": {finding.rule: f"{finding.severity} {finding.cost_share:.3f}" for finding in found.findings},
        "quality": sorted(note.code for note in found.quality),
        "passes": sorted(found.verdicts.passes),
    }


def verdicts(name: str) -> dict[str, Any]:
    """What the rules come to: findings with severity and share of the time, quality notes, and what passes."""
    found = analysis(name)
    assert found.verdicts.error == []
    return {
        "findings": {f.rule: f"{f.severity} {f.cost_share:.3f}" for f in sorted(found.findings, key=lambda f: f.rule)},
        "quality": sorted(note.code for note in found.quality),
        "passes": sorted(found.verdicts.passes),
        "replay": replayed(trace(name)),
    }


def replayed(trace: Trace) -> dict[str, Any]:
    """How well the record is given back by running it again, in percent; or why it is not run again."""
    replay = Replay(trace.context)
    if replay.reason or replay.graph is None:
        return {"reason": replay.reason}
    recorded = trace.step_ms or trace.window_ns / 1e6
    return {
        "step_off": round(100 * (replay.base.step_ns / 1e6 / recorded - 1), 1),
        "window_off": round(100 * (replay.base.window_ns / trace.window_ns - 1), 1),
        "residual": round(100 * replay.graph.residual_ns / trace.window_ns, 1),
        "linked": round(100 * replay.graph.linked_share, 1),
    }


def names() -> list[str]:
    return [*NAMES, TOGETHER] if RENEW else sorted(KNOWN)


@pytest.mark.real
@pytest.mark.parametrize("name", names())
def test_the_verdicts_are_those_on_record(name: str) -> None:
    found = across() if name == TOGETHER else verdicts(name)
    if RENEW:
        KNOWN[name] = found
        RECORD.write_text(json.dumps(KNOWN, indent=1, sort_keys=True) + "\n")
    assert found == KNOWN[name]


def test_all_of_the_real_traces_are_on_record() -> None:
    assert len(KNOWN) >= 42
    assert set(KNOWN) == {*NAMES, TOGETHER}

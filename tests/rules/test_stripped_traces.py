"""Traces of rules' proofs without shapes, without stacks, and without both: no rule breaks on what a recording lacks."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT

from advisor import rulebook
from advisor.pipeline import analyze
from advisor.rulebook import Rule
from advisor.testing.builder import TraceBuilder
from advisor.testing.proof import SUFFIX, cases
from advisor.trace import read

BOOK = rulebook.load([ROOT / "rules"])
OF_SHAPES = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs", "record_shapes")
OF_STACKS = ("Call stack", "with_stack")
LACKING = ((False, True), (True, False), (False, False))
"""Shapes and stacks: whether a trace has them."""


def stripped(trace: dict[str, Any], *, shapes: bool, stacks: bool) -> bytes:
    """Return a trace without what a recording without *shapes*, or without *stacks*, lacks."""
    left_out = (() if shapes else OF_SHAPES) + (() if stacks else OF_STACKS)
    events = [
        {**event, "args": {key: value for key, value in event.get("args", {}).items() if key not in left_out}}
        for event in trace["traceEvents"]
        if stacks or event.get("cat") != "python_function"
    ]
    return json.dumps(
        {key: value for key, value in trace.items() if key not in left_out} | {"traceEvents": events}
    ).encode()


@pytest.mark.parametrize(
    "rule", [rule for rule in BOOK.rules if rule.match.frame == "patterns"], ids=lambda rule: rule.id
)
def test_patterns_are_sought_without_shapes_or_stacks(rule: Rule, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    built = [case.build() for case in cases(ROOT / "rules" / f"{rule.id}{SUFFIX}") if case.kind == "fires"]
    for builder in [one for one in built if isinstance(one, TraceBuilder)]:
        trace = json.loads(builder.to_json())
        for shapes, stacks in LACKING:
            path.write_bytes(stripped(trace, shapes=shapes, stacks=stacks))
            assert "kind" in read(str(path)).patterns.columns


@pytest.mark.parametrize("name", ["cpu_ladder/state0_baseline.json.gz", "article/rung0_baseline.json.gz"])
@pytest.mark.parametrize(("shapes", "stacks"), LACKING)
def test_no_rule_breaks_without_shapes_or_stacks(name: str, shapes: bool, stacks: bool, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    trace = json.loads(gzip.decompress((ROOT / "sample_traces" / name).read_bytes()))
    path.write_bytes(stripped(trace, shapes=shapes, stacks=stacks))
    analysis = analyze(read(str(path)), BOOK)
    assert [(verdict.rule, verdict.message) for verdict in analysis.verdicts.error] == []
    assert [verdict.rule for verdict in analysis.verdicts.not_run]

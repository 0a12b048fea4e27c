"""Shapes that no torch writes: of lists in lists, of nothing, of numbers beyond all bounds. No rule fails for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT

from advisor import rulebook
from advisor.engine.run import run
from advisor.rulebook import Rule
from advisor.testing import TraceBuilder
from advisor.testing.proof import cases
from advisor.testing.runner import proof_of
from advisor.trace import read

BOOK = rulebook.load([ROOT / "rules"])
Odd = Callable[[list[Any]], Any]
ODD: dict[str, Odd] = {
    "no operands": lambda dims: [],
    "one operand": lambda dims: dims[:1],
    "operands without a size": lambda dims: [[] for _ in dims],
    "the last without a size": lambda dims: [*dims[:-1], []],
    "lists in lists": lambda dims: [[[each]] for each in dims],
    "one dimension": lambda dims: [each[:1] if isinstance(each, list) else each for each in dims],
    "zeros": lambda dims: [[0 for _ in each] if isinstance(each, list) else each for each in dims],
    "beyond all bounds": lambda dims: [[10**18 for _ in each] if isinstance(each, list) else each for each in dims],
    "less than nothing": lambda dims: [[-1 for _ in each] if isinstance(each, list) else each for each in dims],
    "more dimensions than any tensor has": lambda dims: [[2] * 70 for _ in dims],
    "no list": lambda dims: "[[2,3]]",
}


def changed(trace: dict[str, Any], odd: Odd) -> dict[str, Any]:
    for event in trace["traceEvents"]:
        args = event.get("args") or {}
        if isinstance(args.get("Input Dims"), list):
            args["Input Dims"] = odd(args["Input Dims"])
    return trace


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(rule, id=rule.id, marks=() if place % 3 == 0 else pytest.mark.study)
        for place, rule in enumerate(BOOK.rules)
        if "shapes" in rule.needs
    ],
)
def test_a_rule_of_shapes_does_not_fail(rule: Rule, tmp_path: Path) -> None:
    case = next(case for case in cases(proof_of(rule)) if case.kind == "fires")
    built = case.build()
    first = built if isinstance(built, TraceBuilder) else next(iter(built))
    assert isinstance(first, TraceBuilder)
    failures, text = {}, first.to_json()
    for name, odd in ODD.items():
        path = tmp_path / "odd.json"
        path.write_text(json.dumps(changed(json.loads(text), odd)))
        found = run(read(str(path)), BOOK)
        if found.verdicts.error:
            failures[name] = [f"{one.rule}: {one.message}" for one in found.verdicts.error]
    assert failures == {}

"""Fixes of the same operators, one behind the other: what goes with operators, and what stays of a step beside all fixes."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.traces import rules

from advisor.pipeline import analyze
from advisor.results.analysis import Analysis, Finding
from advisor.testing import TraceBuilder
from advisor.trace import read

MIB = 1 << 20
MAPPED = 140_000_000_000_000 // 4096 * 4096 + 64
POINTS, CENTRES, WIDTH = 2048, 128, 64
PAIRS = [POINTS, CENTRES, WIDTH]


def analysis(b: TraceBuilder, folder: Path) -> Analysis:
    return analyze(read(str(b.write(folder / "trace.json"))), rules())


def found(result: Analysis, rule: str) -> Finding:
    return {finding.rule: finding for finding in result.findings}[rule]


def distances(*, unrelated_us: float = 0) -> TraceBuilder:
    """Six steps of distances to centres, by differences of 64 MiB: 45 ms, squares: 40 ms, sums: 5 ms, and 2 ms for the rest.

    The differences are given back in 4 ms behind the squares, these in 4 ms behind the sums. *unrelated_us* is another operator
    that is given 64 MiB, which go behind it in a tenth of that time.
    """
    b = TraceBuilder(None, host_us=0, with_stack=False, record_shapes=True, profile_memory=True)
    whole_ms = 100.0 + 1.1 * unrelated_us / 1e3
    b.ran_with(unprofiled_step_ms=(whole_ms, whole_ms, whole_ms), threads=1)
    for step in range(6):
        address = MAPPED + (step << 32)
        with b.step():
            operands = [[POINTS, 1, WIDTH], [1, CENTRES, WIDTH], []]
            strides = [[WIDTH, WIDTH, 1], [CENTRES * WIDTH, WIDTH, 1], []]
            with b.op("aten::sub", shapes=operands, strides=strides, values=["", "", "1"], us=45_000):
                differences = b.memory(64 * MIB, device=-1, address=address)
            with b.op("aten::pow", shapes=[PAIRS, []], strides=[[], []], values=["", "2"], us=40_000):
                squares = b.memory(64 * MIB, device=-1, address=address + (1 << 30))
            b.release(differences)
            b.idle(4_000)
            summed = ["", "[-1]", "False", ""]
            with b.op("aten::sum", shapes=[PAIRS, [], [], []], strides=[[]] * 4, values=summed, us=5_000):
                pass
            b.release(squares)
            b.idle(4_000)
            if unrelated_us:
                with b.op("aten::exp", shapes=[[4096, 4096]], us=unrelated_us):
                    other = b.memory(64 * MIB, device=-1, address=address + (2 << 30))
                b.release(other)
                b.idle(unrelated_us / 10)
            with b.op("aten::argmin", shapes=[[POINTS, CENTRES]], us=2_000):
                pass
    return b


def test_what_operators_made_is_given_back_no_more_where_they_are_gone(tmp_path: Path) -> None:
    """Distances by a product make no tensor of all pairs: nothing is left of its memory, neither given nor given back.

    Of 10 ms beside the 90 of the distances a tenth stays, at best: 1 ms, and no fix takes of that again.
    """
    result = analysis(distances(), tmp_path)
    memory = found(result, "cpu/fresh-memory")
    assert (memory.saving, memory.after) == (None, ["cpu/pairwise-intermediate"])
    assert [step.rules for step in result.plan] == [["cpu/pairwise-intermediate"]]
    assert result.plan[-1].step_ms_after["low"] == pytest.approx(1.0, rel=0.02)


def test_memory_of_other_operators_is_still_worth_its_own(tmp_path: Path) -> None:
    """Beside the distances another operator takes 20 ms with new memory, and 2 behind it: of those 22 no more is worth anything."""
    result = analysis(distances(unrelated_us=20_000), tmp_path)
    memory = found(result, "cpu/fresh-memory")
    assert memory.saving is not None
    assert 0 < memory.saving.high_ms <= 22
    assert [step.rules[0] for step in result.plan] == ["cpu/pairwise-intermediate", "cpu/fresh-memory"]
    assert result.plan[-1].step_ms_after["low"] >= 2


def test_a_second_fix_is_not_worth_what_no_finding_owns(tmp_path: Path) -> None:
    """Python takes 4 of 10 ms, elements picked one by one 4, and a product 2: the errors of both prices do not add up to that."""
    b = TraceBuilder(None, host_us=0, record_shapes=True)
    b.ran_with(unprofiled_step_ms=(10.0, 10.0, 10.0))
    for _ in range(6):
        with b.step():
            with b.python("train.py(8): encode"):
                b.idle(us=4_000)
            with b.python("train.py(9): count"):
                for _ in range(400):
                    with b.op("aten::select", us=10):
                        pass
            with b.op("aten::mkldnn_linear", us=2_000):
                pass
    result = analysis(b, tmp_path)
    assert {rule for step in result.plan for rule in step.rules} == {"cpu/python-time", "cpu/element-loop"}
    assert result.plan[-1].step_ms_after["low"] == pytest.approx(2.0, rel=0.02)

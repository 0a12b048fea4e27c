"""What an optimizer's step updates, what an operator on a list writes, and what a convolution takes by transforms."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.frames.patterns.long_convolution import _operations
from advisor.frames.patterns.updates import _number, _parsed
from advisor.testing import TraceBuilder
from advisor.trace import Trace, read

STORE = "torch::autograd::AccumulateGrad"


@pytest.mark.parametrize(
    ("counts", "number"),
    [
        ({"add_": 3}, 3),  # plain SGD
        ({"mul_": 3, "add_": 6}, 3),  # with momentum
        ({"mul_": 8, "lerp_": 4, "addcmul_": 4, "addcdiv_": 4}, 4),  # AdamW: decay, then the second moment
        ({"_fused_adam_": 5}, 5),
        ({"mul_": 2, "sub_": 5}, None),
    ],
)
def test_the_number_of_tensors_is_that_of_the_operator_that_writes_each_once(
    counts: dict[str, int], number: int | None
) -> None:
    assert _number(counts) == number


@pytest.mark.parametrize(
    ("raw", "listed", "shapes"),
    [
        (b"[[4, 3], [], []]", False, [(4, 3)]),
        (b"[[[4, 3], [3]], []]", True, [(4, 3), (3,)]),
        (b"[[], []]", True, None),  # a list of more than 30 tensors is written as none
        (b"[[[]], []]", True, [()]),
        (b'["4", []]', False, None),
        (b"[[4, 3", False, None),
        (b"[" * 100_000, True, None),
        (b"", False, None),
    ],
)
def test_the_first_operand(raw: bytes, listed: bool, shapes: list[tuple[int, ...]] | None) -> None:
    assert _parsed(raw, listed) == shapes


def test_operations_of_transforms() -> None:
    """Padded to 8 points: three transforms each of 2.5 · 8 · 3 = 60 operations, and five complex products of 8."""
    assert _operations((1, 1, 6), (1, 1, 3), (1,)) == 3 * 60 + 5 * 8


def steps(*, second: bool) -> TraceBuilder:
    """Two steps that store gradients of a head and of a layer below it; with *second* an optimizer of that layer steps, too."""
    b = TraceBuilder(None)
    for step in range(2):
        with b.step():
            for number in (1, 2):
                with b.op("aten::mm", shapes=[[8, 4], [4, 4]], seq=10 * step + number, us=100):
                    pass
            for number, shape in ((2, [2, 4]), (1, [4, 4])):
                with b.backward("MmBackward0", 10 * step + number), b.op("aten::mm", us=100):
                    pass
                with b.op(f"autograd::engine::evaluate_function: {STORE}"), b.op(STORE, shapes=[shape], us=1):
                    pass
            for shape in ([2, 4], [4, 4])[: 1 + second]:
                with b.annotation("Optimizer.step#SGD.step"), b.op("aten::add_", shapes=[shape, shape, []], us=10):
                    pass
    return b


def unused(trace: Trace) -> list[tuple[int, int, str]]:
    """Unused and stored gradients of each backward pass, and what becomes of them."""
    patterns = trace.frame("patterns")
    rows = patterns[patterns["kind"] == "unused-gradients"]
    return list(rows[["repeats", "length", "detail"]].itertuples(index=False, name=None))


def test_a_layer_with_an_optimizer_of_its_own_is_used(tmp_path: Path) -> None:
    assert unused(read(steps(second=True).write(tmp_path / "both.json"))) == []
    assert unused(read(steps(second=False).write(tmp_path / "head.json"))) == [(1, 2, "never updated")] * 2

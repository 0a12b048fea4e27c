"""Time that an operator's sizes take by themselves, and loops whose turns differ in size."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.reading import trace_of

from advisor.pipeline import analyze
from advisor.testing import TraceBuilder


def _loop(shape: list[int], *, us: float = 5, count: int = 300) -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(3):
        with b.step():
            for _ in range(count):
                with b.op("aten::mul", us=us, shapes=[shape, shape]):
                    pass
                b.idle(us=5)
    return b


def test_numbers_take_their_bytes_and_the_rest_is_the_call() -> None:
    # Two operands and a result of 1,000 numbers: 12 kB, 1.2 us at 10 GB/s, of 5 us and 5 us of Python before.
    frame = trace_of(_loop([1000]).to_json()).operator_calls
    assert frame["work_share"].iloc[1:].to_numpy() == pytest.approx(0.12)


def test_numbers_take_no_longer_than_the_operator() -> None:
    # 10,000 numbers would take 12 us: all 5 us of it, and none of the Python.
    frame = trace_of(_loop([10_000]).to_json()).operator_calls
    assert frame["work_share"].iloc[1:].to_numpy() == pytest.approx(0.5)


def test_without_shapes_all_is_the_call() -> None:
    b = TraceBuilder(None)
    with b.step(), b.op("aten::mul", us=5):
        pass
    assert trace_of(b.to_json()).operator_calls["work_share"].tolist() == [0.0]


def test_the_price_of_a_loop_leaves_its_work_out() -> None:
    # 4.8 of 10 us are the numbers' (48 kB): of what a loop over single numbers returns, 0.52 is left.
    whole, part = (
        next(f.saving for f in analyze(trace_of(_loop(shape).to_json())).findings if f.rule == "cpu/tiny-operators")
        for shape in ([1], [4000])
    )
    assert whole is not None
    assert part is not None
    assert part.high_ms / whole.high_ms == pytest.approx(0.52, rel=0.01)


def _windows(
    lengths: tuple[int, ...],
    attention: str = "aten::_softmax",
    scores: Callable[[int], list[int]] = lambda length: [2, length, length],
) -> list[bool]:
    b = TraceBuilder(None, host_us=0)
    for _ in range(2):
        with b.step():
            for length in lengths:
                with b.python("windows.py(12): forward"):
                    with b.op("aten::t", us=2, shapes=[[8, 8]]):
                        pass
                    with b.op("aten::addmm", seq=length, us=5, shapes=[[8], [length, 8], [8, 8]]):
                        pass
                    with b.op(attention, us=5, shapes=[scores(length)]):
                        pass
            with b.python("windows.py(20): forward"), b.op("aten::mul", us=5, shapes=[[8], [8]]):
                pass
            with b.backward("AddmmBackward0", lengths[0]), b.op("aten::mm", us=5, shapes=[[8, 8], [8, 8]]):
                pass
    frame = trace_of(b.to_json()).operator_calls
    calls = frame[frame["name"].str.startswith("aten::")]
    return [bool(flag) for flag in calls["uneven"]]


def test_windows_of_four_lengths_are_uneven_with_their_backward_pass() -> None:
    # Three calls of each window, views of the weight among them, not the line behind; and the product of the backward pass.
    assert _windows((4, 5, 6, 7)) == [*[True] * 12, False, True] * 2


def test_windows_of_three_lengths_are_not() -> None:
    assert not any(_windows((4, 5, 6)))


def test_rows_of_four_lengths_without_attention_can_be_joined() -> None:
    assert not any(_windows((4, 5, 6, 7), attention="aten::gelu"))


def test_numbers_of_the_first_tensor() -> None:
    b = TraceBuilder(None, host_us=0)
    with b.step():
        for shapes in ([[32, 65], [65, 2]], [[[8], [8]], []], [[], [4]]):
            with b.op("aten::mm", shapes=shapes, us=5):
                pass
    assert list(trace_of(b.to_json()).operator_calls["elements"]) == [32 * 65, 0, 0]


@pytest.mark.parametrize(("shape", "counted"), [([10**30], 0), ([10**11] * 6, 1 << 62), ([3] * 20, 0)])
def test_shapes_that_no_tensor_has_end_no_rule(shape: list[int], counted: int) -> None:
    b = TraceBuilder(None, host_us=0)
    with b.step(), b.op("aten::mm", shapes=[shape, []], us=5):
        pass
    trace = trace_of(b.to_json())
    assert list(trace.operator_calls["elements"]) == [counted]
    assert analyze(trace).verdicts.error == []


def test_a_softmax_over_the_rows_of_a_turn_is_no_attention_between_them() -> None:
    # A score for each row of a document, in a column or for each of four heads: padded, they stay as few.
    assert not any(_windows((4, 5, 6, 7), scores=lambda length: [length, 1]))
    assert not any(_windows((4, 5, 6, 7), scores=lambda length: [4, length]))
    assert any(_windows((4, 5, 6, 7), scores=lambda length: [length, length + 1]))


def test_turns_of_a_line_are_those_that_the_recorder_saw_and_of_its_backward_pass() -> None:
    chain = {"turns": 30, "deeper": 0.03, "calls": 90, "file": "users.py", "line": 16}
    b = TraceBuilder(None, host_us=0).ran_with(chains=[chain])
    for line in (16, 20):
        with b.step():
            with b.op("aten::mul", seq=line, us=5, args={"Call stack": f"users.py({line}): forward"}):
                pass
            with b.backward("MulBackward0", line), b.op("aten::mul", us=5):
                pass
    frame = trace_of(b.to_json()).operator_calls
    known = frame[frame["turns"] > 0]
    assert set(known["step"]) == {0}
    assert set(known["phase"]) == {"forward", "backward"}
    assert set(known["turns"]) == {30}
    assert set(known["deeper"]) == {0.03}
    assert frame.loc[frame["turns"] == 0, "deeper"].isna().all()

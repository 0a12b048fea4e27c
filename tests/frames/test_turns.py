"""Loops over recurrent cells and over layers: small traces whose expected values are worked out by hand."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import advisor
from advisor.testing import TraceBuilder

STORE = "torch::autograd::AccumulateGrad"
Op = tuple[str, list[object], list[str]]
"""An operator, its operands' shapes and its arguments, in which ``#`` stands for the turn."""
STATE = [4, 8]
CELL: Op = ("aten::rnn_tanh_cell", [[4, 6], STATE, [8, 6], [8, 8], [8], [8]], [])
SELECT: Op = ("aten::select", [[4, 20, 6], [], []], ["", "1", "#"])
RELU: Op = ("aten::relu", [[4, 6]], [])
HEAD: Op = ("aten::addmm", [[3], [4, 6], [6, 3]], [])
SQUARE: Op = ("aten::addmm", [[6], [4, 6], [6, 6]], [])


def rows(builder: TraceBuilder, tmp_path: Path, kind: str) -> list[dict[str, Any]]:
    table = advisor.read(builder.write(tmp_path / "trace.json")).frame("patterns")
    return list(table[table["kind"] == kind].to_dict("records"))


def loop(b: TraceBuilder, turn: list[Op], turns: int = 10, *, idle: float = 0) -> None:
    """Run turns of operators of 10 us each, and *idle* us before each turn."""
    for number in range(turns):
        b.idle(us=idle)
        for place, (name, shapes, values) in enumerate(turn):
            texts = [text.replace("#", str(number)) for text in values]
            with b.op(name, shapes=shapes, values=texts or None, seq=100 * number + place, us=10):
                pass


def back(b: TraceBuilder, length: int, turns: int = 10) -> None:
    for number in reversed(range(turns)):
        for place in reversed(range(length)):
            with b.backward("SomeBackward0", 100 * number + place), b.op("aten::mm", us=20):
                pass


def stored(b: TraceBuilder, shape: list[int], times: int) -> None:
    for _ in range(times):
        with b.op(STORE, shapes=[shape], fwd_thread=1, us=5):
            pass


def on_cpu() -> TraceBuilder:
    return TraceBuilder(None, host_us=0)


def test_a_loop_of_cells_owns_its_turns_and_their_backward(tmp_path: Path) -> None:
    b = on_cpu()
    with b.step():
        with b.op("aten::relu", us=5):
            pass
        loop(b, [SELECT, CELL], idle=7)
        with b.op("aten::stack", us=40):
            pass
        back(b, 2)
    (row,) = rows(b, tmp_path, "unrolled-cell")
    assert (row["op"], row["detail"], row["repeats"], row["length"]) == ("aten::rnn_tanh_cell", "rnn_tanh_cell", 10, 8)
    # Ten turns of 2 x 10 us, 2 x 20 us backward and 7 us of Python; 40 us to join.
    assert (row["cost_ns"], row["idle_ns"]) == (710_000, 70_000)
    # Of a cell of 4 x (48 + 64) multiply-adds 40 % is spared, of the rest all.
    assert row["part"] == pytest.approx(1 - 0.6 * 300 / 710, abs=1e-4)
    trace = advisor.read(tmp_path / "trace.json")
    table = trace.frame("patterns")
    claimed = trace.claims("patterns", np.ones(len(table), np.bool_))
    assert trace.ledger.dur_ns[claimed].sum() == row["cost_ns"]


@pytest.mark.parametrize(
    ("turn", "found"),
    [
        ([SELECT, CELL], 1),
        ([SELECT, RELU, CELL], 1),
        ([("aten::slice", [[4, 20, 6], [], [], [], []], ["", "1", "#", "9223372036854775807", "1"]), CELL], 0),
        ([("aten::select", [[20, 4, 6], [], []], ["", "0", "#"]), CELL], 1),
        ([("aten::select", [[4, 20, 6], [], []], ["", "1", "3"]), CELL], 0),  # always the same
        ([("aten::select", [[4, 20, 5], [], []], ["", "1", "#"]), CELL], 0),  # not what the cell takes
        ([SELECT, ("aten::cat", [[4, 3], [4, 3], []], []), CELL], 0),
        ([SELECT, CELL, ("aten::mul", [STATE, [4, 1]], [])], 0),  # states that are reset
        ([SELECT, CELL, ("aten::mul", [STATE, [4, 1]], []), ("aten::add", [STATE, STATE, []], [])], 1),  # padding
        ([CELL], 0),
    ],
)
def test_inputs_are_known_or_not(tmp_path: Path, turn: list[Op], found: int) -> None:
    b = on_cpu()
    with b.step():
        loop(b, turn)
        back(b, len(turn))
    assert len(rows(b, tmp_path, "unrolled-cell")) == found


@pytest.mark.parametrize(("turns", "found"), [(7, 0), (8, 1)])
def test_few_turns_are_no_loop(tmp_path: Path, turns: int, found: int) -> None:
    b = on_cpu()
    with b.step():
        loop(b, [SELECT, CELL], turns)
        back(b, 2, turns)
    assert len(rows(b, tmp_path, "unrolled-cell")) == found


def test_layers_own_their_gradients_and_updates(tmp_path: Path) -> None:
    b = on_cpu()
    with b.step():
        loop(b, [SELECT, HEAD])
        back(b, 2)
        stored(b, [3, 6], 10)
        stored(b, [9, 9], 1)
        with b.annotation("Optimizer.step#SGD.step"):
            for shape in [[3, 6]] * 10 + [[9, 9]]:
                with b.op("aten::add_", shapes=[shape, shape, []], us=3):
                    pass
    (row,) = rows(b, tmp_path, "separate-layers")
    assert (row["op"], row["detail"], row["repeats"], row["length"]) == ("aten::addmm", "select, addmm", 10, 18)
    # Ten turns of 2 x 10 us and 2 x 20 us backward, as many gradients of 5 us and updates of 3 us.
    assert row["cost_ns"] == 680_000
    # Slices are spared, of the layers and updates 88 %.
    assert row["part"] == pytest.approx((300 + 0.88 * 380) / 680, abs=1e-3)


@pytest.mark.parametrize(
    ("turn", "found"),
    [
        ([HEAD], 1),
        ([SQUARE], 1),  # one product each backward: none needs the gradient of what it takes
        ([SQUARE, RELU], 0),
        ([SELECT, SQUARE, RELU], 1),
        ([SELECT, SQUARE, RELU, SQUARE], 1),
        ([("aten::cat", [[4, 3], [4, 3], []], []), HEAD], 0),
        ([HEAD, ("aten::mul", [[4, 6], [4, 3]], [])], 0),
        # the state of a generator, scaled by a style of its own in each layer
        ([("aten::addmm", [[6], [4, 2], [2, 6]], []), ("aten::mul", [[4, 6], [4, 6]], []), SQUARE, RELU], 0),
        ([HEAD, ("aten::glu", [[4, 3], []], [])], 0),
    ],
)
def test_layers_follow_each_other_or_not(tmp_path: Path, turn: list[Op], found: int) -> None:
    b = on_cpu()
    with b.step():
        loop(b, turn)
        back(b, len(turn))
        stored(b, [3, 6], 20)
        stored(b, [6, 6], 20)
        stored(b, [6, 2], 20)
    assert len(rows(b, tmp_path, "separate-layers")) == found


@pytest.mark.parametrize(("gradients", "found"), [(0, 0), (1, 0), (8, 0), (10, 1)])
def test_each_layer_has_a_gradient_of_its_own(tmp_path: Path, gradients: int, found: int) -> None:
    b = on_cpu()
    with b.step():
        loop(b, [HEAD])
        back(b, 1)
        stored(b, [3, 6], gradients)
    assert len(rows(b, tmp_path, "separate-layers")) == found


@pytest.mark.parametrize(
    ("products", "added", "found"),
    [
        (1, 0, 1),
        (2, 9, 1),  # gradients of the input that all have are added up
        (2, 0, 0),  # each gives its input's gradient to the layer before: a stack
        (2, 5, 0),
    ],
)
@pytest.mark.parametrize("device", [None, "Tesla V100-SXM2-16GB"])
def test_gradients_tell_a_stack_from_layers_on_one_input(
    tmp_path: Path, products: int, added: int, found: int, device: str | None
) -> None:
    b = TraceBuilder(device, host_us=0)
    with b.step():
        for number in range(10):
            with b.op(SQUARE[0], shapes=SQUARE[1], seq=number, us=50):
                if device:
                    b.kernel("sgemm", us=5)
        for number in reversed(range(10)):
            with b.backward("AddmmBackward0", number):
                for name in ["aten::mm"] * products + ["aten::add_"] * (number < added):
                    with b.op(name, us=20):
                        pass
        stored(b, [6, 6], 10)
    assert len(rows(b, tmp_path, "separate-layers")) == found


def heads(device_us: float, *, modules: bool = False) -> TraceBuilder:
    """Ten heads of 50 us with a kernel each, which picks a part of its own, and their backward."""
    b = TraceBuilder(host_us=0)
    with b.step():
        with b.python("nn.Module: Heads_0"):
            for number in range(10):
                name, shapes, values = SELECT
                with b.op(name, shapes=shapes, values=[text.replace("#", str(number)) for text in values], us=4):
                    pass
                with ExitStack() as stack:
                    if modules:
                        stack.enter_context(b.python(f"nn.Module: Linear_{number}"))
                    with b.op(HEAD[0], shapes=HEAD[1], seq=number, us=50):
                        b.kernel("sgemm", us=device_us)
        b.sync()
        for number in reversed(range(10)):
            with b.backward("AddmmBackward0", number), b.op("aten::mm", us=50):
                b.kernel("sgemm", us=device_us)
        stored(b, [3, 6], 10)
        b.sync()
    return b


@pytest.mark.parametrize("modules", [False, True])
def test_layers_own_kernels_and_idle_time_on_a_gpu(tmp_path: Path, modules: bool) -> None:
    (row,) = rows(heads(5, modules=modules), tmp_path, "separate-layers")
    assert (row["op"], row["detail"], row["repeats"]) == ("aten::addmm", "select, addmm", 10)
    assert (row["own_count"], row["own_ns"], row["backward_ns"]) == (20, 100_000, 50_000)
    # Of 4 us to pick and 50 for a layer: 6 until its first kernel begins, 49 between two, 43 behind the last until the host waits;
    # backward nine times 45.
    assert row["idle_ns"] == 1000 * (6 + 9 * 49 + 43 + 9 * 45)
    # Two turns of ten of what the host takes beyond the kernels stay, and 50 us of kernels of the 1000 us.
    assert row["part"] == pytest.approx(1 - (0.2 * 0.9 + 0.05), abs=0.01)


def test_large_layers_on_a_gpu_are_as_long_batched(tmp_path: Path) -> None:
    b = TraceBuilder(host_us=0)
    with b.step():
        for number in range(10):
            with b.op("aten::addmm", shapes=[[2048], [4096, 1024], [1024, 2048]], seq=number, us=10):
                b.kernel("sgemm", us=900)
        b.sync()
        for number in reversed(range(10)):
            with b.backward("AddmmBackward0", number), b.op("aten::mm", us=10):
                b.kernel("sgemm", us=900)
        stored(b, [1024, 2048], 10)
        b.sync()
    (row,) = rows(b, tmp_path, "separate-layers")
    assert row["part"] == 0

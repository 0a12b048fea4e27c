"""Heads of one attention that run one by one: small traces whose expected values are worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import advisor
from advisor.testing import TraceBuilder

BATCH, TOKENS, WIDTH, SIZE = 4, 16, 32, 8
PART, SCORES = [BATCH, TOKENS, SIZE], [BATCH, TOKENS, TOKENS]
Op = tuple[str, list[object]]
LINEAR: Op = ("aten::linear", [[BATCH, TOKENS, WIDTH], [SIZE, WIDTH], []])
PRODUCT: Op = ("aten::matmul", [PART, [BATCH, SIZE, TOKENS]])
SOFTMAX: Op = ("aten::softmax", [SCORES, [], []])
VALUES: Op = ("aten::matmul", [SCORES, PART])
HEAD = [LINEAR, LINEAR, LINEAR, PRODUCT, SOFTMAX, VALUES]
DROPOUT: Op = ("aten::dropout", [SCORES, [], []])


def head(
    b: TraceBuilder, turn: list[Op], number: int, *, dropped: bool = False, idle: float = 0, training: bool = True
) -> None:
    b.idle(us=idle)
    for place, (name, shapes) in enumerate(turn):
        with b.op(name, shapes=shapes, seq=100 * number + place if training else None, us=10):
            inner = {"aten::linear": "aten::mm", "aten::dropout": "aten::native_dropout" if dropped else ""}.get(name)
            if inner:
                with b.op(inner, us=2):
                    pass


def back(b: TraceBuilder, turn: list[Op], heads: int, *, adds: int, skipped: int | None = None) -> None:
    """Run the backward pass of the heads, the last first; so many gradients of their layers are added up.

    Or all are but for one, of the head *skipped*.
    """
    for number in reversed(range(heads)):
        for place in reversed(range(len(turn))):
            with b.backward("SomeBackward0", 100 * number + place):
                with b.op("aten::mm", us=20):
                    pass
                one = place > 0 or number != skipped
                if turn[place][0] == "aten::linear" and (adds > 0 if skipped is None else one):
                    adds -= 1
                    with b.op("aten::add", us=1):
                        pass


def steps(
    turn: list[Op],
    heads: int = 4,
    *,
    join: str = "aten::cat",
    joined: list[Any] | None = None,
    adds: int | None = None,
    training: bool = True,
    dropped: bool = False,
    idle: float = 0,
    behind: Op | None = None,
    skipped: int | None = None,
) -> TraceBuilder:
    b = TraceBuilder(None, host_us=0)
    with b.step():
        with b.op("aten::mkldnn_convolution", us=5):
            pass
        for number in range(heads):
            head(b, turn, number, dropped=dropped, idle=idle, training=training)
        if behind:
            with b.op(behind[0], shapes=behind[1], us=1):
                pass
        with b.op(join, shapes=[joined or [PART] * heads, []], us=30):
            pass
        if training:
            layers = [place for place, (name, _) in enumerate(turn) if name == "aten::linear"]
            back(b, turn, heads, adds=len(layers) * heads - 1 if adds is None else adds, skipped=skipped)
    return b


def rows(b: TraceBuilder, tmp_path: Path) -> list[dict[str, Any]]:
    table = advisor.read(b.write(tmp_path / "trace.json")).frame("patterns")
    return list(table[table["kind"] == "separate-heads"].to_dict("records"))


def test_heads_own_their_turns_their_backward_and_what_joins_them(tmp_path: Path) -> None:
    (row,) = rows(steps(HEAD, idle=7), tmp_path)
    assert (row["op"], row["repeats"], row["length"], row["head_dim"]) == ("aten::linear", 4, SIZE * WIDTH, SIZE)
    assert row["detail"] == "linear, linear, linear, matmul, softmax, matmul"
    # Four heads of six operators of 10 us and 7 us of Python, 20 us each backward, 11 additions, and 30 us to join.
    assert (row["cost_ns"], row["idle_ns"]) == (4 * (6 * 30 + 7) * 1000 + 11_000 + 30_000, 28_000)
    trace = advisor.read(tmp_path / "trace.json")
    table = trace.frame("patterns")
    claimed = trace.claims("patterns", (table["kind"] == "separate-heads").to_numpy())
    assert trace.ledger.dur_ns[claimed].sum() == row["cost_ns"]


def part(heads: int, layer: float, product: float, scores: float, *, dropped: bool = False) -> float:
    """The part that is spared of heads without Python between, by the rates of their operators."""
    rates = [min(1.6 * rate * (1 - 1 / heads), 1) for rate in (layer, product, scores)]
    number = 2 if dropped else 1
    spared = rates[0] * (3 * 30 * heads + 3 * heads - 1) + 30 * heads * (2 * rates[1] + number * rates[2]) + 0.6 * 30
    return spared / (30 * heads * (5 + number) + 3 * heads - 1 + 30)


def test_the_part_falls_with_the_size_of_the_products(tmp_path: Path) -> None:
    layer = 0.03 + 1 / (1 + BATCH * TOKENS * WIDTH * SIZE / 3e5)
    product = 1 / (1 + BATCH * TOKENS * TOKENS * SIZE / 2e5)
    scores = 0.2 / (1 + BATCH * TOKENS * TOKENS / 2e4)
    # Heads of 8 are half as wide as those that a fused attention spares most of.
    (row,) = rows(steps(HEAD), tmp_path)
    assert row["part"] == pytest.approx(part(4, layer, product + 0.25, scores + 0.24), abs=2e-3)
    # With dropout it is not fused.
    turn = [*HEAD[:5], DROPOUT, VALUES]
    (row,) = rows(steps(turn, dropped=True), tmp_path)
    assert row["part"] == pytest.approx(part(4, layer, product, scores, dropped=True), abs=2e-3)
    (plain,) = rows(steps(turn), tmp_path)
    assert plain["part"] > row["part"] + 0.05


@pytest.mark.parametrize(
    ("heads", "adds", "found"),
    [
        (4, 11, 1),
        (4, 10, 0),  # one gradient goes elsewhere
        (4, 8, 0),  # an input each, to which three layers send gradients
        (3, 8, 1),
        (3, 6, 0),
        (2, 5, 0),  # too few
        (4, 0, 1),  # the input needs no gradient; 4 x 8 columns are as many as it has
        (5, 0, 0),
    ],
)
def test_gradients_that_are_added_up_tell_that_the_input_is_one(
    tmp_path: Path, heads: int, adds: int, found: int
) -> None:
    assert len(rows(steps(HEAD, heads, adds=adds), tmp_path)) == found


@pytest.mark.parametrize(("heads", "found"), [(4, 1), (3, 0), (6, 0)])
def test_without_gradients_heads_are_as_wide_together_as_their_input(tmp_path: Path, heads: int, found: int) -> None:
    assert len(rows(steps(HEAD, heads, training=False), tmp_path)) == found


@pytest.mark.parametrize(("first", "found"), [(False, 1), (True, 0)])
def test_heads_as_wide_as_their_input_may_follow_each_other(tmp_path: Path, first: bool, found: int) -> None:
    wide, scores = [BATCH, TOKENS, WIDTH], SCORES
    layer: Op = ("aten::linear", [wide, [WIDTH, WIDTH], []])
    product: Op = ("aten::matmul", [wide, [BATCH, WIDTH, TOKENS]])
    turn = [layer, layer, layer, product, SOFTMAX, ("aten::matmul", [scores, wide])]
    # Of heads on one input the last one's gradient is the first, to which others are added. Where each reads what the one before
    # gave, all of these results are joined as well: the first head alone has one to add less.
    b = steps(turn, joined=[wide] * 4, adds=0, skipped=0 if first else 3)
    assert len(rows(b, tmp_path)) == found


FUSED: Op = ("aten::scaled_dot_product_attention", [PART, PART, PART, [], [], []])
LONGER: Op = ("aten::linear", [[BATCH, 24, WIDTH], [SIZE, WIDTH], []])


@pytest.mark.parametrize(
    ("turn", "found"),
    [
        (HEAD, 1),
        ([LINEAR, LINEAR, PRODUCT, ("aten::mul", [SCORES, []]), SOFTMAX, LINEAR, VALUES], 1),
        ([LINEAR, LINEAR, LINEAR, FUSED], 1),
        (
            [
                LINEAR,
                LINEAR,
                LINEAR,
                ("aten::einsum", [[], [PART, PART], []]),
                SOFTMAX,
                ("aten::einsum", [[], [SCORES, PART], []]),
            ],
            1,
        ),
        ([LINEAR, LINEAR, LONGER, FUSED], 0),  # of another input
        ([LINEAR, LINEAR, LINEAR, LINEAR, FUSED], 0),  # a gate, or a layer behind
        ([PRODUCT, SOFTMAX, VALUES], 0),  # no layers
        ([LINEAR, LINEAR, LINEAR, PRODUCT, VALUES], 0),  # no softmax
        ([LINEAR, LINEAR, LINEAR, SOFTMAX, PRODUCT, VALUES], 0),  # nothing before it
        ([*HEAD, ("aten::gelu", [PART])], 0),  # more than an attention
        ([LINEAR, LINEAR, LINEAR, PRODUCT, ("aten::softmax", [[BATCH, 9, 9], [], []]), VALUES], 0),  # of other scores
        ([LINEAR, LINEAR, LINEAR, FUSED, FUSED], 0),
    ],
)
def test_a_turn_is_an_attention_and_nothing_else(tmp_path: Path, turn: list[Op], found: int) -> None:
    assert len(rows(steps(turn), tmp_path)) == found


@pytest.mark.parametrize(
    ("join", "joined", "behind", "found"),
    [
        ("aten::cat", None, None, 1),
        ("aten::stack", None, None, 1),
        ("aten::add", None, None, 0),
        ("aten::cat", [PART] * 5, None, 0),  # and what something else gave
        ("aten::cat", [[BATCH, TOKENS, 5]] * 4, None, 0),
        ("aten::cat", [PART, PART, PART, [BATCH, TOKENS, 9]], None, 0),
        ("aten::cat", None, ("aten::relu", [PART]), 0),
    ],
)
def test_what_is_joined_are_the_results_of_the_turns(
    tmp_path: Path, join: str, joined: list[Any] | None, behind: Op | None, found: int
) -> None:
    assert len(rows(steps(HEAD, join=join, joined=joined, behind=behind), tmp_path)) == found


def on_a_gpu(kernel_us: float) -> TraceBuilder:
    b = TraceBuilder(host_us=0)
    with b.step():
        for _ in range(4):
            for name, shapes in HEAD:
                with b.op(name, shapes=shapes, us=50):
                    b.kernel("sgemm", us=kernel_us)
        with b.op("aten::cat", shapes=[[PART] * 4, []], us=50):
            b.kernel("copy", us=kernel_us)
        b.sync()
    return b


def test_heads_own_their_kernels_and_idle_time_on_a_gpu(tmp_path: Path) -> None:
    (row,) = rows(on_a_gpu(5), tmp_path)
    assert (row["repeats"], row["own_count"], row["own_ns"]) == (4, 25, 125_000)
    # 45 us before each kernel but the first, which begins at 6 us, and 43 behind the last until the host waits.
    assert row["idle_ns"] == pytest.approx(25 * 45_000, rel=0.01)
    # The kernels of one turn at least and of two turns' time on the host stay: half of four.
    assert 0.4 < row["part"] < 0.55
    trace = advisor.read(tmp_path / "trace.json")
    claimed = trace.claims("patterns", np.ones(len(trace.frame("patterns")), np.bool_))
    assert trace.ledger.dur_ns[claimed].sum() >= row["cost_ns"]

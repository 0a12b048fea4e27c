"""Attention in steps on the CPU: what of it a fused operator replaces, the size of its scores, and what forbids fusing it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisor.testing import TraceBuilder
from advisor.trace import read

Q, K, S, V = [16, 256, 64], [16, 64, 256], [16, 256, 256], [16, 256, 64]
CUBE = [2, 8, 256, 256]


def run(
    b: TraceBuilder, name: str, us: float, *shapes: list[int], seq: int | None = None, dtype: str = "float"
) -> None:
    with b.op(name, shapes=list(shapes), dtypes=[dtype] * len(shapes), seq=seq, us=us):
        pass


def attend(*, dropout: bool = False, bias: bool = False, dtype: str = "float", train: bool = True) -> TraceBuilder:
    """One call of attention whose two products are wrapped by `aten::matmul`, which copies a factor of the first."""
    b = TraceBuilder(None, host_us=0)
    with b.step():
        with b.op("aten::matmul", shapes=[[2, 8, 256, 64], [2, 8, 64, 256]]):
            run(b, "aten::copy_", 8, [2, 8, 64, 256], [2, 8, 64, 256], [])
            run(b, "aten::bmm", 100, Q, K, seq=1)
        run(b, "aten::mul", 10, CUBE, [], seq=2)
        run(b, "aten::tril", 7, [256, 256], [])  # the mask itself: not on the scores
        if bias:
            run(b, "aten::add", 9, CUBE, [1, 8, 256, 256], [], seq=3)
        run(b, "aten::_softmax", 20, CUBE, [], [], seq=4, dtype=dtype)
        if dropout:
            run(b, "aten::bernoulli_", 30, CUBE, [], [])
        with b.op("aten::matmul", shapes=[CUBE, [2, 8, 256, 64]]):
            run(b, "aten::bmm", 100, S, V, seq=5)
        run(b, "aten::mm", 500, [512, 512], [512, 512], seq=6)
        if train:
            for name, seq, inner, us in (
                ("MmBackward0", 6, "mm", 1000),
                ("BmmBackward0", 5, "bmm", 200),
                ("SoftmaxBackward0", 4, "_softmax_backward_data", 30),
                ("AddBackward0", 3, "sum", 12),
                ("MulBackward0", 2, "mul", 11),
                ("BmmBackward0", 1, "bmm", 200),
            ):
                if bias or seq != 3:
                    with b.backward(name, seq, shapes=[CUBE]):
                        run(b, f"aten::{inner}", us, CUBE, CUBE)
    return b


def attention(b: TraceBuilder, tmp_path: Path) -> Any:
    table = read(str(b.write(tmp_path / "trace.json"))).frame("patterns")
    return table[table["kind"] == "attention"]


def test_its_time_is_what_runs_on_the_scores_and_both_products_forward_and_backward(tmp_path: Path) -> None:
    (row,) = attention(attend(), tmp_path).to_dict("records")
    # 8 + 100 in the first product, 10 + 20 between, 100 in the second; 200 + 30 + 11 + 200 in the backward pass.
    assert row["cost_ns"] == 679_000
    assert (row["bytes"], row["seq_len"], row["head_dim"], row["detail"]) == (16 * 256 * 256 * 4, 256, 64, "plain")
    assert row["gpu_ns"] == 0


def test_inference_has_the_forward_alone(tmp_path: Path) -> None:
    assert attention(attend(train=False), tmp_path)["cost_ns"].tolist() == [238_000]


@pytest.mark.parametrize(
    ("options", "detail"),
    [
        ({"dropout": True}, "dropout"),
        ({"bias": True}, "bias-gradient"),
        ({"bias": True, "train": False}, "masked"),  # nothing learns in inference
    ],
)
def test_a_word_on_what_keeps_it_from_being_fused(options: dict[str, bool], detail: str, tmp_path: Path) -> None:
    assert attention(attend(**options), tmp_path)["detail"].tolist() == [detail]


def test_types_that_were_not_measured_have_no_size(tmp_path: Path) -> None:
    assert attention(attend(dtype="c10::BFloat16"), tmp_path)["bytes"].isna().all()

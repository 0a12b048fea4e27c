"""Operators of one's own that only move memory, by their names."""

from __future__ import annotations

import pytest
from support.reading import trace_of

from advisor.roofline import families, own
from advisor.roofline.signature import read
from advisor.testing import TraceBuilder


@pytest.mark.parametrize(
    "name",
    [
        "MySoftmax",
        "mylib::rms_norm",
        "FusedRMSNorm",
        "NaiveLayerNormFunction",
        "GeLUFunction",
        "x::l2_normalize",
        "SwiGLU",
    ],
)
def test_a_name_that_says_what_moves_has_a_formula(name: str) -> None:
    assert own.named(name) is not None
    assert families.find(name) is not None


@pytest.mark.parametrize(
    "name",
    [
        "aten::_softmax_of_something", "MySoftmaxBackward", "ReluBackward0", "x::softmax_attention", "x::norm_linear",
        "x::cross_entropy_softmax", "clip_grad_norm", "WeightNorm", "x::mm_relu", "nn.Module: LayerNorm_0", "x::compare",
        "x::scatter_softmax", "softmax" * 40,
    ],
)  # fmt: skip
def test_a_name_that_says_more_has_none(name: str) -> None:
    assert own.named(name) is None


def test_its_bytes_are_those_of_its_operands_and_known_to_be_no_fewer() -> None:
    signature = read("MySoftmax", b"[[16, 1024], [1024]]", b'["c10::Half", "float"]')
    assert signature is not None
    work = families.work(signature)
    assert work is not None
    assert (work.kind, work.flops, work.bytes, work.exact) == ("softmax", None, 16 * 1024 * 2 + 1024 * 4, False)


def test_its_kernel_has_a_limit() -> None:
    b = TraceBuilder("AMD Instinct MI300X")
    with b.op("MyGELU", us=5, shapes=[[65536, 16384]], dtypes=["c10::Half"]):
        b.kernel("gelu_kernel", us=3000)
    kernel = trace_of(b.to_json()).frame("kernels").iloc[0]
    assert kernel["bound"] == "memory"
    assert kernel["min_bytes"] == 65536 * 16384 * 2

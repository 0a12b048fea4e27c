"""Chains of pointwise kernels: what may be one, and what is a loop over tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisor import trace
from advisor.frames.chains import _may_read
from advisor.testing import TraceBuilder

KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::{}<float>>"
Call = tuple[str, list[list[int]] | None]


def lengths(calls: list[Call], tmp_path: Path, *, device: str = "NVIDIA A100-PCIE-40GB", name: str = "F") -> list[int]:
    """Length of the chain that each call's kernel is in."""
    b = TraceBuilder(device)
    with b.step():
        for op, shapes in calls:
            with b.op(op, shapes=shapes, dtypes=["float"] * len(shapes or [])):
                b.kernel(KERNEL.format(name), us=100)
    kernels = trace.read(str(b.write(tmp_path / "t.json"))).kernels
    return list(kernels["chain_length"].tolist())


W, BIAS = [512, 512], [512]
JOIN = (
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::OpaqueType<2u>, unsigned int, 3, 64, 64>"
)
REDUCTION = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float>>>"
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>"
PRODUCT = "ampere_sgemm_128x64_nn"
NAMES = {"aten::cat": JOIN, "aten::mean": REDUCTION, "aten::native_layer_norm": NORM, "aten::mm": PRODUCT}


def column(name: str, calls: list[tuple[str, list[Any] | None]], tmp_path: Path) -> list[Any]:
    """A column of `kernels`, of calls whose operators say which kernel they launch."""
    b = TraceBuilder("NVIDIA A100-PCIE-40GB")
    with b.step():
        for op, shapes in calls:
            with b.op(op, shapes=shapes, dtypes=["float"] * len(shapes or [])):
                b.kernel(NAMES.get(op, KERNEL.format("F")), us=100)
    return list(trace.read(str(b.write(tmp_path / "t.json"))).kernels[name].tolist())


ROW, HALVES = [512, 1], [[512, 256], [512, 256]]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        # The halves come from the kernel before, and the whole goes into the one behind.
        ([("aten::neg", [[512, 256]]), ("aten::cat", [HALVES, []]), ("aten::mul", [W, W])], [3, 3, 3]),
        # Its parts are not said: there may be two or two hundred.
        ([("aten::neg", [[512, 256]]), ("aten::cat", [[], []]), ("aten::mul", [W, W])], [0, 0, 0]),
        # Nothing reads the whole, or a product does.
        ([("aten::mul", [W]), ("aten::neg", [[512, 256]]), ("aten::cat", [HALVES, []])], [2, 2, 0]),
        ([("aten::neg", [[512, 256]]), ("aten::cat", [HALVES, []]), ("aten::mm", [W, W])], [0, 0, 0]),
        # x - x.mean(-1): broadcast over what was reduced, at once or after a shift and a root.
        ([("aten::mean", [W]), ("aten::sub", [W, ROW]), ("aten::mul", [W, W])], [3, 3, 3]),
        ([("aten::pow", [W]), ("aten::mean", [W]), ("aten::rsqrt", [ROW]), ("aten::mul", [W, ROW])], [4, 4, 4, 4]),
        # A loss is broadcast over nothing; a mean over columns takes another kernel; without shapes nobody knows.
        ([("aten::pow", [W]), ("aten::mean", [W]), ("aten::neg", [[1]]), ("aten::mul", [[1], [1]])], [0, 0, 2, 2]),
        ([("aten::mean", [[512, 256]]), ("aten::sub", [[512, 256], [256]]), ("aten::mul", [[512, 256]])], [0, 2, 2]),
        ([("aten::mean", None), ("aten::sub", None), ("aten::mul", None)], [0, 2, 2]),
    ],
)
def test_links_that_are_not_pointwise(
    calls: list[tuple[str, list[Any] | None]], expected: list[int], tmp_path: Path
) -> None:
    assert column("chain_length", calls, tmp_path) == expected


NARROW, WIDE = [64, 512], [64, 2048]


@pytest.mark.parametrize(
    ("product", "reads", "gated"),
    [
        ([NARROW, [512, 2048]], [WIDE, WIDE], True),
        ([WIDE, [2048, 2048]], [WIDE, WIDE], False),  # the product reads what the activation wrote
        ([NARROW, [512, 2048]], [WIDE, [2048]], False),  # one operand alone is the product's
        ([NARROW, W], [WIDE, WIDE], False),  # its result is another's
    ],
)
def test_a_gate_lies_around_a_product(product: list[Any], reads: list[Any], gated: bool, tmp_path: Path) -> None:
    calls = [("aten::silu", [WIDE]), ("aten::mm", product), ("aten::mul", reads)]
    assert column("gated", calls, tmp_path) == [gated, False, gated]


@pytest.mark.parametrize(
    ("op", "reads", "epilogue"),
    [
        ("aten::add", [WIDE, [2048], []], "bias"),
        ("aten::add_", [[2048], [4, 16, 2048], []], "bias"),  # of a batch of sequences, and the other way round
        ("aten::add", [WIDE, [1, 2048], []], "bias"),
        ("aten::add", [WIDE, [64, 1], []], None),  # a column
        ("aten::add", [WIDE, WIDE, []], None),
        ("aten::sub", [WIDE, [2048], []], None),
        ("aten::add", [[64, 4096], [4096], []], None),  # another tensor
        ("aten::mul", [WIDE, [2048]], None),  # a gain: a number for each column
        ("aten::mul", [WIDE, []], "scale"),
        ("aten::div", [[4, 16, 2048], []], "scale"),
        ("aten::mul", [NARROW, []], None),
    ],
)
def test_a_bias_or_a_scale_right_behind_a_product(
    op: str, reads: list[Any], epilogue: str | None, tmp_path: Path
) -> None:
    found = column("epilogue", [("aten::mm", [NARROW, [512, 2048]]), (op, reads)], tmp_path)
    assert found[1] == epilogue or (epilogue is None and found[1] != found[1])


def test_a_scale_of_a_result_with_twice_the_elements_of_a_factor_stays(tmp_path: Path) -> None:
    factors = [[1024, 512], [512, 1024]]
    found = column("epilogue", [("aten::mm", factors), ("aten::mul", [[1024, 1024], []])], tmp_path)
    assert found[1] != found[1]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([("aten::add", [W, W]), ("aten::native_layer_norm", [W, BIAS, BIAS]), ("aten::gelu", [W])], [3, 3, 3]),
        ([("aten::mm", [W, W]), ("aten::native_layer_norm", [W, BIAS, BIAS]), ("aten::mm", [W, W])], [0, 0, 0]),
        # The count of batches has no tensor, and the bias is another one.
        ([("aten::add_", [[], []]), ("aten::native_layer_norm", [W, BIAS, BIAS]), ("aten::mm", [W, W])], [0, 0, 0]),
        ([("aten::native_layer_norm", [W, BIAS, BIAS]), ("aten::mul", [[7], [7]])], [0, 0]),
    ],
)
def test_what_stands_around_a_normalization(
    calls: list[tuple[str, list[Any] | None]], expected: list[int], tmp_path: Path
) -> None:
    assert column("norm_chain", calls, tmp_path) == expected


@pytest.mark.parametrize("device", ["NVIDIA A100-PCIE-40GB", "AMD Instinct MI300X"])
@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        # Differing operators.
        ([("aten::mul", [W, W]), ("aten::add", [W, W]), ("aten::gelu", [W])], [3, 3, 3]),
        ([("aten::mul", None), ("aten::add", None), ("aten::gelu", None)], [3, 3, 3]),
        # One operator, whatever its shapes say.
        ([("aten::add_", [W, W])] * 3, [0, 0, 0]),
        ([("aten::add_", [W, W]), ("aten::add_", [BIAS, BIAS])] * 50, [0] * 100),
        ([("aten::mul", None)] * 3, [0, 0, 0]),
        # A loop of one operator, between two links of a chain: neither reaches over it.
        (
            [("aten::mul", None), ("aten::add", None), *[("aten::add_", None)] * 4, ("aten::gelu", None)],
            [2, 2, 0, 0, 0, 0, 0],
        ),
        # The same operator twice: the second may read what the first wrote.
        ([("aten::mul", [W, W]), ("aten::mul", [W, BIAS]), ("aten::add", [W, W])], [3, 3, 3]),
        # ... and may not.
        ([("aten::mul", [W, W]), ("aten::mul", [BIAS, BIAS]), ("aten::add", [BIAS, BIAS])], [0, 2, 2]),
        # A moving average, in place: pairs.
        (
            [("aten::mul_", [W, []]), ("aten::add_", [W, W]), ("aten::mul_", [BIAS, []]), ("aten::add_", [BIAS, BIAS])],
            [2] * 4,
        ),
    ],
)
def test_what_is_a_chain(calls: list[Call], expected: list[int], device: str, tmp_path: Path) -> None:
    assert lengths(calls, tmp_path, device=device) == expected


def test_a_graph_s_kernels_go_by_their_names(tmp_path: Path) -> None:
    b = TraceBuilder("NVIDIA A100-PCIE-40GB")
    with b.step(), b.op("my::decode"):
        b.graph([(KERNEL.format(name), 10) for name in ("Mul", "Add", "Gelu")])
        b.graph([(KERNEL.format("Mul"), 10)] * 4)
    kernels = trace.read(str(b.write(tmp_path / "t.json"))).kernels
    assert kernels["chain_length"].tolist() == [3, 3, 3, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("before", "after", "may"),
    [
        ("[[64,1024],[]]", "[[64,1024]]", True),
        ("[[64,1],[1,1024]]", "[[64,1024],[64,1024]]", True),  # broadcast to 65,536
        ("[[64,1024]]", "[[65536]]", True),
        ("[[64,1024]]", "[[64,512],[64,512]]", True),  # a half
        ("[[64,1024]]", "[[64,3072]]", True),  # joined from three
        ("[[64,1024]]", "[[64]]", False),
        ("[[512]]", "[[512,512],[512,512]]", False),
        ("[[100,64],[32]]", "[[32,64]]", True),  # indexing: nothing is known of its result
        ("[]", "[[64]]", True),
        ("", "[[64]]", True),
    ],
)
def test_shapes_that_may_be_of_one_tensor(before: str, after: str, may: bool) -> None:
    assert _may_read(before, after) is may


@pytest.mark.parametrize("around", ["torch::autograd::AccumulateGrad", "torch::distributed::reducer::mul_out"])
def test_gradients_that_are_added_up_between_two_links_are_none(around: str, tmp_path: Path) -> None:
    # add, then a gradient of some parameter, then threshold_backward: the chain is of the first and the last.
    b = TraceBuilder()
    with b.step():
        for op, outer in (("aten::add", ""), ("aten::add_", around), ("aten::threshold_backward", "")):
            with b.op(outer or op), b.op(op, shapes=[W, W], dtypes=["float", "float"]):
                b.kernel(KERNEL.format("F"), us=100)
    kernels = trace.read(str(b.write(tmp_path / "t.json"))).kernels
    assert kernels["chain_length"].tolist() == [2, 0, 2]


MANY, FEW = [8192, 8, 64], [8192, 64]


def of_copies(source: list[int], before: list[list[int]], tmp_path: Path) -> list[int]:
    """Length of the chains in six pairs of a copy, whose source has such strides, and a product on *before*."""
    b = TraceBuilder("NVIDIA H100 80GB HBM3")
    with b.step():
        for _ in range(6):
            with b.op("aten::copy_", shapes=[MANY, MANY, []], strides=[[512, 64, 1], source, []]):
                b.kernel(
                    "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(int)>", us=150
                )
            with b.op("aten::mul", shapes=before):
                b.kernel(KERNEL.format("MulFunctor"), us=130)
    return list(trace.read(str(b.write(tmp_path / "t.json"))).kernels["chain_length"].tolist())


def test_copies_of_rows_that_no_product_before_them_wrote_begin_a_chain_each(tmp_path: Path) -> None:
    """Six copies that repeat 8,192 rows eight times, each before a product of 65,536: none reads the product before it."""
    assert of_copies([64, 0, 1], [[65536, 64]] * 2, tmp_path) == [2] * 12


def test_copies_of_what_the_product_before_them_wrote_are_one_chain(tmp_path: Path) -> None:
    assert of_copies([512, 64, 1], [[65536, 64]] * 2, tmp_path) == [12] * 12


def test_a_small_result_that_is_expanded_and_copied_is_read_by_the_copy(tmp_path: Path) -> None:
    assert of_copies([64, 0, 1], [FEW, FEW], tmp_path) == [12] * 12

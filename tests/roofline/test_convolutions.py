"""Convolutions: arithmetic by hand and by a count of every multiply–add."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from support.signatures import HALF, signature, tensor, value, work_of

from advisor.roofline.convolutions import share
from advisor.roofline.families import work


def counted(n: int, c: int, k: int, span: int, groups: int, places: int) -> Counter[str]:
    """Multiply–adds of a direct convolution and of its two gradients, one by one (those on padding too)."""
    terms: Counter[str] = Counter()
    for _, out, _, _ in itertools.product(range(n), range(k), range(places), range(places)):
        for source in range(c):
            # A channel of the output sees the channels of its own group.
            if out // (k // groups) == source // (c // groups):
                for _ in itertools.product(range(span), range(span)):
                    terms["forward"] += 1  # out[n, out, p, q] += in[n, source, …] · weight[out, source, r, s]
                    terms["weight"] += 1  # d weight[out, source, r, s] += d out[n, out, p, q] · in[n, source, …]
                    terms["input"] += 1  # d in[n, source, …] += d out[n, out, p, q] · weight[out, source, r, s]
    return terms


@pytest.mark.parametrize(
    ("c", "k", "groups", "stride", "padding", "dilation", "out"),
    [(4, 6, 1, 1, 1, 1, 8), (4, 6, 2, 2, 1, 1, 4), (6, 6, 6, 1, 1, 1, 8), (4, 6, 1, 1, 2, 2, 8), (4, 6, 1, 3, 0, 1, 2)],
)
def test_plain_grouped_depthwise_dilated_strided(
    c: int, k: int, groups: int, stride: int, padding: int, dilation: int, out: int
) -> None:
    weight = tensor(k, c // groups, 3, 3)
    found = work_of(
        "aten::convolution",
        tensor(2, c, 8, 8),
        weight,
        tensor(k),
        value([stride, stride]),
        value([padding, padding]),
        value([dilation, dilation]),
        value(False),
        value([0, 0]),
        value(groups),
    )
    assert found.flops == 2 * counted(2, c, k, 3, groups, out)["forward"]
    assert found.bytes == 4 * (2 * c * 64 + k * (c // groups) * 9 + k + 2 * k * out * out)
    assert (found.kind, found.missing) == ("convolution", None)


CUDNN = [value([1, 1]), value([2, 2]), value([1, 1]), value(1), value(False), value(False), value(True)]


def test_the_libraries_order_their_arguments_in_their_own_ways() -> None:
    source, weight = tensor(2, 4, 8, 8, type=HALF), tensor(6, 4, 3, 3, type=HALF)
    flops, moved = 2 * 2 * 16 * 216, 2 * (512 + 216 + 192)
    found = work_of("aten::cudnn_convolution", source, weight, *CUDNN)
    assert (found.flops, found.bytes, found.arithmetic) == (flops, moved, "float16")
    found = work_of("aten::miopen_convolution", source, weight, tensor(6, type=HALF), *CUDNN[:-1])
    assert (found.flops, found.bytes) == (flops, moved + 12)
    found = work_of("aten::mkldnn_convolution", source, weight, value(None), *CUDNN[:4])
    assert (found.flops, found.bytes) == (flops, moved)
    found = work_of(
        "aten::_slow_conv2d_forward", source, weight, value([3, 3]), value(None), value([2, 2]), value([1, 1])
    )
    assert (found.flops, found.bytes) == (flops, moved)
    found = work_of("aten::conv2d", source, weight, value(None), value([1, 1]), value("same"), value([1, 1]), value(1))
    assert found.flops == 2 * 2 * 64 * 216


def test_a_transposed_convolution_scatters_each_input_element() -> None:
    # weight [C, K/groups, R, S]: 2·N·H·W·C·(K/groups)·R·S, out (8-1)·2 - 2 + 2 + 1 + 1 = 16.
    rest = [value([2, 2]), value([1, 1]), value([1, 1]), value(True), value([1, 1])]
    found = work_of(
        "aten::convolution", tensor(2, 4, 8, 8), tensor(4, 3, 3, 3), value(None), *rest, value(2), valued=True
    )
    assert found.flops == 2 * 2 * 64 * 108
    assert found.bytes == 4 * (512 + 108 + 2 * 6 * 16 * 16)


def backward(mask: list[bool], *, transposed: bool = False, valued: bool = True) -> dict[str, object]:
    """The work of convolution_backward of 4 to 6 channels with a stride of 2."""
    grad, source = tensor(2, 6, 4, 4), tensor(2, 4, 8, 8)
    weight = tensor(6, 4, 3, 3)
    if transposed:
        grad, source, weight = tensor(2, 4, 8, 8), tensor(2, 6, 4, 4), tensor(6, 4, 3, 3)
    found = work_of(
        "aten::convolution_backward",
        grad,
        source,
        weight,
        value([6]),
        value([2, 2]),
        value([1, 1]),
        value([1, 1]),
        value(transposed),
        value([0, 0]),
        value(1),
        value(mask),
        valued=valued,
    )
    return found._asdict()


def test_backward_counts_the_gradients_that_were_asked_for() -> None:
    one = 2 * 2 * 16 * 216
    both = backward([True, True, True])
    assert both["flops"] == 2 * one
    assert both["bytes"] == 4 * (192 + 216 + 512 + 512 + 216 + 6)
    assert backward([False, True, False])["flops"] == one
    assert backward([False, True, False])["bytes"] == 4 * (192 + 512 + 216)
    assert backward([False, False, True])["flops"] == 0
    assert backward([True, True, True], transposed=True)["flops"] == 2 * one


def test_backward_without_values_tells_transposed_by_the_channels_and_says_what_it_supposes() -> None:
    found = backward([True, True, True], valued=False)
    assert found["flops"] == 4 * 2 * 16 * 216
    assert found["exact"] is False
    assert "gradients" in str(found["missing"])
    assert backward([True, True, True], transposed=True, valued=False)["flops"] == 4 * 2 * 16 * 216


@pytest.mark.parametrize(("c", "k", "groups", "out"), [(8, 8, 8, 8), (8, 16, 8, 4), (8, 4, 2, 8), (6, 4, 1, 4)])
def test_gradients_of_depthwise_and_grouped_convolutions(c: int, k: int, groups: int, out: int) -> None:
    """torch.utils.flop_counter counts the weight's gradient as if there were no groups."""
    stride = 8 // out
    call = [
        tensor(2, k, out, out),
        tensor(2, c, 8, 8),
        tensor(k, c // groups, 3, 3),
        value([0]),
        value([stride, stride]),
    ]
    call += [value([1, 1]), value([1, 1]), value(False), value([0, 0]), value(groups)]
    terms = counted(2, c, k, 3, groups, out)
    for mask, parts in (([False, True], ["weight"]), ([True, False], ["input"]), ([True, True], ["weight", "input"])):
        found = work_of("aten::convolution_backward", *call, value([*mask, False]))
        assert found.flops == 2 * sum(terms[part] for part in parts)


def test_without_strides_the_output_comes_from_what_stands_beside() -> None:
    call = ("aten::cudnn_convolution", tensor(2, 4, 8, 8), tensor(6, 4, 3, 3), *CUDNN)
    alone = work_of(*call, valued=False)
    assert (alone.flops, alone.bytes, alone.missing) == (None, 4 * (512 + 216), "the output's size")
    # A shape of another batch or another number of channels is none of its output.
    beside = work_of(*call, valued=False, near=((6,), (3, 6, 4, 4), (2, 5, 4, 4), (2, 6, 4, 4)))
    assert (beside.flops, beside.bytes, beside.missing) == (2 * 2 * 16 * 216, 4 * (512 + 216 + 192), None)


def test_parts_of_the_backward_pass_of_2021() -> None:
    rest = [value([1, 1]), value([2, 2]), value([1, 1]), value(1), value(False), value(False), value(True)]
    grad, source, weight = tensor(2, 6, 4, 4), tensor(2, 4, 8, 8), tensor(6, 4, 3, 3)
    outer = ((2, 4, 8, 8), (2, 6, 4, 4), (6, 4, 3, 3))
    name = "aten::cudnn_convolution_backward"
    found = work_of(f"{name}_weight", value(None), grad, source, *rest, valued=False, near=outer)
    assert (found.flops, found.bytes) == (2 * 2 * 16 * 216, 4 * (192 + 512 + 216))
    found = work_of(f"{name}_input", value(None), grad, weight, *rest, valued=False, near=outer)
    assert (found.flops, found.bytes) == (2 * 2 * 16 * 216, 4 * (192 + 512 + 216))
    alone = work_of(f"{name}_weight", value(None), grad, source, *rest, valued=False)
    assert (alone.flops, alone.missing) == (None, "the output's size")


@pytest.mark.parametrize(
    ("kernel", "part"),
    [
        ("volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", 16 / 36),
        ("void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(cudnn::winograd_nonfused", 36 / 144),
        ("void cudnn::winograd_nonfused::winogradForwardOutput9x9_5x5<float, float>", 81 / 625),
        ("miopenSp3AsmConv_v21_1_3_gfx9_fp16_dot2_edc_stride1_f2x3", 16 / 36),
        ("void fft2d_r2c_32x32<float, false, 1u, false>(float2*, float const*, int)", 0),
        ("volta_scudnn_128x64_relu_interior_nn_v1", 1),
        ("ampere_sgemm_128x64_nn", 1),
    ],
)
def test_algorithms_that_multiply_less(kernel: str, part: float) -> None:
    assert share(kernel) == pytest.approx(part)


def test_operands_that_are_no_convolution() -> None:
    assert work(signature("aten::convolution", tensor(2, 4), tensor(6, 4))) is None
    assert work(signature("aten::convolution", tensor(2), tensor(6, 4, 3, 3))) is None

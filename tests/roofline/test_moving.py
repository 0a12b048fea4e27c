"""Families that move more than they compute: bytes by hand."""

from __future__ import annotations

from typing import Any

import pytest
from support.signatures import BF16, HALF, tensor, tensors, value, work_of

FALSE, TRUE, NONE = value(False), value(True), value(None)
X = tensor(4, 8, 16, 16)  # 8192 elements, 32,768 bytes
N = 8192


@pytest.mark.parametrize(
    ("name", "operands", "flops", "moved"),
    [
        ("aten::add", [tensor(4, 5), tensor(4, 5), value(1)], 20, 240),
        ("aten::add", [tensor(4, 5), tensor(5), value(1)], 20, 4 * 45),
        ("aten::add_", [tensor(4, 5), tensor(4, 5), value(1)], 20, 240),
        ("aten::mul", [tensor(4, 5, type=HALF), tensor(type="double")], 20, 40 + 8 + 40),
        ("aten::mul", [tensor(4, 5, type=HALF), tensor(4, 5)], 20, 40 + 80 + 80),
        ("aten::mul", [tensor(4, 5), tensor(type="double"), tensor(4, 5)], 20, 80 + 8 + 80),
        ("aten::clamp_min", [tensor(4, 5), value(0), tensor(4, 5)], 20, 160),
        ("aten::lt", [tensor(4, 5), tensor(4, 5)], 20, 160 + 20),
        ("aten::div", [tensor(4, 5, type="long int"), tensor(4, 5, type="long int")], 20, 320 + 80),
        ("aten::isnan", [tensor(4, 5)], 20, 100),
        ("aten::ne", [tensor(4, 5), tensor(4, 5)], 20, 100),  # x != x: one tensor may be both
        ("aten::where", [tensor(4, 5, type="bool"), tensor(4, 5), tensor(4, 5)], 20, 20 + 240),
        ("aten::masked_fill_", [tensor(4, 5), tensor(4, 5, type="bool"), value(0)], 20, 180),
        ("aten::addcmul_", [tensor(6), tensor(6), tensor(6), value(1)], 18, 96),
        ("aten::gelu", [tensor(4, 5, type=BF16), NONE], 20, 80),
        ("aten::glu", [tensor(4, 6), value(-1)], 24, 4 * 36),
        ("aten::copy_", [tensor(4, 5), tensor(4, 5, type=HALF), FALSE], 0, 120),
        ("aten::fill_", [tensor(4, 5), value(0)], 0, 80),
        ("aten::constant_pad_nd", [tensor(2, 3), value([1, 1, 0, 2]), value(0)], 0, 4 * (6 + 4 * 5)),
        ("aten::native_dropout", [tensor(4, 5), value(0.5), TRUE], 40, 80 + 80 + 20),
        ("aten::tril", [tensor(4, 4), value(0)], 0, 32 + 64),
        ("aten::sum", [tensor(4, 5), value([1]), FALSE, NONE], 20, 4 * 24),
        ("aten::sum", [tensor(4, 5), NONE], 20, 4 * 21),
        ("aten::mean", [tensor(4, 5), value([0]), TRUE, NONE], 20, 4 * 25),
        ("aten::mean", [tensor(4, 5), value([]), FALSE, NONE], 20, 4 * 21),
        ("aten::argmax", [tensor(4, 5), value(-1), FALSE], 20, 80 + 32),
        ("aten::max", [tensor(4, 5), value(1), FALSE], 20, 80 + 16 + 32),
        ("aten::max", [tensor(4, 5)], 20, 84),
        ("aten::cumsum", [tensor(4, 5), value(0), NONE], 20, 160),
        ("aten::topk", [tensor(4, 5), value(2), value(-1), TRUE, TRUE], 20, 80 + 8 * 12),
        ("aten::linalg_vector_norm", [tensor(4, 5), value(2), NONE, FALSE, NONE], 40, 84),
        ("aten::_softmax", [tensor(4, 5), value(-1), FALSE], 100, 160),
        ("aten::_softmax", [tensor(4, 5, type=HALF), value(-1), TRUE], 100, 120),
        ("aten::_softmax_backward_data", [tensor(4, 5), tensor(4, 5), value(-1), NONE], 80, 240),
        ("ScaledUpperTriangMaskedSoftmax", [tensor(2, 4, 4, type=HALF)], 80, 32 + 64),
        ("aten::native_layer_norm", [X, value([16]), tensor(16), tensor(16), value(1e-5)], 8 * N, 8 * N + 128),
        ("aten::native_batch_norm", [X, *[tensor(8)] * 4, TRUE, value(0.1), value(1e-5)], 8 * N, 8 * N + 128),
        ("aten::cudnn_batch_norm", [X, *[tensor(8)] * 4, FALSE, value(0.1), value(1e-5)], 2 * N, 8 * N + 128),
        ("aten::native_group_norm", [X, tensor(8), tensor(8)], 8 * N, 8 * N + 64),
        ("aten::_fused_rms_norm", [X, value([16]), tensor(16), NONE], 4 * N, 8 * N + 64),
        (
            "aten::native_layer_norm_backward",
            [X, X, value([16]), tensor(4, 8, 16, 1), tensor(4, 8, 16, 1), tensor(16), tensor(16), value([True] * 3)],
            13 * N,
            12 * N + 8 * 512 + 3 * 64,  # weight read, its gradient and the bias' written
        ),
        ("aten::cudnn_batch_norm_backward", [X, X, tensor(8), *[tensor(8)] * 4], 13 * N, 12 * N + 3 * 32 + 64),
        ("aten::embedding", [tensor(1000, 8), tensor(3, 5, type="long int"), value(-1)], 0, 15 * 8 + 15 * 32),
        (
            "aten::embedding_dense_backward",
            [tensor(15, 8), tensor(15, type="long int"), value(1000), value(-1), FALSE],
            120,
            480 + 120 + 32000,
        ),
        (
            "aten::_embedding_bag",
            [tensor(1000, 8), tensor(20, type="long int"), tensor(5, type="long int")],
            160,
            160 + 40 + 160,
        ),
        ("aten::index_select", [tensor(10, 6), value(0), tensor(4, type="long int")], 0, 32 + 96),
        ("aten::gather", [tensor(10, 6), value(1), tensor(10, 2, type="long int")], 0, 160 + 80),
        ("aten::scatter_", [tensor(10, 6), value(1), tensor(10, 2, type="long int"), tensor(10, 2)], 0, 80 + 160 + 80),
        ("aten::index_put_", [tensor(10, 6), NONE, tensor(3, 6), FALSE], 0, 144),
        (
            "aten::max_pool2d_with_indices",
            [X, value([3, 3]), value([2, 2]), value([1, 1]), value([1, 1]), FALSE],
            4 * 8 * 64 * 9,
            4 * N + 12 * 2048,
        ),
        ("aten::avg_pool2d", [X, value([2, 2]), value([]), value([0, 0]), FALSE], N, 4 * N + 4 * 2048),
        ("aten::_adaptive_avg_pool2d", [X, value([1, 1])], N, 4 * N + 128),
        (
            "aten::max_pool2d_with_indices_backward",
            [tensor(4, 8, 8, 8), X, *[value([2, 2])] * 4, FALSE, tensor(4, 8, 8, 8, type="long int")],
            2048,
            12 * 2048 + 4 * N,
        ),
        ("aten::upsample_nearest2d", [X, value([32, 32]), NONE, NONE], 0, 20 * N),
        ("aten::upsample_bilinear2d", [X, value([32, 32]), FALSE, NONE, NONE], 32 * N, 20 * N),
        ("aten::mse_loss", [tensor(4, 5), tensor(4, 5), value(1)], 60, 164),
        ("aten::_fft_c2c", [tensor(3, 8, type="c10::complex<float>"), value([1]), value(0), TRUE], 5 * 24 * 3, 16 * 24),
        ("aten::_fft_r2c", [tensor(3, 8), value([1]), value(0), TRUE], 5 * 24 * 3 // 2, 8 * 24),
        ("aten::_cdist_forward", [tensor(4, 8), tensor(5, 8), value(2), NONE], 3 * 4 * 5 * 8, 4 * (32 + 40 + 20)),
        ("aten::linalg_cholesky_ex", [tensor(2, 6, 6), FALSE, FALSE], 144, 8 * 72),
        ("aten::linalg_solve_triangular", [tensor(6, 6), tensor(6, 3), TRUE, TRUE, FALSE], 108, 4 * (18 + 36)),
        ("aten::_weight_norm_interface", [tensor(4, 5), tensor(4, 1), value(0)], 60, 4 * 48),
        ("aten::_thnn_fused_lstm_cell", [tensor(2, 12), tensor(2, 12), tensor(2, 3)], 96, 4 * (48 + 6 + 12 + 24)),
        ("aten::mse_loss", [tensor(4, 5), tensor(4, 5), value(0)], 40, 240),
        ("aten::nll_loss_forward", [tensor(6, 100), tensor(6, type="long int"), NONE, value(1), value(-100)], 12, 72),
        (
            "aten::nll_loss_backward",
            [tensor(), tensor(6, 100), tensor(6, type="long int"), NONE, value(1), value(-100), tensor()],
            6,
            48 + 2400,
        ),
    ],
)
def test_by_hand(name: str, operands: list[dict[str, Any]], flops: int, moved: int) -> None:
    found = work_of(name, *operands)
    assert (found.flops, found.bytes) == (flops, moved)
    assert found.missing is None
    assert not found.matrix


def test_an_expanded_operand_is_read_once() -> None:
    found = work_of("aten::copy_", tensor(4, 5, strides=[5, 1]), tensor(4, 5, strides=[0, 1]), FALSE, strided=True)
    assert found.bytes == 80 + 20


def test_lists_of_tensors_have_the_type_that_their_kernel_shows() -> None:
    lists = [tensors((10,), (20, 2)) for _ in range(5)]
    adam = work_of("aten::_fused_adam_", *lists, tensors((), ()), type="float32")
    assert (adam.kind, adam.flops) == ("optimizer", 12 * 50)
    # Parameter and three moments are read and written, the gradient is read.
    assert adam.bytes == 4 * 50 * 9
    added = work_of("aten::_foreach_add_", *lists[:2], value(1), type="bfloat16")
    assert (added.flops, added.bytes) == (50, 2 * 50 * 3)
    assert work_of("aten::_foreach_norm", lists[0], value(2), NONE, type="float32").bytes == 200
    assert work_of("aten::_foreach_zero_", lists[0], type="float32").bytes == 200
    joined = work_of("aten::cat", tensors((2, 3), (4, 3)), value(0), type="float16")
    assert (joined.flops, joined.bytes) == (0, 2 * 2 * 18)
    untyped = work_of("aten::_foreach_add_", *lists[:2], value(1))
    assert (untyped.flops, untyped.bytes, untyped.missing) == (50, None, "the operands' types")
    unlisted = work_of("aten::_foreach_add_", value(None), value(None), value(1))
    assert (unlisted.flops, unlisted.bytes, unlisted.known) == (None, None, False)


def test_an_output_that_cannot_be_known_is_said() -> None:
    found = work_of("aten::index", tensor(10, 6), NONE)
    assert (found.bytes, found.missing) == (None, "the output's size")
    found = work_of("aten::index", tensor(10, 6), NONE, near=((7, 5), (3, 6)))
    assert (found.bytes, found.exact) == (4 * 18, False)
    found = work_of("aten::index", tensor(10, 6), tensors((4, 2)))
    assert found.bytes == 4 * 48
    found = work_of("aten::sum", tensor(4, 5), value([1]), FALSE, NONE, valued=False)
    assert (found.bytes, found.exact, found.missing) == (80, False, "the output's size")
    found = work_of("aten::max_pool2d_with_indices", X, *[NONE] * 5, near=((4, 8, 16, 16), (4, 8, 8, 8)))
    assert (found.bytes, found.exact) == (4 * N + 12 * 2048, False)


def test_recurrent_layers_of_the_libraries() -> None:
    weights = tensors((64, 8), (64, 16), (64,), (64,), (64, 16), (64, 16), (64,), (64,))
    rest = [tensor(2, 3, 16), tensor(2, 3, 16), value(2), value(16), value(0), value(2), TRUE, value(0.0), TRUE, FALSE]
    found = work_of("aten::_cudnn_rnn", tensor(3, 5, 8), weights, value(4), NONE, *rest)
    matrices = 64 * 8 + 3 * 64 * 16
    assert (found.kind, found.flops) == ("recurrent", 2 * 15 * matrices)
    assert found.bytes == 4 * (3 * 5 * 8 + matrices + 4 * 64 + 3 * 5 * 16)
    back = work_of("aten::_cudnn_rnn_backward", tensor(3, 5, 8), weights, value(4), tensor(5000), *rest)
    assert back.flops == 2 * 2 * 15 * matrices
    unlisted = work_of("aten::_cudnn_rnn", tensor(3, 5, 8), value(None), value(4), NONE, *rest)
    assert (unlisted.flops, unlisted.known) == (None, False)


@pytest.mark.parametrize(
    "name", ["aten::view", "aten::empty", "aten::as_strided", "aten::expand", "aten::detach", "record_param_comms"]
)
def test_what_moves_nothing_has_no_work(name: str) -> None:
    from advisor.roofline.families import find

    assert find(name) is None

"""Quantized and grouped products, operators of serving engines, Triton kernels of Inductor: by hand."""

from __future__ import annotations

import pytest
from support.signatures import BF16, FLOAT, tensor, value, work_of

FP8, FP4, BYTE, INT = "c10::Float8_e4m3fn", "c10::Float4_e2m1fn_x2", "unsigned char", "int"


def test_scaled_products_in_eight_and_four_bits() -> None:
    scales = [tensor(16, 1), tensor(1, 64)]
    found = work_of("aten::_scaled_mm", tensor(16, 32, type=FP8), tensor(32, 64, type=FP8), *scales, value(None))
    assert (found.flops, found.arithmetic) == (2 * 16 * 32 * 64, "float8_e4m3fn")
    assert found.bytes == 16 * 32 + 32 * 64 + 4 * (16 + 64) + 2 * 16 * 64
    # MXFP4: two numbers a byte, so half as many elements along k.
    four = work_of("aten::_scaled_mm", tensor(16, 32, type=FP4), tensor(32, 64, type=FP4), *scales, value(None))
    assert (four.flops, four.arithmetic) == (2 * 16 * 64 * 64, "float4_e2m1fn_x2")
    integers = work_of("aten::_int_mm", tensor(16, 32, type="signed char"), tensor(32, 64, type="signed char"))
    assert (integers.flops, integers.bytes) == (2 * 16 * 32 * 64, 512 + 2048 + 4 * 1024)


def test_grouped_products_give_each_row_one_matrix() -> None:
    offsets = tensor(4, type=INT)
    found = work_of("aten::_grouped_mm", tensor(100, 32, type=BF16), tensor(4, 32, 64, type=BF16), offsets)
    assert (found.flops, found.bytes) == (2 * 100 * 32 * 64, 2 * (3200 + 8192 + 6400))
    # The weights' gradient: k is cut into four groups, each with a product of its own.
    found = work_of("aten::_grouped_mm", tensor(32, 100, type=BF16), tensor(100, 64, type=BF16), offsets)
    assert (found.flops, found.bytes) == (2 * 32 * 100 * 64, 2 * (3200 + 6400 + 4 * 32 * 64))


def test_products_of_the_engines() -> None:
    out, a, b = tensor(16, 64, type=BF16), tensor(16, 32, type=FP8), tensor(32, 64, type=FP8)
    found = work_of("_C::cutlass_scaled_mm", out, a, b, tensor(16, 1), tensor(1, 64), value(None))
    assert (found.flops, found.bytes) == (2 * 16 * 32 * 64, 512 + 2048 + 2048 + 4 * 80)
    found = work_of("aiter::gemm_a8w8", a, tensor(64, 32, type=FP8), tensor(16, 1), tensor(1, 64))
    assert found.flops == 2 * 16 * 32 * 64
    found = work_of("aiter::gemm_a4w4", tensor(16, 16, type=BYTE), tensor(64, 16, type=BYTE), tensor(16, 1), tensor(1))
    assert (found.flops, found.arithmetic) == (2 * 16 * 32 * 64, "float4_e2m1fn_x2")
    packed = [tensor(16, 32, type=BF16), value(None), tensor(2, 128, type=INT), tensor(1, 64, type=BF16)]
    found = work_of("_C::gptq_marlin_gemm", *packed, value(7), value(16), value(64), value(32), value(True))
    assert (found.flops, found.exact) == (2 * 16 * 32 * 64, False)


def test_experts_multiply_as_many_times_as_tokens_pick() -> None:
    hidden, first, second = tensor(10, 32, type=BF16), tensor(8, 128, 32, type=BF16), tensor(8, 32, 64, type=BF16)
    picked = [tensor(10, 2), tensor(10, 2, type=INT)]
    found = work_of("vllm::inplace_fused_experts", hidden, first, second, *picked)
    # Each token goes to two experts: gate and up 2·32·128, down 2·64·32.
    assert (found.flops, found.exact, found.matrix) == (10 * 2 * (2 * 32 * 128 + 2 * 64 * 32), False, True)
    unknown = work_of("vllm::moe_forward", hidden, tensor(10, 8), value(None))
    assert not unknown.known
    assert "weights" in str(unknown.missing)


@pytest.mark.parametrize(
    ("name", "operands", "moved"),
    [
        ("_C::rms_norm", [tensor(4, 8), tensor(4, 8), tensor(8), value(1e-5)], 4 * 72),
        ("_C::fused_add_rms_norm", [tensor(4, 8), tensor(4, 8), tensor(8), value(1e-5)], 4 * 136),
        ("_C::silu_and_mul", [tensor(4, 8), tensor(4, 16)], 4 * 96),
        ("_C::static_scaled_fp8_quant", [tensor(4, 8, type=FP8), tensor(4, 8, type=BF16), tensor(type=FLOAT)], 100),
        ("_C::rotary_embedding", [tensor(4, type="long int"), tensor(4, 16), tensor(4, 8), value(8)], 32 + 4 * 192),
        (
            "_C_cache_ops::reshape_and_cache_flash",
            [*[tensor(4, 1, 8, type=BF16)] * 2, *[tensor(99, 16, 1, 8, type=BYTE)] * 2, tensor(4, type="long int")],
            2 * 64 + 32 + 2 * 32,
        ),
    ],
)
def test_operators_with_given_outputs(name: str, operands: list[dict[str, object]], moved: int) -> None:
    found = work_of(name, *operands)
    assert (found.bytes, found.missing) == (moved, None)


def test_a_triton_kernel_moves_its_buffers_once_and_no_more_than_its_extent() -> None:
    buffers = [tensor(4, 16, type=BF16), tensor(16, type=BF16), tensor(4, 16)]
    found = work_of("triton_red_fused_add_mean_0", *buffers, value(4), value(16))
    assert (found.flops, found.bytes, found.kind) == (None, 2 * 80 + 4 * 64, "fused")
    assert "arithmetic" in str(found.missing)
    # A table of which few rows are read: at most as many elements as it works on.
    found = work_of("triton_poi_fused_embedding_0", tensor(3, type="long"), tensor(1000, 8), tensor(3, 8), value(24))
    assert found.bytes == 24 + 2 * 4 * 24
    product = work_of("triton_tem_fused_mm_1", tensor(4, 8), tensor(8, 16), tensor(4, 16), value(2))
    assert (product.flops, product.kind, product.exact) == (2 * 4 * 8 * 16, "matmul", False)

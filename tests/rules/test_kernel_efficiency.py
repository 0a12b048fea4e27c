"""Kernels that are slow for their work, on two makers' devices: built traces of one step each, and the rule that names each.

Times are such that each kernel is at a known part of what its device reaches; nothing else is in the step but a wait at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from support.reading import trace_of
from support.traces import rules

import advisor
from advisor.results.analysis import Analysis
from advisor.testing import TraceBuilder

H100, MI300, T4 = "NVIDIA H100 80GB HBM3", "AMD Instinct MI300X", "Tesla T4"
BF16, FP32 = "c10::BFloat16", "float"
CUBLAS = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel__5x_cublas"
ALIGN1 = "cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x4_nn_align1"
TENSILE = "Cijk_Alik_Bljk_BBS_BH_Bias_AS_SAV_UserArgs_MT256x256x64_MI16x16x1"
SGEMM = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_ffma_aligna4_alignc4_execute_kernel__5x_cublas"


class Call(NamedTuple):
    """A call of an operator, and its one kernel."""

    op: str
    shapes: Sequence[Any]
    types: Sequence[str]
    kernel: str
    us: float
    values: Sequence[str] | None = None
    strides: Sequence[Any] | None = None


def product(m: int, n: int, k: int, us: float, kernel: str = CUBLAS, kind: str = BF16, op: str = "aten::mm") -> Call:
    return Call(op, [[m, k], [k, n]], [kind] * 2, kernel, us)


def convolution(op: str, kernel: str, us: float, strides: Sequence[Any]) -> Call:
    lists = (
        ["ScalarList"] * 3 + ["Scalar"] * 4
        if op.endswith("cudnn_convolution")
        else ["", *["ScalarList"] * 3, *["Scalar"] * 3]
    )
    pairs = ["[1, 1]"] * 3 + ["1", "False", "True", "True"] if lists[0] else ["", *["[1, 1]"] * 3, "1", "False", "True"]
    shapes: list[Any] = [[64, 256, 56, 56], [256, 256, 3, 3], *[[]] * 7]
    return Call(op, shapes, [BF16, BF16, *lists], kernel, us, ["", "", *pairs], [*strides, *[[]] * 7])


def attention(kernel: str, us: float) -> Call:
    shapes: list[Any] = [[8, 32, 4096, 128]] * 3 + [[]] * 4
    types = [BF16] * 3 + ["Scalar"] * 4
    return Call(
        "aten::_scaled_dot_product_flash_attention", shapes, types, kernel, us, ["", "", "", "0.", "False", "False", ""]
    )


def unfused(kernel: str) -> list[Call]:
    scores = [8, 12, 2048, 2048]
    return [
        Call("aten::bmm", [[96, 2048, 64], [96, 64, 2048]], [BF16] * 2, kernel, 300),
        Call("aten::mul", [scores, []], [BF16, "double"], "vectorized_elementwise_kernel<4, MulFunctor<float>>", 550),
        Call(
            "aten::_softmax",
            [scores, [], []],
            [BF16, "Scalar", "Scalar"],
            "softmax_warp_forward<c10::BFloat16, 11>",
            700,
        ),
        Call("aten::bmm", [[96, 2048, 2048], [96, 2048, 64]], [BF16] * 2, kernel, 300),
    ]


def layer_norm(us: float) -> Call:
    types = [BF16, "ScalarList", BF16, BF16, "Scalar"]
    kernel = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>"
    return Call(
        "aten::native_layer_norm",
        [[16384, 4096], [], [4096], [4096], []],
        types,
        kernel,
        us,
        ["", "[4096]", "", "", "1e-5"],
    )


NHWC = [[802816, 1, 14336, 256], [2304, 1, 768, 256]]
NCHW = [[802816, 3136, 56, 1], [2304, 9, 3, 1]]
FLASH = (
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t>>"
)
IGEMM = "igemm_fwd_gtcx3_nchw_bf16_bx0_ex1_bt256x128x32"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>"
WIDE = ["", "", "", "", "False", "0.", "False", ""]
FAR, FEW = "kernels/far-from-limit", "kernels/few-tiles"

CASES: dict[str, tuple[str, list[Call], str]] = {
    "product, H100": (H100, [product(8192, 8192, 8192, 5500)], FAR),
    "product, MI300X": (MI300, [product(8192, 8192, 8192, 5500, TENSILE)], FAR),
    "misaligned, H100": (H100, [product(4096, 4095, 4097, 700, ALIGN1)], "precision/misaligned-matmul"),
    "odd sizes, MI300X": (MI300, [product(4096, 4095, 4097, 700, TENSILE)], "precision/odd-sizes"),
    "skinny, H100": (H100, [product(16, 4096, 4096, 60)], FEW),
    "skinny, MI300X": (MI300, [product(16, 4096, 4096, 80, TENSILE)], FEW),
    "matrix times vector, H100": (H100, [product(1, 8192, 8192, 120, "gemv2T_kernel_val<int, int, __nv_bfloat16>")], FAR),
    "deep and small, H100": (H100, [product(512, 512, 16384, 150)], FEW),
    "deep and small, MI300X": (MI300, [product(512, 512, 16384, 250, TENSILE)], FEW),
    "fp32, H100": (H100, [product(4096, 4096, 4096, 3000, SGEMM, FP32)], "precision/no-tensor-cores"),
    "fp32, MI300X": (
        MI300,
        [product(4096, 4096, 4096, 1500, "Cijk_Ailk_Bljk_SB_MT128x128x16_MI32x32x2", FP32)],
        "precision/fp32-matrix-cores",
    ),
    "by hand, T4": (T4, [product(2048, 2048, 2048, 30_000, "matmul_naive(float*, float*, float*, int)", FP32, "my::matmul")],
                    "kernels/own-product"),
    "convolution, H100": (H100, [convolution("aten::cudnn_convolution", "sm80_xmma_fprop_implicit_gemm_bf16f32", 2500, NHWC)], FAR),
    "convolution, MI300X": (MI300, [convolution("aten::miopen_convolution", IGEMM, 6000, NCHW)], "kernels/miopen-convolution"),
    "depthwise, H100": (
        H100,
        [Call("aten::_conv_depthwise2d", [[64, 512, 28, 28], [512, 1, 3, 3], *[[]] * 5], [BF16, BF16, "ScalarList", "",
              *["ScalarList"] * 3], "conv_depthwise2d_forward_kernel<3, c10::BFloat16, int>", 900,
              ["", "", "[3, 3]", "", "[1, 1]", "[1, 1]", "[1, 1]"])],
        "kernels/depthwise-layout",
    ),
    "unfused attention, H100": (H100, unfused(CUBLAS), "kernels/unfused-attention"),
    "unfused attention, MI300X": (MI300, unfused(TENSILE), "kernels/unfused-attention"),
    "FlashAttention 2, H100": (H100, [attention(FLASH, 14_000)], "kernels/attention-backend"),
    "attention, MI300X": (MI300, [attention("attn_fwd", 14_000)], FAR),
    "attention in fp32 beside bf16, H100": (
        H100,
        [product(8192, 8192, 8192, 1600), Call("aten::_scaled_dot_product_efficient_attention", [[8, 16, 2048, 64]] * 3 + [[]] * 5,
         [FP32] * 3 + ["", *["Scalar"] * 4], "fmha_cutlassF_f32_aligned_64x64_rf_sm80", 4000, WIDE)],
        "precision/fp32-attention",
    ),
    "attention in fp32, MI300X": (
        MI300,
        [Call("aten::_scaled_dot_product_efficient_attention", [[8, 16, 2048, 64]] * 3 + [[]] * 5,
         [FP32] * 3 + ["", *["Scalar"] * 4], "attn_fwd", 9000, WIDE)],
        "precision/fp32-attention",
    ),
    "rows at odd addresses, MI300X": (
        MI300, [Call("aten::mm", [[4096, 1024], [1024, 4096]], [BF16] * 2, TENSILE, 250, None, [[1025, 1], [4096, 1]])], FAR
    ),
    "normalization, H100": (H100, [layer_norm(500)], "kernels/slow-operator"),
    "normalization, MI300X": (MI300, [layer_norm(500)], "kernels/slow-operator"),
    "pointwise, H100": (H100, [Call("aten::add", [[16384, 8192]] * 2 + [[]], [BF16, BF16, "Scalar"], ADD, 1500)],
                        "kernels/slow-operator"),
    "transposed copy, MI300X": (
        MI300,
        [Call("aten::copy_", [[8192, 8192]] * 2 + [[]], [BF16, BF16, "Scalar"], "elementwise_kernel<direct_copy_kernel_cuda>",
              900, None, [[8192, 1], [1, 8192], []])],
        "kernels/strided-access",
    ),
    "product of an autograd function, T4": (T4, [product(1024, 1024, 1024, 7400, "naive_matmul_kernel(float const*, float const*, "
                                                         "float*, int)", FP32, "MyMatmul")], "kernels/own-product"),
    "matrix times vector that memory bounds, H100": (H100, [product(1, 4096, 4096, 13, "gemvNSP_kernel<__nv_bfloat16>")],
                                                     "inference/memory-bound-decode"),
    "matrix times vector that memory bounds, MI300X": (MI300, [product(1, 8192, 8192, 42, "gemvt_kernel")],
                                                       "inference/memory-bound-decode"),
    "pointwise in float64, MI300X": (MI300, [Call("aten::mul", [[8192, 8192]] * 2, ["double"] * 2,
                                                  "vectorized_elementwise_kernel<4, MulFunctor<double>>", 700)],
                                     "precision/float64"),
    "softmax by hand, H100": (H100, [Call("MySoftmax", [[16384, 8192]], [BF16], "my_softmax(float*, float*, int)", 6000)],
                              "kernels/own-kernel"),
}  # fmt: skip
"""By what is slow: the device, the calls, and the rule that is to name it first."""

GOOD: dict[str, tuple[str, list[Call]]] = {
    "product, H100": (H100, [product(8192, 8192, 8192, 1600)]),
    "product, MI300X": (MI300, [product(8192, 8192, 8192, 1900, TENSILE)]),
    "normalization, H100": (H100, [layer_norm(87)]),
    "attention, H100": (H100, [attention("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob", 3300)]),
}
"""Calls at 0.85 of what the device reaches and above."""


def analysis(device: str, calls: Sequence[Call]) -> Analysis:
    """Analyze three steps of six times the calls."""
    b = TraceBuilder(device)
    for _ in range(3):
        with b.step():
            for call in [*calls] * 6:
                with b.op(
                    call.op, us=5, shapes=call.shapes, dtypes=call.types, values=call.values, strides=call.strides
                ):
                    b.kernel(call.kernel, us=call.us)
            b.sync()
    return advisor.analyze(trace_of(b.to_json()), rules(), views=False)


@pytest.mark.parametrize("name", list(CASES))
def test_a_slow_kernel_is_named_first(name: str) -> None:
    device, calls, rule = CASES[name]
    found = analysis(device, calls)
    assert found.findings[0].rule == rule
    assert found.findings[0].severity != "note"
    saving = found.findings[0].saving
    assert saving is not None
    assert saving.high_ms > 0.2 * found.summary.priced_ms


@pytest.mark.parametrize("name", list(GOOD))
def test_a_kernel_near_what_is_reachable_has_no_finding(name: str) -> None:
    found = analysis(*GOOD[name])
    assert found.summary.kernel_efficiency is not None
    assert found.summary.kernel_efficiency >= 0.8
    assert [finding.rule for finding in found.findings if finding.rule.startswith(("kernels/", "precision/"))] == []


def test_the_cases_are_of_two_makers() -> None:
    devices = [device for device, _, _ in CASES.values()]
    assert devices.count(MI300) >= 8
    assert devices.count(H100) >= 10

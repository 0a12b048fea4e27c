"""Proof of precision/fp32-attention: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100, MI300 = "NVIDIA H100 80GB HBM3", "AMD Instinct MI300X"
OP = "aten::_scaled_dot_product_efficient_attention"
CUTLASS = "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>::Params)"
HALF = "c10::BFloat16"
SHAPES = [[4, 16, 1024, 64], [4, 16, 1024, 64], [4, 16, 1024, 64], [], [], [], [], []]
VALUES = ["", "", "", "", "False", "0.", "False", ""]


def program(us: float = 500, *, kind: str = "float", device: str = H100, shapes: bool = True) -> TraceBuilder:
    """Four steps of four attentions, and of a product of 3.2 ms; on an H100 the attention is one of 531 us in fp32."""
    b = TraceBuilder(device, record_shapes=shapes)
    amd = device.startswith("AMD")
    gemm = "Cijk_Alik_Bljk_BBS_BH_MT256x256x64_MI16x16x1" if amd else "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT"
    for _ in range(4):
        with b.step():
            for _ in range(4):
                with b.op(OP, shapes=SHAPES, dtypes=[kind] * 3 + ["", *["Scalar"] * 4], values=VALUES):
                    b.kernel("attn_fwd.kd" if amd else CUTLASS, us=us)
            with b.op("aten::mm", shapes=[[8192, 8192], [8192, 8192]], dtypes=[HALF] * 2):
                b.kernel(gemm, us=3200)
            b.sync()
    return b


@fires(cost_ms=2.0, occurrences=16, severity="high", op=OP)
def attention_beside_products_in_bf16() -> TraceBuilder:
    return program()


@fires(cost_ms=2.0)
def on_amd() -> TraceBuilder:
    return program(device=MI300)


@quiet
def attention_in_bf16() -> TraceBuilder:
    return program(kind="c10::BFloat16")


@edge
def kernels_of_20_us(over: bool) -> TraceBuilder:
    b = TraceBuilder(H100)
    for _ in range(4):
        with b.step():
            for _ in range(40):
                shapes = [[1, 16, 512, 64]] * 3 + [[]] * 5
                with b.op(OP, shapes=shapes, dtypes=["float"] * 3 + ["", *["Scalar"] * 4], values=VALUES):
                    b.kernel(CUTLASS, us=20 if over else 19.9)
            with b.op("aten::mm", shapes=[[8192, 8192], [8192, 8192]], dtypes=[HALF] * 2):
                b.kernel("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT", us=1600)
            b.sync()
    return b


@quiet("not_applicable")
def a_gpu_without_bf16() -> TraceBuilder:
    return program(device="Tesla T4")


@quiet("not_applicable")
def a_gpu_whose_rates_are_not_known() -> TraceBuilder:
    return program(device="Accelerator 9000")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return program(shapes=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone(OP, shapes=SHAPES, device=H100)

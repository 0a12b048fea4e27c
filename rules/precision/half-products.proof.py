"""Proof of precision/half-products: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
NAME = "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT"
HALF = ["c10::BFloat16", "c10::BFloat16"]


def serving(
    rows: int = 4096,
    us: float = 200,
    *,
    name: str = NAME,
    types: list[str] = HALF,
    device: str = H100,
    backward: bool = False,
    rest_us: float = 100,
    library: str = "diffusers/models/transformers/transformer_flux.py(264): forward",
) -> TraceBuilder:
    """Steps of ten products of so many rows with 4,096 by 4,096 weights, and of one pointwise kernel."""
    b = TraceBuilder(device)
    for _ in range(4):
        with b.step(), b.python("serve.py(3): run"), b.python(f"/usr/lib/python3/site-packages/{library}"):
            for _ in range(10):
                with b.op("aten::mm", shapes=[[rows, 4096], [4096, 4096]], dtypes=types):
                    b.kernel(name, us=us)
            with b.op("aten::gelu"):
                b.kernel("void at::native::vectorized_elementwise_kernel<4, GeluCUDAKernelImpl>", us=rest_us)
            if backward:
                with b.thread(4001), b.backward("MmBackward0", seq=1), b.op("aten::mm"):
                    b.kernel(name, us=us)
            b.sync()
    return b


@fires(cost_ms=2.0, occurrences=40, severity="high", op="aten::mm")
def products_in_bfloat16() -> TraceBuilder:
    return serving()


@fires(cost_ms=2.0, severity="high")
def on_amd() -> TraceBuilder:
    return serving(name="Cijk_Alik_Bljk_BBS_BH_MT256x256x64_MI16x16x1_SN_LDSB1", device="AMD Instinct MI300X")


# 16 rows with 33.5 MB of weights: the memory takes longer than the arithmetic.
@quiet
def few_rows_wait_for_the_weights() -> TraceBuilder:
    return serving(16, us=25)


@quiet
def products_in_fp8() -> TraceBuilder:
    return serving(types=["c10::Float8_e4m3fn", "c10::Float8_e4m3fn"])


@quiet("not_applicable")
def a_program_that_is_no_diffusion() -> TraceBuilder:
    return serving(library="transformers/models/bert/modeling_bert.py(264): forward")


@quiet("not_applicable")
def training() -> TraceBuilder:
    return serving(backward=True)


@quiet("not_applicable")
def a_gpu_without_fp8_units() -> TraceBuilder:
    return serving(name="ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", device="NVIDIA A100-SXM4-80GB")


@edge
def products_of_20_microseconds(over: bool) -> TraceBuilder:
    return serving(256, us=20.001 if over else 19.999, rest_us=10)


# The middle of 15 and 45 % of a fifth of the step is 6 % of it.
@edge
def a_fifth_of_the_step(over: bool) -> TraceBuilder:
    return serving(rest_us=7600 if over else 8300)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::mm", shapes=[[4096, 4096], [4096, 4096]], device=H100)

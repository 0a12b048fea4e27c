"""Proof of precision/misaligned-matmul: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

FULL = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1"


def product(align: int, kind: str = "bf16_s1688gemm_bf16") -> str:
    return f"void cutlass::Kernel2<cutlass_75_tensorop_{kind}_128x128_nn_align{align}>(cutlass::Params)"


def training(name: str, us: float = 500, *, device: str = "NVIDIA H100 80GB HBM3", shapes: bool = True) -> TraceBuilder:
    """Steps of a product of 500 us that is well aligned, and of one by *name*."""
    b = TraceBuilder(device, record_shapes=shapes)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm"):
                b.kernel(FULL, us=500)
            operand = "float" if "tf32" in name else "c10::BFloat16"
            with b.op("aten::bmm", shapes=[[16, 3601, 64], [16, 64, 3601]], dtypes=[operand] * 2):
                b.kernel(name, us=us)
            b.sync()
    return b


# One product of 500 us in each step of about 1 ms.
@fires(cost_ms=0.5, occurrences=4, severity="high", op="aten::bmm")
def a_product_that_loads_one_element_at_a_time() -> TraceBuilder:
    return training(product(1))


@fires(cost_ms=0.5)
def tf32_that_loads_two() -> TraceBuilder:
    return training(product(2, "s1688gemm_tf32"))


# The name is proof enough.
@fires(cost_ms=0.5)
def the_same_without_shapes() -> TraceBuilder:
    return training(product(1), shapes=False)


@quiet
def the_sequence_padded() -> TraceBuilder:
    return training(product(8))


@quiet
def tf32_at_full_width() -> TraceBuilder:
    return training(product(4, "s1688gemm_tf32"))


@quiet
def a_name_that_says_nothing_of_alignment() -> TraceBuilder:
    return training(FULL)


@quiet("not_applicable")
def a_gpu_of_another_maker() -> TraceBuilder:
    return training("Cijk_Alik_Bljk_BBS_BH_MT64x64x16", device="AMD Instinct MI300X")


# Eight elements of two bytes are a full load, four are half of one.
@edge
def half_a_load_in_16_bits(over: bool) -> TraceBuilder:
    return training(product(4 if over else 8))


# 2 % of about 535 us is 10.7.
@edge
def two_percent_of_the_step(over: bool) -> TraceBuilder:
    return training(product(1), us=12.5 if over else 9)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::bmm", device="NVIDIA H100 80GB HBM3")

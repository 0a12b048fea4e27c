"""Proof of kernels/untuned-products: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

MI300X = "AMD Instinct MI300X"
NAME = "Cijk_Ailk_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB0"
POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>"
BF16 = "c10::BFloat16"


def products(
    us: float = 2200, *, device: str = MI300X, size: int = 8192, other_us: float = 1000, shapes: bool = True
) -> TraceBuilder:
    """Steps of a product of 1.1 TFLOP, for which an MI300X needs some 1.6 ms at what it reaches, and of something else."""
    b = TraceBuilder(device, record_shapes=shapes)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm", shapes=[[size, size], [size, size]], dtypes=[BF16, BF16]):
                b.kernel(NAME, us=us)
            with b.op("aten::add"):
                b.kernel(POINTWISE, us=other_us)
            b.sync()
    return b


@fires(cost_ms=2.2, occurrences=4, severity="low", op="aten::mm")
def a_product_at_seven_tenths_of_what_the_gpu_reaches() -> TraceBuilder:
    return products()


@quiet
def a_product_as_fast_as_they_get() -> TraceBuilder:
    return products(1700)


@quiet("not_applicable")
def a_gpu_of_another_maker() -> TraceBuilder:
    return products(device="NVIDIA H100 80GB HBM3")


@edge
def four_fifths_of_what_the_gpu_reaches(over: bool) -> TraceBuilder:
    return products(2050 if over else 1920, other_us=10)


# 52 GFLOP take 73 us at what it reaches.
@edge
def products_of_100_us(over: bool) -> TraceBuilder:
    b = TraceBuilder(MI300X)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm", shapes=[[4096, 4096], [4096, 1536]], dtypes=[BF16, BF16]):
                b.kernel(NAME, us=110 if over else 95)
            b.sync()
    return b


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return products(shapes=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::mm", shapes=[[64, 65]], device=MI300X)

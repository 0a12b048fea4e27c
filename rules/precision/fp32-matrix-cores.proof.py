"""Proof of precision/fp32-matrix-cores: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import kernels as training

MI300X = "AMD Instinct MI300X"
FP32 = "Cijk_Ailk_Bljk_SB_MT64x64x16_MI16x16x1_SN"
BF16 = "Cijk_Ailk_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT128x128x64_MI16x16x1_SN"
POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>"


# 8 ms of products of a step of 10.
@fires(cost_ms=8.0, occurrences=4, severity="high")
def products_in_fp32_on_an_mi300x() -> TraceBuilder:
    return training((FP32, 8000), (POINTWISE, 2000), device=MI300X)


@fires(cost_ms=8.0)
def products_in_fp32_on_an_mi210() -> TraceBuilder:
    return training((FP32, 8000), (POINTWISE, 2000), device="AMD Instinct MI210")


def product(us: float) -> TraceBuilder:
    """Steps of a product of 4096 by 4096 by 4096: 137 GFLOP, 1.1 ms at what an MI300X reaches in fp32."""
    b = TraceBuilder(MI300X)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm", shapes=[[4096, 4096], [4096, 4096]], dtypes=["float", "float"]):
                b.kernel(FP32, us=us)
            b.sync()
    return b


@edge
def a_quarter_of_what_fp32_reaches(over: bool) -> TraceBuilder:
    return product(3700 if over else 4700)


@quiet
def the_same_under_autocast() -> TraceBuilder:
    return training((BF16, 2000), (POINTWISE, 1500), device=MI300X)


@quiet
def products_whose_names_do_not_tell() -> TraceBuilder:
    return training(("matmul_of_my_own", 8000), (FP32, 2000), device=MI300X)


@quiet("not_run")
def a_board_of_which_nothing_is_known() -> TraceBuilder:
    return training((FP32, 8000), (POINTWISE, 2000), device="AMD Radeon Graphics")


@quiet("not_applicable")
def a_gpu_of_another_maker() -> TraceBuilder:
    return training(("volta_sgemm_128x64_nn", 8000), (POINTWISE, 2000))


# A tenth of the kernels' time: 1,005 of 10,000 us are, 995 are not.
@edge
def a_tenth_of_the_kernels(over: bool) -> TraceBuilder:
    products = 1005 if over else 995
    return training((FP32, products), (POINTWISE, 10_000 - products), device=MI300X)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::addmm")


@fires(cost_ms=8.0, setting="torch.autocast=never entered → bfloat16")
def autocast_that_is_never_entered() -> TraceBuilder:
    return training((FP32, 8000), (POINTWISE, 2000), device=MI300X).ran_with()

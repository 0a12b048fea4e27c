"""Proof of kernels/many-tiny: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

GPU = "NVIDIA A100-PCIE-40GB"
TINY = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>"
PRODUCT = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"


def steps(count: int = 30, us: float = 5, *, product_us: float = 100, host_us: float = 6) -> TraceBuilder:
    """Steps of a product, and of small kernels that take the host longer to launch than the GPU to run."""
    b = TraceBuilder(GPU, host_us=host_us)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm"):
                b.kernel(PRODUCT, us=product_us)
            b.sync()
            for _ in range(count):
                with b.op("aten::add"):
                    b.kernel(TINY, us=us)
            b.sync()
    return b


# 30 kernels of 5 us in each step: 150 us. The idle between them is not in it.
@fires(cost_ms=0.15, occurrences=120, severity="medium")
def thirty_kernels_of_5_us() -> TraceBuilder:
    return steps()


@quiet
def as_many_beside_work_that_matters() -> TraceBuilder:
    return steps(product_us=5000)


@quiet
def the_same_kernels_launched_as_fast_as_they_run() -> TraceBuilder:
    return steps(300, host_us=1)


@quiet("not_applicable")
def a_gpu_that_nothing_can_be_compiled_for() -> TraceBuilder:
    b = TraceBuilder("Tesla P100-PCIE-16GB", capability=(6, 0))
    with b.step(), b.op("aten::add"):
        for _ in range(30):
            b.kernel(TINY, us=5)
    return b


# 9.9 us is tiny, 10 is not.
@edge
def kernels_under_10_us(over: bool) -> TraceBuilder:
    return steps(us=9.9 if over else 10, host_us=12)


# 150 of 740 us are 20.3 % of the kernel time, 150 of 765 are 19.6 %.
@edge
def a_fifth_of_the_kernel_time(over: bool) -> TraceBuilder:
    return steps(product_us=590 if over else 615)


# Four steps of five kernels are twenty; of four, sixteen.
@edge
def twenty_kernels(over: bool) -> TraceBuilder:
    return steps(5 if over else 4, product_us=10)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::add", device=GPU)

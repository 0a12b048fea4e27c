"""Proof of kernels/fallback-product: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.accelerators import Accelerator
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import kernels as training

SHAPES = [[1024, 2080], [2080, 1184]]


def products(us: float = 80_000, *, maker: str = "mtia", dtype: str = "float", op: str = "aten::mm") -> Accelerator:
    """Steps of one product of 5.04 GFLOP, and of 2 ms of other work."""
    b = Accelerator(maker, with_stack=False)
    for _ in range(4):
        with b.step():
            with b.op(op, shapes=SHAPES, dtypes=[dtype, dtype]):
                b.job("fc", us)
            with b.op("aten::add"):
                b.job("sum", 2000)
            b.idle(us=us + 2000)
    return b


# 5.04 GFLOP in 80 ms: 0.063 TFLOP/s.
@fires(cost_ms=80.0, occurrences=4, op="aten::mm")
def products_a_thousand_times_too_slow() -> Accelerator:
    return products()


@fires(cost_ms=80.0)
def products_of_sixteen_bits_as_slow() -> Accelerator:
    return products(dtype="c10::BFloat16", maker="npu")


@fires(cost_ms=80.0, severity="high")
def products_on_a_gpu_of_intel() -> TraceBuilder:
    b = TraceBuilder("Intel(R) Data Center GPU Max 1550")
    for _ in range(4):
        with b.step():
            with b.op("aten::mm", shapes=SHAPES, dtypes=["float", "float"]):
                b.kernel("gemm_kernel", us=80_000)
            b.sync()
    return b


@quiet
def operators_that_multiply_no_matrices() -> Accelerator:
    return products(op="aten::mul")


@quiet("not_applicable")
def a_gpu_whose_rates_are_known() -> TraceBuilder:
    return training(("volta_sgemm_128x64_nn", 80_000), ("some_sum", 2000))


# 0.1 TFLOP/s: 5.044 GFLOP in 50.4 ms.
@edge
def a_tenth_of_a_tera(over: bool) -> Accelerator:
    return products(us=51_000 if over else 50_000)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::mm", shapes=SHAPES, device="Intel(R) Data Center GPU Max 1550")


@lacks("host", verdict="not_applicable")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone("fc")

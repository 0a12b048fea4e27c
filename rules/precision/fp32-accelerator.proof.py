"""Proof of precision/fp32-accelerator: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.accelerators import Accelerator
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import kernels as training

SHAPES = [[1024, 2080], [2080, 1184]]


def products(
    us: float = 8000,
    *,
    maker: str = "mtia",
    dtype: str = "float",
    op: str = "aten::mm",
    other: str = "aten::add",
    other_us: float = 2000,
) -> Accelerator:
    """Steps of one product and of other work."""
    b = Accelerator(maker, with_stack=False)
    for _ in range(4):
        with b.step():
            with b.op(op, shapes=SHAPES, dtypes=[dtype, dtype]):
                b.job("fc", us)
            with b.op(other):
                b.job("sum", other_us)
            b.idle(us=us + other_us)
    return b


# 8 of some 10 ms a step.
@fires(cost_ms=8.0, occurrences=4, op="aten::mm")
def products_of_an_accelerator() -> Accelerator:
    return products()


@fires(cost_ms=8.0, op="aten::addmm", fix="Run the forward pass under bf16 autocast")
def products_of_another_maker_s_training() -> Accelerator:
    return products(maker="npu", op="aten::addmm", other="Optimizer.step#SGD.step")


@fires(cost_ms=8.0, severity="high")
def products_on_a_gpu_of_intel() -> TraceBuilder:
    b = TraceBuilder("Intel(R) Data Center GPU Max 1550")
    for _ in range(4):
        with b.step():
            with b.op("aten::mm", shapes=SHAPES, dtypes=["float", "float"]):
                b.kernel("gemm_kernel", us=8000)
            with b.op("aten::add"):
                b.kernel("some_sum", us=2000)
            b.sync()
    return b


@quiet
def products_of_sixteen_bits() -> Accelerator:
    return products(dtype="c10::BFloat16")


@quiet
def operators_that_multiply_no_matrices() -> Accelerator:
    return products(op="aten::mul")


@quiet("not_applicable")
def a_gpu_whose_kernels_tell() -> TraceBuilder:
    return training(("volta_sgemm_128x64_nn", 8000), ("some_sum", 2000))


# Of a tenth of the step 0.4 is the middle of what goes.
@edge
def a_tenth_of_the_step(over: bool) -> Accelerator:
    return products(us=1200 if over else 900, other_us=9000)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::mm", shapes=SHAPES, device="Intel(R) Data Center GPU Max 1550")


@lacks("host", verdict="not_applicable")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone("fc")

"""Proof of kernels/python-loop: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor>(int)"
GEMM = "ampere_sgemm_128x64_tn"


def averaged(
    turns: int = 64, *, us: float = 2, op: str = "aten::mul_", placed: bool = True, work_us: float = 8000
) -> TraceBuilder:
    """Three steps of a loop over parameters of other shapes each: a turn takes the host 30 us; and a product."""
    b = TraceBuilder()
    for _ in range(3):
        with b.step():
            with b.python("train.py(60): average" if placed else "torch/nn/modules/module.py(1): _call_impl"):
                for index in range(turns):
                    with b.op(op, shapes=[[index + 1]], us=30):
                        b.kernel(POINTWISE, us=us)
            with b.op("aten::addmm"):
                b.kernel(GEMM, us=work_us)
            b.sync()
    return b


# A turn takes 30 us; its kernel runs from 8 us into it (6 to launch, 2 to arrive) to 10: 63 x 30 + 10 us are the loop's.
@fires(cost_ms=1.9, occurrences=3, severity="high", line="train.py:60")
def weights_averaged_one_by_one() -> TraceBuilder:
    return averaged()


# Every layer of a model has weights of its own.
@quiet
def layers_of_a_model() -> TraceBuilder:
    return averaged(op="aten::linear")


@quiet
def no_place_of_the_users() -> TraceBuilder:
    return averaged(placed=False)


@edge
def ten_turns(over: bool) -> TraceBuilder:
    return averaged(10 if over else 9, work_us=1000)


@edge
def kernels_of_20_us(over: bool) -> TraceBuilder:
    return averaged(us=20 if over else 21)


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::mul_")


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone(POINTWISE)

"""Proof of gradient/zeroing-fill: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import zeroed

FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, at::detail::Array<char*, 1>>"


def steps(fills: int = 60, **options: Any) -> TraceBuilder:
    """Steps of 10 ms that begin with so many fills of 10 us; *options* are those of ``zeroed``."""

    def fill(b: TraceBuilder) -> None:
        with b.op("aten::fill_"):
            b.kernel(FILL, us=10)

    return zeroed(fill, fills, **options)


# 60 x 10 us = 0.6 ms of 10 ms.
@fires(cost_ms=0.6, cost_share=0.06, occurrences=240, severity="medium", op="aten::fill_")
def a_fill_for_every_parameter() -> TraceBuilder:
    return steps()


@quiet
def gradients_that_are_dropped() -> TraceBuilder:
    return steps(0)


@quiet
def fills_in_the_model() -> TraceBuilder:
    return steps(inside="forward")


@edge
def a_thousandth_of_the_step(over: bool) -> TraceBuilder:
    # One fill of 10 us: before 9.9 ms 0.101 %, before 10.1 ms 0.099 %.
    return steps(1, work_us=9900 if over else 10_100)


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::zero_", annotation="Optimizer.zero_grad#SGD.zero_grad")


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone(FILL)

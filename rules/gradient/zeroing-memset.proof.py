"""Proof of gradient/zeroing-memset: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import zeroed


def steps(memsets: int = 60, **options: Any) -> TraceBuilder:
    """Steps of 10 ms that begin with so many memsets of 10 us; *options* are those of ``zeroed``."""
    return zeroed(lambda b: b.memset(4096, 10), memsets, **options)


# 60 x 10 us = 0.6 ms of 10 ms.
@fires(cost_ms=0.6, cost_share=0.06, occurrences=240, severity="medium", op="aten::zero_")
def a_memset_for_every_parameter() -> TraceBuilder:
    return steps()


@quiet
def gradients_that_are_dropped() -> TraceBuilder:
    return steps(0)


@quiet
def memsets_in_the_model() -> TraceBuilder:
    return steps(inside="forward")


@edge
def a_thousandth_of_the_step(over: bool) -> TraceBuilder:
    # One memset of 10 us: before 9.9 ms 0.101 %, before 10.1 ms 0.099 %.
    return steps(1, work_us=9900 if over else 10_100)


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::zero_", annotation="Optimizer.zero_grad#SGD.zero_grad")


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::zero_", annotation="Optimizer.zero_grad#SGD.zero_grad")

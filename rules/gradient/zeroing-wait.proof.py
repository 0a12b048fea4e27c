"""Proof of gradient/zeroing-wait: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import Part, behind

FILL = "vectorized_elementwise_kernel_fill"


def zeroing(
    us: float = 2000, fills: int = 100, *, op: str = "aten::fill_", mark: str = "zero_grad#SGD.zero_grad"
) -> Part:
    """So many us of the host in zero_grad, with a fill of 1 us for each gradient."""

    def part(b: TraceBuilder) -> None:
        with b.annotation(f"Optimizer.{mark}"):
            for _ in range(fills):
                with b.op(op, us=us / fills):
                    b.kernel(FILL, us=1)
            if not fills:
                b.idle(us=us)

    return part


# 100 fills, each 1 us of the GPU in 20 us of the host: 1.9 of 19 ms idle.
@fires(cost_ms=1.9, cost_share=1.9 / 19, severity="medium")
def a_fill_for_every_gradient() -> TraceBuilder:
    return behind(zeroing(), device="AMD Instinct MI300X")


# Gradients that are dropped one by one, in a loop: the first work behind it is the backward pass's own gradient of the loss.
@quiet
def a_backward_pass_that_begins_with_ones() -> TraceBuilder:
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm", us=17_000):
                b.kernel("volta_sgemm_128x64_nn", us=17_000)
            with b.annotation("Optimizer.zero_grad#AdamW.zero_grad"):
                b.idle(us=2000)
            with b.op("aten::ones_like"), b.op("aten::fill_", us=30):
                b.kernel(FILL, us=1)
    return b


# What drops the gradients launches nothing; that it takes long is gpu-idle/foreach-grouping's.
@quiet
def gradients_that_are_dropped() -> TraceBuilder:
    return behind(zeroing(fills=0))


@quiet
def fills_in_the_optimizers_step() -> TraceBuilder:
    return behind(zeroing(mark="step#SGD.step"))


@quiet
def the_host_is_ahead() -> TraceBuilder:
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step():
            b.kernel("volta_sgemm_128x64_nn", us=17_000)
            zeroing()(b)
            b.sync()
    return b


@edge
def one_in_ninety_of_the_step(over: bool) -> TraceBuilder:
    # 90 % of it are low from 1 % on: 195 of 17,205 us idle are 1.133 %, of which 1.02 %; 185 are 1.076 %, of which 0.97 %.
    return behind(zeroing(us=205 if over else 195, fills=10))


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::zero_", annotation="Optimizer.zero_grad#SGD.zero_grad")


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone(FILL)

"""Proof of cpu/stalled-thread: traces on which it fires, and traces on which it does not."""

from collections.abc import Sequence

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

OPS = ("aten::add", "aten::mul", "aten::view", "aten::sub", "aten::exp")


def stalled(
    stalls: Sequence[tuple[int, int]] = ((0, 8), (1, 21), (2, 37), (3, 4)), us: float = 5000, *, steps: int = 4,
    name: str = "", device: str = "NVIDIA A100-SXM4-80GB", times: int = 1,
) -> TraceBuilder:  # fmt: skip
    """Steps of 50 operators of 20 us, each with a kernel as long; at some (step, operator) the host stands still for *us*."""
    b = TraceBuilder(device, host_us=0, latency_us=0)
    for number in range(steps):
        with b.step():
            for at in range(50):
                with b.op(name or OPS[at % 5], us=20):
                    if (number, at) in stalls:
                        b.idle(us=us)
                    b.kernel("vectorized_elementwise_kernel", us=20, host_us=20)
            with b.op("aten::mm", us=4000):
                b.kernel("ampere_sgemm_128x64_tn", us=4000)
    return b


# Four stalls of 5 ms in four steps of 5 ms and them.
@fires(cost_ms=5, cost_share=0.5, occurrences=4, severity="high")
def a_thread_that_is_stopped_now_and_then() -> TraceBuilder:
    return stalled()


@fires(cost_ms=20, cost_share=0.8, occurrences=4, severity="high")
def on_an_amd_machine_for_longer() -> TraceBuilder:
    return stalled(us=20_000, device="AMD Instinct MI300X")


# The same place in each step has a reason of its own.
@quiet
def one_place_is_always_slow() -> TraceBuilder:
    return stalled([(step, 8) for step in range(4)])


# What takes as long each time is not cheap.
@quiet
def all_are_slow() -> TraceBuilder:
    return stalled([(step, at) for step in range(4) for at in range(50)])


@quiet
def no_stall() -> TraceBuilder:
    return stalled(())


@quiet
def calls_that_wait_by_design() -> TraceBuilder:
    return stalled(name="aten::item")


@edge
def three_places(over: bool) -> TraceBuilder:
    # aten::add at three places of the forest is one place; three operators are three.
    return stalled([(0, 8), (1, 21), (2, 37)] if over else [(0, 5), (1, 10), (2, 16)])


@edge
def a_millisecond(over: bool) -> TraceBuilder:
    return stalled(us=1000 if over else 980)


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::add")


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("ampere_sgemm_128x64_tn")

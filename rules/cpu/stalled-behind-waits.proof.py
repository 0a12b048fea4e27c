"""Proof of cpu/stalled-behind-waits: traces on which it fires, and traces on which it does not."""

from collections.abc import Sequence

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import host_alone, kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

OPS = ("aten::add", "aten::mul", "aten::view", "aten::sub", "aten::exp")
STALLS = ((0, 8), (1, 21), (2, 37), (3, 4))
WAITS, ALONE = (1000, 8000, 8000, 8000, 8000), (1000,) * 5


def rank(
    stalls: Sequence[tuple[int, int]] = STALLS, reduced: Sequence[int] = WAITS, *, us: float = 5000, ranks: int = 8,
    kernel_us: float = 20, queued: int = 0, device: str = "NVIDIA A100-SXM4-80GB",
) -> TraceBuilder:  # fmt: skip
    """Four steps of five all-reduces of 64 MB, the fastest of 1 ms, each before ten operators of 20 us with a kernel each.

    At some (step, operator) the host stands still for *us*, behind the all-reduces; *queued* kernels are launched before all.
    """
    b = TraceBuilder(device, world_size=ranks, rank=0 if ranks > 1 else None, host_us=2, latency_us=0)
    for number in range(4):
        with b.step():
            for _ in range(queued):
                b.kernel("vectorized_elementwise_kernel", us=30)
            for block, long in enumerate(reduced):
                if ranks > 1:
                    before = b.collective("all_reduce", 64 << 20, long, stream=7)
                else:
                    before = b.kernel("ampere_sgemm_128x64_tn", us=long)
                for at in range(10 * block, 10 * block + 10):
                    with b.op(OPS[at % 5], us=20):
                        if (number, at) in stalls:
                            b.idle(us=us)
                        b.kernel("vectorized_elementwise_kernel", us=kernel_us, after=[before])
            b.sync()
    return b


@fires(occurrences=4, severity="high")
def a_rank_that_waits_and_is_stopped_itself() -> TraceBuilder:
    return rank()


@fires(occurrences=4, severity="high")
def on_amd_with_waits_in_every_block() -> TraceBuilder:
    return rank(reduced=(900, 12_000, 12_000, 12_000, 900), us=7000, device="AMD Instinct MI300X")


# One GPU: what its own work hides costs nothing, and delays nobody.
@lacks("distributed", verdict="not_applicable")
def a_program_of_one_process() -> TraceBuilder:
    return rank(ranks=1)


# The rank that comes last sets the pace, and its stops show as idle time, or hide behind its own work.
@quiet
def a_rank_that_waits_for_nobody() -> TraceBuilder:
    return rank(reduced=ALONE, kernel_us=800)


# Stops of 12 ms outlast all-reduces of 2 and leave the GPU idle: cpu/stalled-thread's, with a price.
@quiet
def stops_that_show_as_idle_time() -> TraceBuilder:
    return rank([(0, 12), (1, 21), (2, 33), (3, 44)], (1000, 2000, 2000, 2000, 2000), us=12_000)


# With so many launches ahead a stream takes no more: a launch then waits for the device.
@quiet
def a_full_launch_queue() -> TraceBuilder:
    return rank(queued=1000)


@quiet
def one_place_is_always_slow() -> TraceBuilder:
    return rank([(step, 8) for step in range(4)])


@quiet
def no_stops() -> TraceBuilder:
    return rank(())


@edge
def three_stops(over: bool) -> TraceBuilder:
    stalls = ((1, 8), (2, 21), (3, 37))
    return rank(stalls if over else stalls[:2], us=9000)


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return host_alone("aten::add")


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("ampere_sgemm_128x64_tn")

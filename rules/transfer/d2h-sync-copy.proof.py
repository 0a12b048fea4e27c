"""Proof of transfer/d2h-sync-copy: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def steps(
    bubble_us: float = 900, *, pinned: bool = True, blocking: bool = True, op: str = "aten::copy_", every: int = 1
) -> TraceBuilder:
    """Four steps of exactly 10 ms: two kernels with a copy of 20 us between; the second is launched *bubble_us* after it,
    and only if the host waited for the copy."""
    b = TraceBuilder(host_us=1, latency_us=0)
    for number in range(4):
        start = 10_000 * number
        with b.step():
            with b.op("aten::mm"):
                b.kernel("volta_sgemm_128x64_nn", us=4970, at_us=start + 10)
            waits = number % every == 0
            b.copy("DtoH", 32_768, us=20, pinned=pinned, blocking=blocking and waits, op=op, at_us=start + 4980)
            wait_us = bubble_us if blocking and waits else 0
            if wait_us:
                b.seek(us=start + 5000 + wait_us - 2)
            with b.op("aten::mm"):
                b.kernel("volta_sgemm_128x64_nn", us=5000 - wait_us, at_us=start + 5000 + wait_us)
            b.seek(us=start + 10_000)
    return b


# Each copy runs alone for 20 us, and the GPU idles 900 us after it while the host, which waited, launches again; 9 us more
# it idles at the start of the step while the call already waits: 929 us.
@fires(cost_ms=0.929, cost_share=0.0929, occurrences=4, severity="medium", op="aten::copy_")
def predictions_fetched_in_every_step() -> TraceBuilder:
    return steps()


@quiet
def without_waiting() -> TraceBuilder:
    return steps(blocking=False)


@quiet
def a_single_value_is_another_rules() -> TraceBuilder:
    return steps(op="aten::_local_scalar_dense")


@quiet
def every_other_step() -> TraceBuilder:
    return steps(every=2)


@quiet
def the_queue_is_filled_at_once() -> TraceBuilder:
    return steps(20)


@edge
def once_a_step(over: bool) -> TraceBuilder:
    return steps(every=1 if over else 3)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::copy_")


def beside_replays(copy_us: int) -> TraceBuilder:
    """Steps of 10 ms with a replay whose work is not in the trace, and a copy that the host waits for, so many us."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for number in range(4):
        with b.step():
            b.graph([])
            with b.annotation("## sparse_data_dist ##"):
                b.copy("DtoH", nbytes=704, us=5, at_us=number * 10_000 + copy_us)
            b.kernel("volta_sgemm_128x64_nn", us=10_000 - copy_us - 5)
            b.sync()
    return b


# A twentieth of the time is more than what a replay hides in a stretch of idle.
@edge
def replays_that_lack_work(over: bool) -> TraceBuilder:
    return beside_replays(600 if over else 450)

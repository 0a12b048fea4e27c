"""Proof of cpu/gc-pause: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def steps(pause_us: int = 10_000, *, work_ms: int = 90, steps: int = 4, hidden: bool = False) -> TraceBuilder:
    """Steps of 90 ms of kernels; a collection before them, or while they run."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(steps):
        with b.step(), b.python("train.py(12): train_step"):
            if not hidden:
                b.gc(us=pause_us)
            b.kernel("volta_sgemm_128x64_nn", ms=work_ms)
            if hidden:
                b.gc(us=pause_us)
            b.sync(us=0)
    return b


# Each step the device waits 10 ms for the collector and works 90.
@fires(cost_ms=10, cost_share=0.1, occurrences=4, severity="medium", line="train.py:12")
def a_collection_in_every_step() -> TraceBuilder:
    return steps()


@fires(cost_share=0.1)
def on_a_machine_without_a_gpu() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(4):
        with b.step(), b.python("train.py(12): train_step"):
            b.gc(ms=10)
            with b.op("aten::mm"):
                b.idle(ms=90)
    return b


@quiet
def while_the_device_works() -> TraceBuilder:
    return steps(hidden=True)


@quiet
def collections_of_the_young_generation() -> TraceBuilder:
    return steps(200, work_ms=1)


@edge
def one_millisecond(over: bool) -> TraceBuilder:
    return steps(1000 if over else 999, work_ms=9)


@edge
def eight_thousandths_of_the_step_returned(over: bool) -> TraceBuilder:
    # 198 ms of work, a collection in each step: 95 % of 1.69 ms are 0.804 % of the step, of 1.67 ms 0.795 %.
    return steps(1690 if over else 1670, work_ms=198)


@lacks("gc")
def collections_not_recorded() -> TraceBuilder:
    b = TraceBuilder()
    with b.step(), b.python("train.py(12): train_step"):
        b.kernel("volta_sgemm_128x64_nn", ms=90)
    return b


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")

"""Proof of data-loading/late-batch: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import kernels


def steps(waits: tuple[int, ...] = (100, 100, 90_000, 100), *, workers: int = 4) -> TraceBuilder:
    """A step for each wait (in us), and 30 ms of work in each."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for wait in waits:
        with b.step():
            with b.loader(us=wait, workers=workers):
                pass
            with b.op("aten::mm", us=30_000):
                b.kernel("volta_sgemm_128x64_nn", us=30_000)
    return b


# 90 of 210 ms are waited in one of four steps.
@fires(cost_share=0.43, severity="medium")
def four_workers_that_deliver_together() -> TraceBuilder:
    return steps()


@quiet
def workers_too_slow_for_every_step() -> TraceBuilder:
    return steps((20_000,) * 4)


# The first batch is late in every program.
@quiet
def a_late_first_batch() -> TraceBuilder:
    return steps((90_000, 100, 100, 100))


@quiet
def without_workers() -> TraceBuilder:
    return steps(workers=0)


@edge
def one_wait_holds_four_fifths(over: bool) -> TraceBuilder:
    return steps((0, 10_000, 41_000 if over else 39_000, 0))


@edge
def one_that_was_there_and_is_unpickled(over: bool) -> TraceBuilder:
    b = TraceBuilder(host_us=0, latency_us=0, with_stack=True)
    loads = 44 if over else 46
    for number in range(4):
        with b.step(), b.python("train.py(9): main"):
            with b.loader(us=100, workers=4):
                if number == 2:
                    b.idle(ms=90 - loads)
                    with b.python("<built-in function loads>"):
                        b.idle(ms=loads)
            with b.op("aten::mm", us=30_000):
                b.kernel("volta_sgemm_128x64_nn", us=30_000)
    return b


@edge
def sixteen_steps(over: bool) -> TraceBuilder:
    return steps((100, 300_000, *(100,) * (14 if over else 15)))


@lacks("steps")
def no_steps_marked() -> TraceBuilder:
    b = TraceBuilder(host_us=0, latency_us=0)
    with b.loader(us=20_000, workers=4):
        pass
    with b.op("aten::mm", us=30_000):
        b.kernel("volta_sgemm_128x64_nn", us=30_000)
    return b


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    b = TraceBuilder(None)
    with b.step(), b.loader(ms=20, workers=4):
        pass
    return b


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")


@lacks("loader", verdict="not_applicable")
def no_loader() -> TraceBuilder:
    return kernels(("volta_sgemm_128x64_nn", 20_000))

"""Proof of profile/full-queue: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet


def training(steps: int = 5, wait_us: float = 500, *, workers: int = 2) -> TraceBuilder:
    """Steps of 10 ms of kernels behind a wait for a batch."""
    b = TraceBuilder()
    for _ in range(steps):
        with b.step():
            with b.loader(us=wait_us, workers=workers):
                pass
            with b.op("aten::addmm"):
                b.kernel("volta_sgemm_128x64_nn", us=10_000)
            b.sync()
    return b


@fires(severity="note")
def five_batches_that_were_ready() -> TraceBuilder:
    return training()


@quiet
def the_main_process_loads() -> TraceBuilder:
    return training(workers=0)


@edge
def eight_batches(over: bool) -> TraceBuilder:
    return training(8 if over else 9)


@edge
def waits_of_ten_milliseconds(over: bool) -> TraceBuilder:
    return training(wait_us=9_900 if over else 10_100)


@lacks("loader", verdict="not_applicable")
def no_loader() -> TraceBuilder:
    b = TraceBuilder()
    with b.step(), b.op("aten::addmm"):
        b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


@lacks("host")
def kernels_alone() -> TraceBuilder:
    b = TraceBuilder()
    b.kernel("volta_sgemm_128x64_nn", us=100)
    return b

"""Proof of data-loading/made-again: traces on which it fires, and traces on which it does not."""

from advisor.reading.program_settings import WorkerLine
from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

KERNEL = WorkerLine(0.6, "sinc_kernel", "data.py", 24)


def training(
    wait_us: float = 4000,
    *,
    repeat: WorkerLine | None = KERNEL,
    steps: int = 4,
    workers: int = 0,
    device: str | None = None,
) -> TraceBuilder:
    """Steps of 10 ms: a wait for a batch, and operators for the rest."""
    b = TraceBuilder(device, host_us=0).ran_with(**({"fetch_repeat": repeat} if repeat is not None else {}))
    for _ in range(steps):
        with b.step():
            with b.loader(us=wait_us, workers=workers):
                pass
            with b.op("aten::mkldnn_convolution", us=10_000 - wait_us):
                if device:
                    b.kernel("convolution", us=1000)
    return b


# 4 of 10 ms, of which 60 % is made again; at the function's line.
@fires(cost_ms=4.0, cost_share=0.4, occurrences=4, severity="high", line="data.py:24")
def a_kernel_for_each_clip() -> TraceBuilder:
    return training()


@fires(occurrences=4)
def a_batch_for_a_gpu() -> TraceBuilder:
    return training(device="NVIDIA H100 80GB HBM3")


@quiet
def nothing_comes_again() -> TraceBuilder:
    return training(repeat=None)


@quiet
def workers_make_the_batches() -> TraceBuilder:
    return training(workers=2)


@quiet
def hardly_any_wait() -> TraceBuilder:
    return training(100)


@edge
def a_fourth_of_the_waits(over: bool) -> TraceBuilder:
    return training(repeat=WorkerLine(0.25 if over else 0.249, "sinc_kernel", "data.py", 24))


@edge
def two_waits(over: bool) -> TraceBuilder:
    return training(steps=2 if over else 1)


@lacks("loader", verdict="not_applicable")
def no_loader_in_the_loop() -> TraceBuilder:
    b = TraceBuilder(None).ran_with(fetch_repeat=KERNEL)
    for _ in range(3):
        with b.step(), b.op("aten::mm", us=1000):
            pass
    return b

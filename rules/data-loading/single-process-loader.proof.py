"""What data-loading/single-process-loader says, and where it is silent."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet


def steps(wait_us: int = 20_000, *, work_us: int = 30_000, workers: int = 0, ahead_ms: int = 0) -> TraceBuilder:
    """Steps that wait for a batch and then work 30 ms; with *ahead_ms*, on what was queued before."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for _ in range(4):
        with b.step():
            if ahead_ms:
                b.kernel("volta_sgemm_128x64_nn", ms=ahead_ms)
            with b.loader(us=wait_us, workers=workers):
                pass
            with b.op("aten::mm", us=work_us):
                b.kernel("volta_sgemm_128x64_nn", us=work_us)
    return b


# 20 ms of waiting on an idle device before 30 ms of work.
@fires(cost_ms=20, cost_share=0.4, occurrences=4, severity="high")
def loading_before_every_step() -> TraceBuilder:
    return steps()


# 15 of the 20 ms of each wait are hidden behind a kernel: 5 ms idle, of 50.
@fires(cost_ms=5, cost_share=0.1, occurrences=4, severity="medium")
def loading_that_is_hidden_in_part() -> TraceBuilder:
    return steps(ahead_ms=15)


@quiet
def loading_that_is_hidden() -> TraceBuilder:
    return steps(ahead_ms=20)


@quiet
def worker_processes() -> TraceBuilder:
    return steps(workers=4)


@edge
def five_per_cent_of_the_step(over: bool) -> TraceBuilder:
    # Beside 95 ms of work: 5.1 ms are 5.1 %, 4.9 ms 4.9 %.
    return steps(5100 if over else 4900, work_us=95_000)


@lacks("gpu", verdict="not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    b = TraceBuilder(None)
    with b.step(), b.loader(ms=20):
        pass
    return b


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    b = TraceBuilder()
    with b.step():
        with b.loader(ms=20):
            pass
        with b.op("aten::mm"):
            b.call("cudaLaunchKernel", 10)
    return b


@lacks("host")
def no_host() -> TraceBuilder:
    b = TraceBuilder()
    b.kernel("volta_sgemm_128x64_nn", ms=90, launched=False)
    return b


@lacks("loader", verdict="not_applicable")
def no_loader() -> TraceBuilder:
    b = TraceBuilder()
    with b.step(), b.op("aten::mm"):
        b.kernel("volta_sgemm_128x64_nn", ms=20)
    return b

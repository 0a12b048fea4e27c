"""Proof of data-loading/single-process-loader: traces on which it fires, and traces on which it does not."""

from advisor.reading.program_settings import Loader
from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import kernels


def steps(
    wait_us: int = 20_000, *, work_us: int = 30_000, workers: int = 0, ahead_ms: int = 0, ranks: int = 1
) -> TraceBuilder:
    """Steps that wait for a batch and then work 30 ms; with *ahead_ms*, on what was queued before."""
    b = TraceBuilder(host_us=0, latency_us=0, rank=0 if ranks > 1 else None, world_size=ranks)
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
@fires(cost_ms=5, cost_share=0.1, occurrences=4, severity="high")
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
    return kernels_alone("volta_sgemm_128x64_nn")


@lacks("loader", verdict="not_applicable")
def no_loader() -> TraceBuilder:
    return kernels(("volta_sgemm_128x64_nn", 20_000))


# A home directory is for the advisor to leave out.
LOADER = Loader(0, file="/home/someone/train.py", line=42)


# 20 ms of loading beside 30 ms of work: one worker keeps up, and one is to spare.
@fires(cost_ms=20, setting="DataLoader(num_workers=0) at train.py:42 → 2")
def loading_with_a_known_loader() -> TraceBuilder:
    return steps().ran_with(cores=8, loaders=[LOADER])


# 100 ms beside 30: four workers keep up, five are advised; of three cores, three.
@fires(cost_ms=100, setting="DataLoader(num_workers=0) at train.py:42 → 5")
def loading_that_takes_longer_than_the_work() -> TraceBuilder:
    return steps(100_000).ran_with(cores=8, loaders=[LOADER])


@fires(cost_ms=100, setting="DataLoader(num_workers=0) at train.py:42 → 3")
def fewer_cores_than_workers_needed() -> TraceBuilder:
    return steps(100_000).ran_with(cores=3, loaders=[LOADER])


# With one core, or with four ranks on eight cores that five workers each would overfill, no number is known to be right.
@fires(cost_ms=100, setting="DataLoader(num_workers=0) at train.py:42")
def a_single_core() -> TraceBuilder:
    return steps(100_000).ran_with(cores=1, loaders=[LOADER])


@fires(cost_ms=100, setting="DataLoader(num_workers=0) at train.py:42")
def cores_that_four_ranks_share() -> TraceBuilder:
    return steps(100_000, ranks=4).ran_with(cores=8, loaders=[LOADER])


@fires(cost_ms=100, setting="DataLoader(num_workers=0) at train.py:42 → 5")
def cores_enough_for_four_ranks() -> TraceBuilder:
    return steps(100_000, ranks=4).ran_with(cores=20, loaders=[LOADER])

"""Proof of data-loading/loader-stall: traces on which it fires, and traces on which it does not."""

from advisor.reading.program_settings import Loader
from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import kernels


def steps(
    waits: tuple[int, ...] = (20_000,) * 4,
    *,
    work_us: int = 30_000,
    workers: int = 4,
    ahead_ms: int = 0,
    restart: bool = False,
) -> TraceBuilder:
    """A step for each wait (in us), and 30 ms of work in each."""
    b = TraceBuilder(host_us=0, latency_us=0)
    for wait in waits:
        with b.step():
            if ahead_ms:
                b.kernel("volta_sgemm_128x64_nn", ms=ahead_ms)
            if restart:
                with b.loader(us=10, workers=workers):
                    pass
            with b.loader(us=wait, workers=workers):
                pass
            with b.op("aten::mm", us=work_us):
                b.kernel("volta_sgemm_128x64_nn", us=work_us)
    return b


@fires(cost_ms=20, cost_share=0.4, occurrences=4, severity="high")
def workers_too_slow_for_every_step() -> TraceBuilder:
    return steps()


@quiet
def workers_that_keep_up() -> TraceBuilder:
    return steps((100,) * 4)


@quiet
def waiting_while_the_device_works() -> TraceBuilder:
    return steps(ahead_ms=20)


@quiet
def without_workers() -> TraceBuilder:
    return steps(workers=0)


@quiet
def an_epoch_of_one_batch() -> TraceBuilder:
    return steps(restart=True)


# The longest wait may hold 80 % of what is waited: 39 beside 10 ms are 79.6 %, 41 beside 10 are 80.4.
@edge
def one_wait_dominates(over: bool) -> TraceBuilder:
    return steps((5_000, 39_000 if over else 41_000, 5_000))


@edge
def two_waits(over: bool) -> TraceBuilder:
    return steps((20_000, 20_000) if over else (20_000,))


@edge
def five_per_cent_of_the_step(over: bool) -> TraceBuilder:
    return steps((5100 if over else 4900,) * 4, work_us=95_000)


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


LOADER = Loader(4, file="train.py", line=42)


# 20 of 50 ms are waited: four workers deliver in 50 ms what 6.7 would in 30.
@fires(cost_ms=20, setting="DataLoader(num_workers=4) at train.py:42 → 7")
def cores_that_are_free() -> TraceBuilder:
    return steps().ran_with(cores=16, loaders=[LOADER])


@fires(cost_ms=20, setting="DataLoader(num_workers=4) at train.py:42 → 6")
def fewer_free_cores_than_workers_needed() -> TraceBuilder:
    return steps().ran_with(cores=6, loaders=[LOADER])


@fires(cost_ms=20, setting="DataLoader(num_workers=4) at train.py:42")
def a_worker_on_every_core_already() -> TraceBuilder:
    return steps().ran_with(cores=4, loaders=[LOADER])


# Of 20 ms half is where data-loading/unpickling begins.
@edge
def batches_that_are_there_and_unpickled(over: bool) -> TraceBuilder:
    return unpickled(9_900 if over else 10_100)


def unpickled(us: int) -> TraceBuilder:
    """Steps of 20 ms of waiting, of which so many us unpickle, and 30 of work."""
    b = TraceBuilder(host_us=0, latency_us=0, with_stack=True)
    for _ in range(4):
        with b.step(), b.python("train.py(9): main"):
            with b.loader(workers=4):
                b.idle(us=20_000 - us)
                with b.python("<built-in function loads>"):
                    b.idle(us=us)
            with b.op("aten::mm", us=30_000):
                b.kernel("volta_sgemm_128x64_nn", us=30_000)
    return b

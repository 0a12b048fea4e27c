"""Proof of cpu/slow-workers: traces on which it fires, and traces on which it does not."""

from advisor.reading.program_settings import Loader
from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet


def training(wait_us: float = 2000, *, steps: int = 4, device: str | None = None, workers: int = 2) -> TraceBuilder:
    """Steps of 10 ms: a wait for workers, and operators for the rest."""
    b = TraceBuilder(device)
    for _ in range(steps):
        with b.step():
            with b.loader(us=wait_us, workers=workers):
                pass
            with b.op("aten::mkldnn_convolution", us=10_000 - wait_us):
                pass
    return b


@fires(cost_ms=2.0, cost_share=0.2, occurrences=4, severity="medium")  # 2 of 10 ms in each of four steps
def two_of_ten_milliseconds_for_the_workers() -> TraceBuilder:
    return training()


@fires(cost_ms=1.0, severity="medium")
def one_worker_that_delivers_too_slowly() -> TraceBuilder:
    return training(1000, workers=1)


@quiet
def the_main_process_loads() -> TraceBuilder:
    return training(workers=0)


@quiet
def workers_that_keep_up() -> TraceBuilder:
    return training(100)


@quiet
def one_late_batch_when_the_workers_start() -> TraceBuilder:
    b = TraceBuilder(None)
    for wait in (4000, 20, 20, 20):
        with b.step():
            with b.loader(us=wait, workers=2):
                pass
            with b.op("aten::mkldnn_convolution", us=5000):
                pass
    return b


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    b = training(device="Tesla V100-SXM2-16GB")
    with b.step():
        b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


@edge
def waits_of_a_twentieth_of_the_step(over: bool) -> TraceBuilder:
    return training(500 if over else 499)


@lacks("loader", verdict="not_applicable")
def no_loader_in_the_loop() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(3):
        with b.step(), b.op("aten::mkldnn_convolution", us=1000):
            pass
    return b


LOADER = Loader(2, file="train.py", line=42)


# A step of 10 ms, of which 6 are waited: 2 workers load a batch in 10 ms, 5 in the 4 ms that are left.
@fires(cost_ms=6.0, setting="DataLoader(num_workers=2) at train.py:42 → 5")
def eight_cores_of_which_five_keep_up() -> TraceBuilder:
    return training(6000).ran_with(cores=8, threads=8, loaders=[LOADER])


@fires(cost_ms=6.0, setting="DataLoader(num_workers=2) at train.py:42")
def two_cores_on_which_no_number_is_named() -> TraceBuilder:
    return training(6000).ran_with(cores=2, threads=2, loaders=[LOADER])


def fetching(ms: float, *, workers: int = 8, cores: int = 2) -> TraceBuilder:
    """Steps of 10 ms of which 6 are waited, while each of the *workers* takes *ms* for a batch."""
    loader = Loader(workers, file="train.py", line=42)
    return training(6000, workers=workers).ran_with(cores=cores, threads=1, loaders=[loader], worker_fetch_ms=ms)


@fires(
    cost_ms=6.0,
    fix="Fewer workers than cores, or none where samples lie ready in memory",
    setting="DataLoader(num_workers=8) at train.py:42 → 1",
)
def eight_workers_on_two_cores_that_fetch_quickly() -> TraceBuilder:
    return fetching(1.5)


# A batch takes a worker as long as is waited for it: loading in the main process returns nothing.
@quiet
def eight_workers_on_two_cores_whose_samples_take_long() -> TraceBuilder:
    return fetching(6.0)


# There is a core for each: how long a worker takes says nothing of the main process, and the range begins at nothing.
@fires(cost_ms=6.0, fix="More workers where cores or storage have room, else less work per sample")
def two_workers_on_two_cores_that_fetch_quickly() -> TraceBuilder:
    return fetching(1.5, workers=2)

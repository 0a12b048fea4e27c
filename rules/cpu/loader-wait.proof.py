"""Proof of cpu/loader-wait: traces on which it fires, and traces on which it does not."""

from advisor.reading.program_settings import Loader
from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet


def training(wait_us: float = 2000, *, steps: int = 4, device: str | None = None, workers: int = 0) -> TraceBuilder:
    """Steps of 10 ms: a wait, and operators for the rest."""
    b = TraceBuilder(device)
    for _ in range(steps):
        with b.step():
            with b.loader(us=wait_us, workers=workers):
                pass
            with b.op("aten::mkldnn_convolution", us=10_000 - wait_us):
                pass
    return b


@fires(cost_ms=2.0, cost_share=0.2, occurrences=4, severity="medium")  # 2 of 10 ms in each of four steps
def two_of_ten_milliseconds_in_the_loader() -> TraceBuilder:
    return training()


# Collating is loading: what runs inside the wait is the loader's, not the operators'.
@fires(cost_ms=2.0, cost_share=0.2)
def operators_inside_the_wait_are_the_loaders() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(4):
        with b.step():
            with b.loader(us=0), b.op("aten::stack", us=2000):
                pass
            with b.op("aten::mkldnn_convolution", us=8000):
                pass
    return b


@quiet
def workers_that_deliver_too_slowly() -> TraceBuilder:
    return training(1000, workers=2)


@quiet
def a_loader_that_keeps_up() -> TraceBuilder:
    return training(100)


@quiet
def one_late_batch_when_the_epoch_starts() -> TraceBuilder:
    b = TraceBuilder(None)
    for wait in (4000, 20, 20, 20):
        with b.step():
            with b.loader(us=wait, workers=0):
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


@quiet("not_applicable")
def a_gpu_that_was_not_recorded() -> TraceBuilder:
    b = training()
    with b.step(), b.op("aten::cudnn_convolution", us=30):
        pass
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


LOADER = Loader(0, file="train.py", line=42)


# 2 ms of loading beside 8 ms: one worker keeps up, one is to spare, and both take a core from the operators.
@fires(cost_ms=2.0, setting="DataLoader(num_workers=0) at train.py:42 → 2")
def eight_cores_that_the_operators_use() -> TraceBuilder:
    return training().ran_with(cores=8, threads=8, loaders=[LOADER])


@fires(cost_ms=2.0, setting="torch.get_num_threads()=8 → 6")
def threads_that_leave_cores_to_the_workers() -> TraceBuilder:
    return training().ran_with(cores=8, threads=8, loaders=[LOADER])


@fires(cost_ms=2.0, setting="DataLoader(num_workers=0) at train.py:42")
def two_cores_on_which_nothing_can_be_said() -> TraceBuilder:
    return training().ran_with(cores=2, threads=2, loaders=[LOADER])

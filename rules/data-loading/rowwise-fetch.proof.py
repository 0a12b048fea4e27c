"""Proof of data-loading/rowwise-fetch: traces on which it fires, and traces on which it does not."""

from advisor.reading.program_settings import Loader
from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

SAMPLES = 100


def training(
    *,
    each: tuple[str, ...] = ("aten::select", "aten::select"),
    python_us: float = 6,
    copy_us: float = 50,
    rest_us: float = 8000,
    samples: int = SAMPLES,
    workers: int = 0,
    steps: int = 4,
    iterable: bool = False,
) -> TraceBuilder:
    """Steps with a wait: operators of 2 us for each sample with Python between them, and a stack that copies."""
    b = TraceBuilder(None, host_us=0).ran_with(loaders=[Loader(workers, iterable=iterable)])
    for _ in range(steps):
        with b.step():
            with b.loader(us=0, workers=workers):
                for _ in range(samples):
                    for name in each:
                        with b.op(name, us=2):
                            pass
                    b.idle(python_us)
                with b.op("aten::stack"):
                    with b.op("aten::cat", us=copy_us):
                        pass
                    with b.op("aten::view", shapes=[[samples * 8], []], values=["", f"[{samples}, 8]"], us=2):
                        pass
            with b.op("aten::mm", us=rest_us):
                pass
    return b


# 100 samples of 2 * 2 + 6 us, and a stack of 52: 1.052 of 9.052 ms, of which 50 us copy.
@fires(cost_ms=1.052, cost_share=0.1162, occurrences=4, severity="medium")
def rows_of_two_tensors() -> TraceBuilder:
    return training()


@fires(cost_ms=1.252)
def arrays_that_become_tensors() -> TraceBuilder:
    return training(each=("aten::lift_fresh", "aten::to", "aten::detach_"))


@quiet
def samples_that_are_augmented() -> TraceBuilder:
    return training(each=("aten::select", "aten::flip", "aten::sub"))


# 100 us of Python a sample: decoding, or cutting a text into words.
@quiet
def samples_that_take_work_in_python() -> TraceBuilder:
    return training(python_us=100)


@quiet
def an_iterable_dataset() -> TraceBuilder:
    return training(iterable=True)


@quiet
def worker_processes() -> TraceBuilder:
    return training(workers=2)


# Images whose copying is most of the wait.
@quiet
def large_samples() -> TraceBuilder:
    return training(copy_us=2000)


# Rows of different lengths are each copied into a batch of zeros.
@quiet
def rows_that_are_padded() -> TraceBuilder:
    return training(each=("aten::select", "aten::fill_", "aten::slice", "aten::copy_"))


@quiet
def one_index_for_the_batch() -> TraceBuilder:
    return training(each=("aten::index",), samples=1)


@edge
def sixteen_samples(over: bool) -> TraceBuilder:
    return training(samples=16 if over else 15, rest_us=500)


@edge
def a_twentieth_of_the_step(over: bool) -> TraceBuilder:
    """1.052 ms, of which 0.05 copy and 72.5 % of the rest go: 0.7265 ms, of 20.0 or 20.15 ms."""
    return training(rest_us=18_950 if over else 19_100)


@lacks("loader", verdict="not_applicable")
def no_loader_in_the_loop() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(3):
        with b.step(), b.op("aten::mm", us=1000):
            pass
    return b

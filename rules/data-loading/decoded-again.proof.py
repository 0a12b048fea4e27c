"""Proof of data-loading/decoded-again: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.reading.program_settings import Loader, Optimizer, Samples
from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

DECODES = Samples(16, 0.9, "files", "PIL: load", 0.8, "__getitem__", "data.py", 40)


def training(
    wait_us: float = 4000,
    *,
    steps: int = 4,
    samples: Samples | None = DECODES,
    loader: Loader | None = None,
    **recorded: Any,
) -> TraceBuilder:
    """Steps of 10 ms: a wait for a batch of 16 images, and operators for the rest."""
    known: dict[str, Any] = {"batch_bytes": 16 << 16, "memory_bytes": 1 << 33, "optimizers": [Optimizer("SGD")]}
    loaders = [loader or Loader(0, samples=1000, passes=1, file="train.py", line=42)]
    b = TraceBuilder(None, host_us=0).ran_with(**(known | {"loaders": loaders, "samples": samples} | recorded))
    for _ in range(steps):
        with b.step():
            with b.loader(us=wait_us, workers=0):
                pass
            with b.op("aten::mkldnn_convolution", us=10_000 - wait_us):
                pass
    return b


# 4 of 10 ms; at a line that no operator has.
@fires(cost_ms=4.0, cost_share=0.4, occurrences=4, severity="high")
def images_that_are_decoded_in_each_epoch() -> TraceBuilder:
    return training()


# An evaluation that goes through its data again and again.
@fires(cost_ms=4.0)
def a_second_pass_without_training() -> TraceBuilder:
    return training(optimizers=[], loader=Loader(0, samples=1000, passes=2))


@fires(cost_ms=4.0)
def a_dataset_whose_size_is_not_known() -> TraceBuilder:
    return training(batch_bytes=None)


@quiet
def one_pass_over_files() -> TraceBuilder:
    return training(optimizers=[])


# 100 million samples of 64 KiB: no memory holds them.
@quiet
def more_samples_than_memory_holds() -> TraceBuilder:
    return training(loader=Loader(0, samples=100_000_000, passes=1))


@quiet
def a_random_crop_of_the_full_image_takes_most() -> TraceBuilder:
    return training(samples=Samples(16, 0.2, "files", "PIL: load", 0.8, "__getitem__", "data.py", 40))


@quiet
def rows_of_a_table() -> TraceBuilder:
    return training(samples=Samples(16, 0.9, "table", "pandas: __getitem__", 0.8, "__getitem__", "data.py", 40))


@quiet("not_applicable")
def nothing_known_of_the_samples() -> TraceBuilder:
    return training(samples=None)


@quiet
def a_wait_that_is_small() -> TraceBuilder:
    return training(100)


@edge
def a_quarter_of_the_waits(over: bool) -> TraceBuilder:
    return training(samples=Samples(16, 0.25 if over else 0.249, "files", "json: load"))


@lacks("loader", verdict="not_applicable")
def no_loader_in_the_loop() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(3):
        with b.step(), b.op("aten::mm", us=1000):
            pass
    return b

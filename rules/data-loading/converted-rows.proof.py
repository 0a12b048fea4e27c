"""Proof of data-loading/converted-rows: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.reading.program_settings import Loader, Optimizer, Samples
from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet


def picks(kind: str = "table", fixed: float = 0.9) -> Samples:
    return Samples(64, fixed, kind, "pandas: __getitem__", 0.6, "__getitem__", "data.py", 40)


def training(
    wait_us: float = 4000, *, steps: int = 4, samples: Samples | None = None, total: int = 20_000, **recorded: Any
) -> TraceBuilder:
    """Steps of 10 ms: a wait for a batch of 64 rows of 64 floats, and operators for the rest."""
    known: dict[str, Any] = {"batch_bytes": 1 << 14, "memory_bytes": 1 << 33, "optimizers": [Optimizer("Adam")]}
    loaders = [Loader(0, samples=total, passes=1, file="train.py", line=42)]
    b = TraceBuilder(None, host_us=0).ran_with(
        **(known | {"loaders": loaders, "samples": samples or picks()} | recorded)
    )
    for _ in range(steps):
        with b.step():
            with b.loader(us=wait_us, workers=0):
                pass
            with b.op("aten::mm", us=10_000 - wait_us):
                pass
    return b


# 4 of 10 ms.
@fires(cost_ms=4.0, cost_share=0.4, occurrences=4, severity="high")
def rows_of_a_data_frame() -> TraceBuilder:
    return training()


@fires(cost_ms=4.0)
def lists_of_numbers() -> TraceBuilder:
    return training(samples=picks("rows"))


# Inference asks for each row once, and a tensor of all is made as fast as one of a row.
@fires(cost_ms=4.0)
def rows_that_are_asked_for_once() -> TraceBuilder:
    return training(optimizers=[])


@quiet
def files() -> TraceBuilder:
    return training(samples=picks("files"))


@quiet
def samples_that_do_something_else() -> TraceBuilder:
    return training(samples=picks(""))


@quiet
def tensors_that_no_memory_holds() -> TraceBuilder:
    return training(total=1 << 40)


@quiet
def a_wait_that_is_small() -> TraceBuilder:
    return training(100)


@edge
def four_tenths_of_the_waits(over: bool) -> TraceBuilder:
    return training(samples=picks(fixed=0.4 if over else 0.399))


@lacks("loader", verdict="not_applicable")
def no_loader_in_the_loop() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(3):
        with b.step(), b.op("aten::mm", us=1000):
            pass
    return b

"""Proof of transfer/pageable-copy: traces on which it fires, and traces on which it does not."""

from advisor.reading.program_settings import Loader
from advisor.testing import TraceBuilder
from advisor.testing.incomplete import copies_unsaid, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def batches(
    nbytes: int = 19_267_584,
    *,
    us: float = 1650,
    direction: str = "HtoD",
    pinned: bool = False,
    device: str = "Tesla V100-SXM2-16GB",
) -> TraceBuilder:
    """Four steps: a batch of 32 images of 3 x 224 x 224 floats, then 8.35 ms of kernel."""
    b = TraceBuilder(device)
    for _ in range(4):
        with b.step():
            b.copy(direction, nbytes, us=us, pinned=pinned)
            b.kernel("volta_sgemm_128x64_nn", us=8350)
    return b


@fires(cost_ms=1.65, occurrences=4, severity="low")  # each copy runs alone: its 1.65 ms are its cost
def a_pageable_batch_in_every_step() -> TraceBuilder:
    return batches()


# The launching thread is held: 1.48 ms of copy, 0.49 ms of idle from the call to its start, 0.03 until the next kernel.
@fires(cost_ms=2.0, occurrences=3)
def what_the_held_host_loses_counts_too() -> TraceBuilder:
    b = TraceBuilder(host_us=1, latency_us=0)
    for number in range(3):
        start = 10_000 * number
        with b.step():
            with b.op("aten::mm"):
                b.kernel("volta_sgemm_128x64_nn", us=7980, at_us=start + 20)
            b.seek(us=start + 8010)
            b.copy("HtoD", 19_267_584, us=1480, at_us=start + 8500)
            b.seek(us=start + 10_000)
    return b


@fires(occurrences=4)
def predictions_on_their_way_back() -> TraceBuilder:
    return batches(direction="DtoH")


@quiet
def the_same_batch_pinned() -> TraceBuilder:
    return batches(pinned=True)


@quiet
def a_batch_so_small_that_its_copy_is_under_a_hundredth_of_the_step() -> TraceBuilder:
    return batches(70_000, us=5)


@quiet("not_applicable")
def memory_that_processor_and_gpu_share() -> TraceBuilder:
    return batches(device="NVIDIA GH200 480GB")


@edge
def copies_of_64_KiB(over: bool) -> TraceBuilder:
    return batches(65536 if over else 65535)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::copy_")


@lacks("copy_memory")
def copies_that_do_not_say_which_memory_they_read() -> TraceBuilder:
    return copies_unsaid()


@fires(cost_ms=1.65, setting="DataLoader(pin_memory=False) at train.py:42 → True")
def a_loader_known_not_to_pin() -> TraceBuilder:
    return batches().ran_with(loaders=[Loader(4, file="train.py", line=42)])


# It pins, and the copies are pageable all the same: they are not of its batches, and another value would change nothing.
@fires(cost_ms=1.65, setting="DataLoader(pin_memory=True) at train.py:42")
def a_loader_known_to_pin() -> TraceBuilder:
    return batches().ran_with(loaders=[Loader(4, pin_memory=True, file="train.py", line=42)])

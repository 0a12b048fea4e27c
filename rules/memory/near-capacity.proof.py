"""Proof of memory/near-capacity: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

DEVICE = 16_000_000_000


def peak(allocated: float, reserved: float, *, memory: bool = True, mark: str = "forward") -> TraceBuilder:
    """A step whose peak is so much of a device of 16 GB, with so much reserved; *mark* annotates it."""
    b = TraceBuilder(memory_bytes=DEVICE, profile_memory=memory)
    b.pool(0, round(reserved * DEVICE))
    with b.step(), b.annotation(mark), b.op("aten::mm"):
        b.release(b.memory(round(allocated * DEVICE)))
        b.kernel("volta_sgemm_128x64_nn", us=1000)
    return b


@fires(severity="low", occurrences=1)
def tensors_fill_the_device() -> TraceBuilder:
    return peak(0.95, 0.96)


@fires(severity="low", occurrences=1)
def nothing_is_left_to_reserve() -> TraceBuilder:
    return peak(0.88, 0.98)


@quiet
def the_cache_holds_what_tensors_do_not_need() -> TraceBuilder:
    return peak(0.50, 0.98)


@quiet
def four_fifths_in_use() -> TraceBuilder:
    return peak(0.80, 0.85)


# vLLM takes nine tenths of the device for its cache, whatever the model.
@quiet
def an_engine_that_takes_its_share() -> TraceBuilder:
    return peak(0.94, 0.98, mark="execute_context_1(128)_generation_0(0)")


@edge
def ninety_seven_hundredths_in_an_engine(over: bool) -> TraceBuilder:
    return peak(0.97 if over else 0.9699, 0.98, mark="execute_context_1(128)_generation_0(0)")


@edge
def ninety_two_hundredths_allocated(over: bool) -> TraceBuilder:
    return peak(0.92 if over else 0.9199, 0.93)


@edge
def ninety_seven_hundredths_reserved(over: bool) -> TraceBuilder:
    return peak(0.88, 0.97 if over else 0.9699)


@edge
def eighty_five_hundredths_allocated_of_a_full_cache(over: bool) -> TraceBuilder:
    return peak(0.85 if over else 0.8499, 0.98)


@lacks("memory")
def no_memory_recorded() -> TraceBuilder:
    return peak(0.95, 0.96, memory=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::mm")

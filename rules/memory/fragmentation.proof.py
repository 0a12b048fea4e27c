"""Proof of memory/fragmentation: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

GB = 10**9


def allocator(
    peak: int = 6 * GB,
    reserved: int = 12 * GB,
    unused: int = 5 * GB,
    *,
    more: int = GB,
    device: int = 16 * GB,
    memory: bool = True,
) -> TraceBuilder:
    """For 20 MB *more* is reserved, up to *reserved*, while *unused* lies free; later *peak* is allocated at most."""
    b = TraceBuilder(memory_bytes=device, profile_memory=memory)
    b.pool(0, reserved - more)
    with b.step(), b.op("aten::mm"):
        b.kernel("volta_sgemm_128x64_nn", us=1000)
        first = b.memory(reserved - more - unused)
        b.malloc(more, us=500)
        small = b.memory(20_000_000)
        b.release(first)
        b.release(small)
        b.release(b.memory(peak))
    return b


@fires(severity="low", occurrences=1)
def twelve_gigabytes_held_for_six() -> TraceBuilder:
    return allocator()


@quiet
def the_cache_is_full_when_more_is_reserved() -> TraceBuilder:
    return allocator(11 * GB, 12 * GB, 0)


@quiet
def a_cache_left_by_a_larger_phase() -> TraceBuilder:
    b = TraceBuilder(memory_bytes=16 * GB)
    b.pool(0, 12 * GB)
    with b.step(), b.op("aten::mm"):
        b.kernel("volta_sgemm_128x64_nn", us=1000)
        b.release(b.memory(6 * GB))
    return b


@quiet
def what_was_asked_for_is_more_than_what_lay_unused() -> TraceBuilder:
    b = TraceBuilder(memory_bytes=16 * GB)
    b.pool(0, 4 * GB)
    with b.step(), b.op("aten::mm"):
        b.kernel("volta_sgemm_128x64_nn", us=1000)
        b.release(b.memory(1 * GB))  # 4 GB lie unused
        b.malloc(8 * GB, us=500)
        b.release(b.memory(7 * GB))
    return b


@quiet
def plenty_of_room() -> TraceBuilder:
    return allocator(device=80 * GB)


@edge
def half_as_much_again(over: bool) -> TraceBuilder:
    return allocator(8 * GB if over else 8 * GB + 1)


@edge
def half_of_the_device(over: bool) -> TraceBuilder:
    return allocator(device=24 * GB if over else 24 * GB + 10)


@edge
def a_tenth_of_the_device_unused(over: bool) -> TraceBuilder:
    return allocator(5 * GB, 8 * GB, 1_600_000_000 if over else 1_599_999_999, more=2 * GB)


@lacks("memory")
def no_memory_recorded() -> TraceBuilder:
    return allocator(memory=False)

"""Proof of cpu/fresh-memory: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

MIB = 1 << 20
MAPPED = 140_000_000_000_000 // 4096 * 4096 + 64


def forward(
    mib: int | float = 64, *, behind: int = 64, inside: str = "", memory: bool = True, device: str | None = None
) -> TraceBuilder:
    """Four steps: 30 ms of a product that is given memory *behind* the start of a page, 3 ms in which it is freed, 7 ms of a sum.

    Where *inside* is the name of an operator, the memory is freed in that one.
    """
    b = TraceBuilder(device, host_us=0, with_stack=False, profile_memory=memory)
    for step in range(4):
        with b.step():
            with b.op("aten::mul", us=30_000, shapes=[[4096, 4096], [4096, 4096]]):
                made = b.memory(int(mib * MIB), device=-1, address=MAPPED - 64 + behind + (step << 30))
            if inside:
                with b.op(inside, us=3_000):
                    b.release(made)
            else:
                b.release(made)
                b.idle(3_000)
            with b.op("aten::sum", us=7_000):
                if device:
                    b.kernel("reduce_kernel", us=100)
    return b


# 33 of 40 ms. 3 ms for 64 MiB are 0.0447 ns a byte, and a page's first write 2.1 times that: 6.3 ms, with the 3 ms 9.3.
@fires(cost_ms=33, occurrences=4, severity="high", fix="Let the allocator keep the memory of large tensors")
def tensors_that_lie_64_bytes_behind_a_page() -> TraceBuilder:
    return forward()


@fires(cost_ms=33, fix="Let the allocator keep the memory of large tensors")
def memory_given_by_an_operator_inside() -> TraceBuilder:
    b = TraceBuilder(None, host_us=0, with_stack=False)
    for step in range(4):
        with b.step():
            with b.op("aten::mul", us=30_000), b.op("aten::empty", us=10):
                made = b.memory(64 * MIB, device=-1, address=MAPPED + (step << 30))
            b.release(made)
            b.idle(3_000)
            with b.op("aten::sum", us=7_000):
                pass
    return b


# The backward pass frees what it has used: the operator's own time, at the usual rate of 0.05 ns a byte.
@fires(cost_ms=33, occurrences=8)
def memory_freed_inside_an_operator() -> TraceBuilder:
    return forward(inside="autograd::engine::evaluate_function: MulBackward0")


@quiet
def an_allocator_that_keeps_the_memory() -> TraceBuilder:
    return forward(behind=2880)


@quiet
def memory_of_jemalloc_begins_with_a_page() -> TraceBuilder:
    return forward(behind=0)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return forward(device="NVIDIA A100-SXM4-40GB")


# From 32 MiB on the library takes each block from the system, however it is tuned.
@edge
def thirty_two_mebibytes(over: bool) -> TraceBuilder:
    return forward(32 if over else 31.9)


@lacks("memory")
def no_memory_recorded() -> TraceBuilder:
    return forward(memory=False)

"""Proof of transfer/device-pingpong: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

GEMM = "volta_sgemm_128x64_nn"
SHAPE = [512, 1024]
BYTES = 4 * 512 * 1024


def move(
    b: TraceBuilder, direction: str, nbytes: int, *, name: str = "aten::to", shape: list[int], pinned: bool = False
) -> None:
    """As x.cpu() and x.to(device) are recorded; each copy takes 300 us."""
    with b.op(name, shapes=[shape, [], []]), b.op("aten::_to_copy", shapes=[shape, [], []]):
        b.copy(direction, nbytes, us=300, pinned=pinned, op="aten::copy_")


def steps(
    *,
    back: list[int] | None = None,
    nbytes: int = BYTES,
    name: str = "aten::to",
    between: list[int] | None = None,
    pinned: bool = False,
    backward: bool = False,
    count: int = 4,
    shapes: bool = True,
) -> TraceBuilder:
    b = TraceBuilder(record_shapes=shapes)
    for step in range(count):
        with b.step():
            b.kernel(GEMM, us=3000)
            move(b, "DtoH", nbytes, name=name, shape=SHAPE, pinned=pinned)
            with b.op("aten::cumsum", shapes=[between or SHAPE, []], us=400):
                pass
            if backward:
                with b.backward("PackBackward0", 10 + step):
                    move(b, "HtoD", nbytes, name=name, shape=back or SHAPE, pinned=pinned)
            else:
                move(b, "HtoD", nbytes, name=name, shape=back or SHAPE, pinned=pinned)
            b.kernel(GEMM, us=3000)
            b.sync()
    return b


# Two copies of 300 us, the 400 us on the host with the calls around it (4 to wait, 6 to launch, 2 to arrive), as much again
# without the 400 behind the second copy, and 2 us in which the first wait is for a kernel that has yet to arrive.
@fires(cost_ms=1.026, occurrences=4, severity="high")
def a_cumsum_on_the_host() -> TraceBuilder:
    return steps()


@quiet
def the_tensor_that_comes_back_is_another() -> TraceBuilder:
    return steps(back=[1024, 512])


@quiet
def what_ran_between_took_no_such_tensor() -> TraceBuilder:
    return steps(between=[7])


@quiet
def activations_offloaded_for_the_backward_pass() -> TraceBuilder:
    return steps(backward=True)


@quiet
def through_pinned_memory() -> TraceBuilder:
    return steps(pinned=True)


@quiet
def into_buffers_that_stand_ready() -> TraceBuilder:
    b = TraceBuilder()
    for _ in range(4):
        with b.step():
            b.kernel(GEMM, us=3000)
            for direction in ("DtoH", "HtoD"):
                with b.op("aten::copy_", shapes=[SHAPE, SHAPE, []]):
                    b.copy(direction, BYTES, us=300, op=None)
    return b


@edge
def two_pairs(over: bool) -> TraceBuilder:
    return steps(count=2 if over else 1)


@edge
def tensors_of_a_page(over: bool) -> TraceBuilder:
    return steps(nbytes=4096 if over else 4095)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::to", shapes=[SHAPE])


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(shapes=False)


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone(GEMM)

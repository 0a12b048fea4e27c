"""Proof of transfer/cpu-created-tensor: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

GEMM = "volta_sgemm_128x64_nn"
SHAPE = [256, 1024]


def make(b: TraceBuilder, name: str, shape: list[int], us: float = 50) -> None:
    """As torch.zeros and its like are recorded: the maker takes a list, what fills the tensor takes the tensor."""
    with b.op(name, shapes=[[], []], dtypes=["ScalarList", "Scalar"], us=us), b.op("aten::fill_", shapes=[shape, []]):
        pass


def send(b: TraceBuilder, shape: list[int], us: float, *, pinned: bool = False) -> None:
    with b.op("aten::to", shapes=[shape, [], []]), b.op("aten::_to_copy", shapes=[shape, [], []]):
        b.copy("HtoD", 1 << 20, us=us, pinned=pinned, op="aten::copy_")


def steps(
    *,
    maker: str = "aten::zeros",
    sent: list[int] | None = None,
    made: bool = True,
    pinned: bool = False,
    copy_us: float = 100,
    between: str = "",
    shapes: bool = True,
    every: int = 1,
) -> TraceBuilder:
    b = TraceBuilder(record_shapes=shapes, host_us=6, latency_us=2)
    for step in range(4):
        with b.step():
            if step % every == 0:
                if made:
                    make(b, maker, SHAPE)
                if between:
                    with b.op(between, shapes=[SHAPE, []], us=20):
                        pass
                send(b, sent or SHAPE, copy_us, pinned=pinned)
            b.kernel(GEMM, us=4000)
            b.sync()
    return b


# Each copy of 100 us costs 8 us before (6 to call, 2 to arrive) and 12 behind it (4 to wait, 6 to launch, 2 to arrive). The
# 50 us of making are the copy's in the first step; in the others the wait at the end of the step before owns that idle
# time: (170 + 3 x 120) / 4.
@fires(cost_ms=0.1325, occurrences=4, severity="low")
def zeros_made_on_the_host_in_every_step() -> TraceBuilder:
    return steps()


@fires(occurrences=4)
def a_range_shows_no_length() -> TraceBuilder:
    return steps(maker="aten::arange", sent=[4096])


@quiet
def data_that_nobody_made_here() -> TraceBuilder:
    return steps(made=False)


@quiet
def the_tensor_made_is_another() -> TraceBuilder:
    return steps(sent=[128, 1024])


@quiet
def something_was_done_to_it_first() -> TraceBuilder:
    return steps(between="aten::cumsum")


@quiet
def pinned_on_purpose() -> TraceBuilder:
    return steps(pinned=True)


@quiet
def made_on_the_device() -> TraceBuilder:
    b = TraceBuilder()
    for _ in range(4):
        with b.step():
            with b.op("aten::zeros", shapes=[[], []]), b.op("aten::fill_", shapes=[SHAPE, []]):
                b.kernel("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)", us=3)
            b.kernel(GEMM, us=4000)
    return b


@edge
def once_a_step(over: bool) -> TraceBuilder:
    return steps(every=1 if over else 2, copy_us=2000)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::to", shapes=[SHAPE])


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(shapes=False)


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone(GEMM)

"""Proof of memory/unmeasured-checkpointing: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

GEMM = "volta_sgemm_128x64_nn"
GELU = "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>(int)"
X = [8192, 1024]
GB = 10**9


def forward(b: TraceBuilder, seq: int | None) -> None:
    """A block: 800 us of product, 200 of GELU."""
    first, second, third = (None, None, None) if seq is None else (seq, seq + 1, seq + 2)
    with (
        b.op("aten::linear", shapes=[X, [4096, 1024], [4096]], seq=first),
        b.op("aten::addmm", shapes=[[4096], X, [1024, 4096]], seq=second),
    ):
        b.kernel(GEMM, us=800)
    with b.op("aten::gelu", shapes=[[8192, 4096], []], seq=third):
        b.kernel(GELU, us=200)


def backward(b: TraceBuilder, seq: int) -> None:
    with b.backward("GeluBackward0", seq + 2):
        b.kernel(GELU, us=200)
    with b.backward("AddmmBackward0", seq + 1):
        b.kernel(GEMM, us=1600)


def recorder(peak: int = 4 * GB, *, memory: bool = False) -> TraceBuilder:
    b = TraceBuilder(memory_bytes=16 * GB, profile_memory=memory)
    b.pool(peak - GB, 15 * GB)
    return b


def activations(b: TraceBuilder) -> None:
    """A GB more than the pool, and back."""
    b.release(b.memory(GB))


def reentrant(peak: int = 4 * GB, *, memory: bool = False, other_us: float = 0) -> TraceBuilder:
    """As CheckpointFunction runs it: the first forward records no graph, the second does, inside its backward."""
    b = recorder(peak, memory=memory)
    for step in range(3):
        seq = 100 * (step + 1)
        with b.step():
            with b.op("CheckpointFunction", seq=seq):
                forward(b, None)
            activations(b)
            with b.backward("CheckpointFunctionBackward", seq):
                forward(b, seq + 1)
                backward(b, seq + 1)
            if other_us:
                with b.op("aten::mm"):
                    b.kernel(GEMM, us=other_us)
    return b


def on_demand(*, first: str = "aten::linear") -> TraceBuilder:
    """As use_reentrant=False runs it: inside the node that first asks for a tensor that was not kept."""
    b = recorder()
    for step in range(3):
        seq = 100 * (step + 1)
        with b.step():
            forward(b, seq)
            activations(b)
            with b.backward("GeluBackward0", seq + 2):
                if first == "aten::linear":
                    forward(b, seq + 50)
                else:
                    with b.op(first, seq=seq + 50):
                        b.kernel(GEMM, us=1000)
                with b.op("aten::gelu_backward"):
                    b.kernel(GELU, us=200)
            with b.backward("AddmmBackward0", seq + 1):
                b.kernel(GEMM, us=1600)
    return b


# The block's 800 + 200 us are done again in every step of 3.8 ms.
@fires(cost_ms=1.0, occurrences=3, severity="medium")
def the_reentrant_form() -> TraceBuilder:
    return reentrant()


@fires(cost_ms=1.0, occurrences=3, severity="medium", op="aten::linear")
def the_other_form() -> TraceBuilder:
    return on_demand()


@quiet
def no_checkpointing() -> TraceBuilder:
    b = recorder()
    for step in range(3):
        with b.step():
            forward(b, 100 * step)
            activations(b)
            backward(b, 100 * step)
    return b


@quiet
def a_backward_pass_that_is_itself_differentiated() -> TraceBuilder:
    """create_graph=True: operators inside the backward pass make nodes too, but none that only a forward pass calls."""
    return on_demand(first="aten::mm")


# Of the 1,000 us that run again, half a saving in a step of 3.8 ms and the rest.
@edge
def a_twentieth_of_the_step(over: bool) -> TraceBuilder:
    return reentrant(other_us=15_500 if over else 16_900)


@quiet("not_applicable")
def memory_that_was_recorded() -> TraceBuilder:
    return reentrant(memory=True)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone(backward="CheckpointFunctionBackward")


@lacks("host", verdict="not_applicable")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone(GEMM)

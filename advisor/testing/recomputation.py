"""Steps whose backward pass runs a block's forward pass again, as activation checkpointing does."""

from __future__ import annotations

from advisor.testing.builder import TraceBuilder

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
    """The backward pass of such a block."""
    with b.backward("GeluBackward0", seq + 2):
        b.kernel(GELU, us=200)
    with b.backward("AddmmBackward0", seq + 1):
        b.kernel(GEMM, us=1600)


def recorder(peak: int = 4 * GB, *, memory: bool = True) -> TraceBuilder:
    """A builder of a device of 16 GB, of which *peak* is held at most."""
    b = TraceBuilder(memory_bytes=16 * GB, profile_memory=memory)
    b.pool(peak - GB, 15 * GB)
    return b


def activations(b: TraceBuilder) -> None:
    """A GB more than the pool, and back."""
    b.release(b.memory(GB))


def reentrant(peak: int = 4 * GB, *, memory: bool = True, other_us: float = 0) -> TraceBuilder:
    """As CheckpointFunction runs it: the first forward records no graph, the second does, inside its backward.

    1,000 us of kernels run again in each of three steps of 3.8 ms and what *other_us* adds.
    """
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


def on_demand(*, first: str = "aten::linear", memory: bool = True) -> TraceBuilder:
    """As use_reentrant=False runs it: inside the node that first asks for a tensor that was not kept."""
    b = recorder(memory=memory)
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

"""Proof of cpu/unneeded-checkpointing: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

GB = 10**9
X = [512, 256]


def forward(b: TraceBuilder, seq: int | None, us: float) -> None:
    """A block of two operators."""
    first, second = (None, None) if seq is None else (seq, seq + 1)
    with b.op("aten::linear", shapes=[X, [256, 256], [256]], seq=first), b.op("aten::addmm", us=us * 3 / 4):
        pass
    with b.op("aten::gelu", shapes=[X, []], seq=second, us=us / 4):
        pass


def program(us: float = 1000, *, reentrant: bool = True, again: bool = True, rest_us: float = 2000) -> TraceBuilder:
    """Four steps: a forward pass, that pass again inside of a node of the backward pass, and *rest_us* of derivatives."""
    b = TraceBuilder(None, host_us=0)
    node = "CheckpointFunctionBackward" if reentrant else "GeluBackward0"
    for step in range(4):
        seq = 100 * (step + 1)
        with b.step():
            with b.op("aten::mkldnn_convolution", us=1000, shapes=[X, X]):
                pass
            forward(b, None if reentrant else seq, 1000)
            with b.backward(node, seq):
                if again:
                    forward(b, seq + 10, us)
                with b.op("aten::mm", us=rest_us):
                    pass
    return b


def on(b: TraceBuilder, share: float = 0.1) -> TraceBuilder:
    return b.ran_with(memory_bytes=100 * GB, peak_resident_bytes=int(share * 100 * GB))


@fires(cost_ms=1.0, cost_share=0.2, occurrences=4, severity="high")  # 1 of 5 ms
def the_reentrant_form() -> TraceBuilder:
    return on(program())


@fires(cost_ms=1.0, occurrences=4, severity="high")
def inside_the_node_that_asks_first() -> TraceBuilder:
    return on(program(reentrant=False))


@quiet
def memory_that_is_needed() -> TraceBuilder:
    return on(program(), 0.6)


@quiet
def derivatives_alone() -> TraceBuilder:
    return on(program(again=False))


@quiet("not_applicable")
def inference() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(4):
        with b.step():
            forward(b, None, 1000)
    return on(b)


# Of 4.2 ms without the second forward pass: 5 % of the step are 221.05 us.
@edge
def a_twentieth_of_the_step(over: bool) -> TraceBuilder:
    return on(program(212 if over else 209))


@quiet("not_applicable")
def without_what_the_recorder_saw() -> TraceBuilder:
    return program()


@lacks("host", verdict="not_applicable")
def kernels_of_a_gpu() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")

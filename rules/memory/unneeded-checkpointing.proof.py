"""Proof of memory/unneeded-checkpointing: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.recomputation import GEMM, activations, backward, forward, on_demand, recorder, reentrant


# The block's 800 + 200 us are done again in every step of 3.8 ms.
@fires(cost_ms=1.0, occurrences=3, severity="high")
def the_reentrant_form() -> TraceBuilder:
    return reentrant()


@fires(cost_ms=1.0, occurrences=3, severity="high", op="aten::linear")
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


@edge
def sixty_percent_of_the_memory(over: bool) -> TraceBuilder:
    return reentrant(9_500_000_000 if over else 9_700_000_000)  # of 16 GB


@lacks("memory")
def no_memory_recorded() -> TraceBuilder:
    return reentrant(memory=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone(backward="CheckpointFunctionBackward")


@lacks("host", verdict="not_applicable")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone(GEMM)

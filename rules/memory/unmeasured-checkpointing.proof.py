"""Proof of memory/unmeasured-checkpointing: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.recomputation import GEMM, activations, backward, forward, on_demand, recorder, reentrant


# The block's 800 + 200 us are done again in every step of 3.8 ms.
@fires(cost_ms=1.0, occurrences=3, severity="medium")
def the_reentrant_form() -> TraceBuilder:
    return reentrant(memory=False)


@fires(cost_ms=1.0, occurrences=3, severity="medium", op="aten::linear")
def the_other_form() -> TraceBuilder:
    return on_demand(memory=False)


@quiet
def no_checkpointing() -> TraceBuilder:
    b = recorder(memory=False)
    for step in range(3):
        with b.step():
            forward(b, 100 * step)
            activations(b)
            backward(b, 100 * step)
    return b


@quiet
def a_backward_pass_that_is_itself_differentiated() -> TraceBuilder:
    """create_graph=True: operators inside the backward pass make nodes too, but none that only a forward pass calls."""
    return on_demand(first="aten::mm", memory=False)


# Of the 1,000 us that run again, half a saving in a step of 3.8 ms and the rest.
@edge
def a_twentieth_of_the_step(over: bool) -> TraceBuilder:
    return reentrant(memory=False, other_us=15_500 if over else 16_900)


@quiet("not_applicable")
def memory_that_was_recorded() -> TraceBuilder:
    return reentrant(memory=True)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone(backward="CheckpointFunctionBackward")


@lacks("host", verdict="not_applicable")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone(GEMM)

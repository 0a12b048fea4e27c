"""Proof of inference/grad-enabled: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet


def forward(
    ops: int = 50, *, numbered: bool = True, backward: bool = False, optimizer: bool = False, gpu: bool = True
) -> TraceBuilder:
    """One forward pass, its operators with or without autograd's sequence numbers."""
    b = TraceBuilder() if gpu else TraceBuilder(None)
    for seq in range(ops):
        with b.op("aten::addmm", seq=seq if numbered else None):
            if gpu:
                b.kernel("volta_sgemm_128x64_nn", us=100)
            else:
                b.idle(us=100)
    if backward:
        with b.backward("AddmmBackward0", seq=0):
            b.kernel("volta_sgemm_128x64_nn", us=100)
    if optimizer:
        with b.annotation("Optimizer.step#SGD.step"):
            b.kernel("multi_tensor_apply_kernel", us=100)
    return b


@fires(occurrences=60, severity="note")
def a_forward_pass_with_gradients() -> TraceBuilder:
    return forward(60)


@quiet
def the_same_under_inference_mode() -> TraceBuilder:
    return forward(60, numbered=False)


@quiet("not_applicable")
def training() -> TraceBuilder:
    return forward(60, backward=True)


@quiet("not_applicable")
def an_optimizer_steps() -> TraceBuilder:
    return forward(60, optimizer=True)


# A slice of a training run of several ranks: the backward pass lies outside the recording.
@quiet("not_applicable")
def one_of_several_ranks() -> TraceBuilder:
    b = TraceBuilder(rank=1, world_size=8)
    for seq in range(60):
        with b.op("aten::linear", seq=seq):
            b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


@edge
def fifty_operators(over: bool) -> TraceBuilder:
    return forward(50 if over else 49)


# The proof is the operators'. How long they last beside a GPU that was not recorded says nothing of the time.
@fires(cost_ms=0, occurrences=60, severity="note")
def a_gpu_that_was_not_recorded() -> TraceBuilder:
    b = TraceBuilder()
    for seq in range(60):
        with b.op("aten::addmm", seq=seq):
            b.call("cudaLaunchKernel", 10)
    return b


# cpu/grad-enabled speaks of these.
@quiet("not_applicable")
def a_machine_without_a_gpu() -> TraceBuilder:
    return forward(60, gpu=False)


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")


# generate() runs under no_grad; the inputs are made before it.
@quiet
def inputs_that_are_prepared_outside_of_no_grad() -> TraceBuilder:
    b = TraceBuilder()
    for seq in range(60):
        with b.op("aten::slice", seq=seq):
            pass
    for _ in range(60):
        with b.op("aten::addmm"):
            b.kernel("volta_sgemm_128x64_nn", us=100)
    return b

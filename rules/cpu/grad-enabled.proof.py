"""Proof of cpu/grad-enabled: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, quiet


def forward(
    ops: int = 60,
    *,
    us: float = 20,
    numbered: bool = True,
    backward: bool = False,
    optimizer: bool = False,
    steps: int = 3,
    rest_us: float = 0,
    device: str | None = None,
) -> TraceBuilder:
    """Steps of a forward pass, its operators with or without autograd's sequence numbers."""
    b = TraceBuilder(device, host_us=0)
    for _ in range(steps):
        with b.step():
            for seq in range(ops):
                with b.op("aten::addmm", seq=seq if numbered else None, us=us):
                    if device:
                        b.kernel("volta_sgemm_128x64_nn", us=100)
            if rest_us:
                with b.op("aten::mkldnn_convolution", us=rest_us):
                    pass
            if backward:
                with b.backward("AddmmBackward0", seq=0), b.op("aten::mm", us=20):
                    pass
            if optimizer:
                with b.annotation("Optimizer.step#SGD.step"), b.op("aten::add_", us=20):
                    pass
    return b


# 60 operators of 20 us: 1.2 ms, all of the step. Small ones return 2.4 times 9 to 20 %.
@fires(cost_ms=1.2, cost_share=1.0, occurrences=180, severity="high")
def a_forward_pass_with_gradients() -> TraceBuilder:
    return forward()


# Large operators return 8.7 % in the middle: of 40 in 100 ms, 3.5 %.
@fires(cost_ms=40.0, cost_share=0.4, severity="medium")
def large_operators() -> TraceBuilder:
    return forward(80, us=500, rest_us=60_000)


@quiet
def the_same_under_inference_mode() -> TraceBuilder:
    return forward(numbered=False)


@quiet("not_applicable")
def training() -> TraceBuilder:
    return forward(backward=True)


@quiet("not_applicable")
def an_optimizer_steps() -> TraceBuilder:
    return forward(optimizer=True)


# What the window caught may be the forward part of a training step.
@quiet("not_applicable")
def a_single_step() -> TraceBuilder:
    return forward(steps=1)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return forward(device="Tesla V100-SXM2-16GB")


# Inputs are prepared before no_grad: 60 small operators beside what counts.
@quiet
def little_beside_the_step() -> TraceBuilder:
    return forward(us=1, rest_us=100_000)


@edge
def fifty_operators(over: bool) -> TraceBuilder:
    return forward(25, steps=2) if over else forward(24, steps=2)


@edge
def thirty_microseconds_weigh_less(over: bool) -> TraceBuilder:
    """Of 5.9 ms 0.3 are operators under 30 us: at 14.5 % and 2.4 times that 1.8 %, at 0.6 times that 0.4 %."""
    return forward(10, us=29.9 if over else 30, rest_us=5_600, steps=6)

"""Proof of cpu/small-micro-batches: traces on which it fires, and traces on which it does not."""

from collections.abc import Sequence

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, quiet

STORE = "torch::autograd::AccumulateGrad"
ENGINE = "autograd::engine::evaluate_function: "


def training(
    passes: int = 4,
    *,
    stored: int | None = None,
    forward: Sequence[int] = (),
    rest_us: float = 0,
    numbers: int = 1,
    once: int = 0,
    device: str | None = None,
) -> TraceBuilder:
    """Three steps of *passes*: 100 operators of 10 us forward (or as *forward* says), 50 behind a node each in the backward pass.

    The backward pass stores 20 gradients in 10 us each, but in *stored* passes alone where that is given. *once* operators of
    10 us come before a step's first pass, as clipping and logging do; *rest_us* of real work in each.
    """
    b = TraceBuilder(device, host_us=0)
    for step in range(3):
        with b.step():
            for _ in range(once):
                with b.op("aten::mul", us=10):
                    pass
            for turn in range(passes):
                for number in range(forward[turn] if forward else 100):
                    with b.op(
                        "aten::mul", seq=1000 * (10 * step + turn) + number, us=10, shapes=[[numbers], [numbers]]
                    ):
                        pass
                if rest_us:
                    with b.op("aten::mkldnn_convolution", us=rest_us):
                        pass
                for number in reversed(range(50)):
                    node = 1000 * (10 * step + turn) + number
                    with b.backward("MulBackward0", node), b.op("aten::mul", us=10, shapes=[[numbers], [numbers]]):
                        pass
                for _ in range(20 if stored is None or turn < stored else 0):
                    with b.op(ENGINE + STORE, fwd_thread=1), b.op(STORE, fwd_thread=1, us=10):
                        pass
            with b.annotation("Optimizer.step#SGD.step"), b.op("aten::_foreach_add_", us=100):
                pass
    return b


# Four passes of 100 + 50 + 20 operators of 10 us, which hold a number each, and an optimizer of 0.1 ms.
@fires(cost_ms=6.8, cost_share=0.98551, occurrences=3 * 4 * (100 + 3 * 50 + 2 * 20), severity="high")
def four_passes_a_step() -> TraceBuilder:
    return training()


# Two operands and a result of 4,000 numbers are 48 kB: 4.8 of each 10 us stay, and 0.52 of them are counted.
@fires(cost_ms=6.8, severity="high")
def half_of_a_call_is_work() -> TraceBuilder:
    return training(numbers=4000)


# What a step does once besides makes its first pass no other than the rest.
@fires(cost_ms=8.3, severity="high")
def clipping_between_two_steps() -> TraceBuilder:
    return training(once=150)


@edge
def micro_batches(over: bool) -> TraceBuilder:
    return training(4 if over else 3)


# 6.8 ms of calls; they go to three quarters at most, to three eighths at least: of 38.3 ms the middle is 10 %.
@edge
def a_tenth_of_the_step(over: bool) -> TraceBuilder:
    return training(rest_us=7700 if over else 8000)


# Of 6.8 ms all but the gradients' 0.8 ms is more than half work: 5,000 numbers take 6 us.
@quiet
def operators_that_compute() -> TraceBuilder:
    return training(numbers=5000)


# Gradients of gradients: passes that store none are no parts of a batch.
@quiet
def inner_passes_of_a_learner() -> TraceBuilder:
    return training(5, stored=1)


# A loss of its own for each head: behind one forward pass come several backward ones.
@quiet
def losses_of_several_heads() -> TraceBuilder:
    return training(4, forward=(100, 10, 10, 10))


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    b = training(device="Tesla V100-SXM2-16GB")
    with b.step():
        b.kernel("volta_sgemm_128x64_nn", us=100)
    return b

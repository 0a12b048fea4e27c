"""Proof of cpu/statistics-every-step: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, quiet


def training(
    name: str = "aten::quantile",
    us: float = 2000,
    *,
    before_backward: bool = False,
    differentiated: bool = False,
    every: int = 1,
    inference: bool = False,
    device: str | None = None,
) -> TraceBuilder:
    """Three steps of a product, 2000 us forward and 6000 us backward, and of an operator of statistics."""
    b = TraceBuilder(device, host_us=0)

    def watch(step: int) -> None:
        if step % every == 0:
            with b.op(name, seq=2 * step if differentiated else None), b.op("aten::sort", us=us):
                pass

    for step in range(3):
        with b.step():
            if before_backward:
                watch(step)
            with b.op("aten::mkldnn_linear", seq=2 * step + 1, us=2000):
                if device:
                    b.kernel("volta_sgemm_128x64_nn", us=100)
            if not inference:
                with b.thread(4001), b.backward("AddmmBackward0", seq=2 * step + 1, us=6000):
                    pass
            if not before_backward:
                watch(step)
            if differentiated:
                with b.thread(4001), b.backward("QuantileBackward0", seq=2 * step, us=10):
                    pass
    return b


# A sort of 2 of the 10 ms of a step, inside the quantile that asked for it: 1.8 to 1.96 ms return.
@fires(cost_ms=2.0, cost_share=0.2, occurrences=6, severity="high")
def quantiles_of_parameters_in_each_step() -> TraceBuilder:
    return training()


@fires(cost_ms=2.0, severity="high")
def histograms_of_gradients() -> TraceBuilder:
    return training("aten::histc")


def of_each_sample(*, behind_the_optimizer: bool) -> TraceBuilder:
    """Three steps of a product and its backward pass, the optimizer's step, and 2 ms of squares, summed for each sample."""
    b = TraceBuilder(None, host_us=0)

    def norms() -> None:
        at = {"Call stack": "private.py(11): step"}
        with b.op("aten::square", us=1500, shapes=[[64, 128]], values=[""], args=at):
            pass
        with b.op("aten::sum", us=500, shapes=[[64, 128], [], [], []], values=["", "[1]", "False", ""], args=at):
            pass

    for step in range(3):
        with b.step():
            with b.op("aten::mkldnn_linear", seq=step + 1, us=2000):
                pass
            with b.thread(4001), b.backward("AddmmBackward0", seq=step + 1, us=6000):
                pass
            if not behind_the_optimizer:
                norms()
            with b.annotation("Optimizer.step#SGD.step"), b.op("aten::add_", us=100):
                pass
            if behind_the_optimizer:
                norms()
    return b


# They scale the gradients that the optimizer takes: private training clips those of each sample.
@quiet
def norms_of_each_sample_before_the_optimizer() -> TraceBuilder:
    return of_each_sample(behind_the_optimizer=False)


@fires(cost_ms=2.0)
def norms_of_each_sample_behind_the_optimizer() -> TraceBuilder:
    return of_each_sample(behind_the_optimizer=True)


# It may be what the loss is made of, under no_grad: a threshold, a normalization.
@quiet
def before_the_backward_pass() -> TraceBuilder:
    return training(before_backward=True)


@quiet
def part_of_a_second_loss() -> TraceBuilder:
    return training(differentiated=True)


@quiet
def a_norm_that_clips() -> TraceBuilder:
    return training("aten::linalg_vector_norm")


# Elements of a tensor that a loop reads one by one: cpu/element-loop.
@quiet
def numbers_that_are_read() -> TraceBuilder:
    return training("aten::item")


@quiet
def an_average_of_parameters() -> TraceBuilder:
    return training("aten::lerp_")


@quiet
def in_one_step_of_three() -> TraceBuilder:
    return training(every=3)


@quiet("not_applicable")
def inference() -> TraceBuilder:
    return training(inference=True)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return training(device="NVIDIA A100-SXM4-80GB")


# us of 8000 + us, at 0.94 of it: 4.7 % from us = 421 on.
@edge
def a_twentieth_of_the_step(over: bool) -> TraceBuilder:
    return training(us=430 if over else 410)

"""Proof of cpu/averaged-parameters: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

WEIGHT, BIAS, OTHER = [256, 256], [256], [77, 3]


def message(b: TraceBuilder, shape: list[int], us: float) -> None:
    """Add a call that returns, and its message on gloo's thread."""
    with b.op("c10d::allreduce_", us=10, shapes=[[shape], [], []]):
        pass
    with b.thread(77), b.annotation("gloo:all_reduce", us=us):
        pass


def training(
    layers: int = 6,
    *,
    us: float = 200,
    first_us: float = 0,
    gradients: bool = True,
    shapes: tuple[list[int], list[int]] = (WEIGHT, BIAS),
    before_step: bool = False,
    recorded: bool = True,
    alone: int = 0,
    passes: int = 1,
) -> TraceBuilder:
    """Steps of 10 ms; a bucket of gradients is reduced in the backward pass, and *layers* pairs of tensors behind the step.

    The gradients of *alone* pairs are not in that bucket. Of several *passes* the last one's are reduced.
    """
    b = TraceBuilder(None, host_us=0, world_size=2, rank=0, backend="gloo", record_shapes=recorded)
    for step in range(4):
        with b.step():
            for each in range(passes):
                number = step * passes + each + 1
                with (
                    b.annotation("DistributedDataParallel.forward"),
                    b.op("aten::mkldnn_linear", seq=number, us=4000 // passes),
                ):
                    pass
                with b.backward("AddmmBackward0", number):
                    with b.op("aten::mm", us=5900 // passes):
                        pass
                    for shape in (WEIGHT, BIAS) * (layers + alone if passes > 1 or alone else 1):
                        with b.op("torch::autograd::AccumulateGrad", us=10, shapes=[shape]):
                            pass
                    if gradients and each == passes - 1:
                        message(b, [layers * (256 * 256 + 256)], 500)
            if not before_step:
                with b.annotation("Optimizer.step#SGD.step"), b.op("aten::add_", us=80):
                    pass
            for layer in range(layers):
                for at, shape in enumerate(shapes):
                    message(b, shape, first_us if first_us and not layer and not at else us)
            if before_step:
                with b.annotation("Optimizer.step#SGD.step"), b.op("aten::add_", us=80):
                    pass
    return b


# 12 messages of 0.2 ms behind calls of 10 us, a bucket of 0.5 ms, and 10 ms.
@fires(cost_ms=2.4, cost_share=2.4 / 13.03, occurrences=48, severity="high")
def a_loop_behind_the_step() -> TraceBuilder:
    return training()


# The first waits 5 ms for a late rank, of which a message of its size takes 0.2: 2.4 of 7.2 ms are counted.
@fires(cost_ms=7.2, occurrences=48, severity="high")
def a_late_rank() -> TraceBuilder:
    return training(first_us=5_000)


@fires(occurrences=48, severity="high")
def gradients_of_four_passes_are_added_up() -> TraceBuilder:
    return training(passes=4)


@quiet
def a_part_that_ranks_train_by_themselves() -> TraceBuilder:
    """Its gradients are reduced nowhere, and averaging is what keeps its ranks together."""
    return training(alone=6)


@quiet
def no_gradients_are_reduced() -> TraceBuilder:
    """Averaging is what keeps the ranks together."""
    return training(gradients=False)


@quiet
def gradients_that_are_reduced_before_the_step() -> TraceBuilder:
    return training(before_step=True)


@quiet
def tensors_of_other_shapes() -> TraceBuilder:
    return training(shapes=(OTHER, BIAS))


@quiet
def statistics_of_norms() -> TraceBuilder:
    return training(shapes=(BIAS, BIAS))


@quiet
def a_few_tensors() -> TraceBuilder:
    return training(4)


# 12 messages of 17 or 19 us, of which nine tenths are the middle, in a step of 10.63 ms and these: 1.69 and 1.88 %.
@edge
def two_hundredths_of_the_step(over: bool) -> TraceBuilder:
    return training(us=19 if over else 17)


@lacks("shapes")
def no_shapes() -> TraceBuilder:
    return training(recorded=False)


@lacks("host", verdict="not_applicable")
def kernels_of_a_gpu() -> TraceBuilder:
    return kernels_alone("ampere_sgemm_128x64_tn")

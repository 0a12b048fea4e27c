"""Proof of gradient/repeated-backward: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

STORE = "torch::autograd::AccumulateGrad"
WEIGHT, HEAD = [64, 64], [64, 1]
TRUNK = (2, 1)
"""Numbers of the nodes that all losses share; each loss has one more, of its head."""


def work(b: TraceBuilder, us: float, device: str | None) -> None:
    if device:
        b.kernel("ampere_sgemm_128x64_nn", us=us)
    else:
        with b.op("aten::bmm", us=us):
            pass


def stored(b: TraceBuilder, shape: list[int], *, added: bool) -> None:
    with b.op(f"autograd::engine::evaluate_function: {STORE}", us=2), b.op(STORE, shapes=[shape], us=2):
        if added:
            with b.op("aten::add_", shapes=[shape, shape, []], us=1):
                pass


def losses(
    us: float = 1000,
    count: int = 2,
    *,
    between: tuple[str, ...] = (),
    added: bool = True,
    stepped: bool = False,
    new_graph: bool = False,
    through: bool = False,
    shapes: bool = True,
    device: str | None = None,
    rest_us: float = 6000,
) -> TraceBuilder:
    """Steps of 6 ms of forward work, and passes of *count* losses, of which each runs two nodes of *us* that all share.

    *between* two passes operators run on tensors of the gradients' shape, or (*stepped*) a step of the optimizer; with *new_graph*
    each loss has a forward pass of its own; with *through* the second pass runs what the first has made.
    """
    b = TraceBuilder(device, host_us=2 if device else 0, record_shapes=shapes)
    for step in range(4):
        with b.step():
            base = 100 * step
            for node in TRUNK:
                with b.op("aten::mm", shapes=[WEIGHT, WEIGHT], seq=base + node, us=rest_us / 2):
                    work(b, rest_us / 2, device)
            for loss in range(count):
                graph = base + (10 * loss if new_graph else 0)
                head = base + 50 + loss
                if new_graph:
                    for node in TRUNK:
                        with b.op("aten::mm", shapes=[WEIGHT, WEIGHT], seq=graph + node):
                            pass
                with b.python("train.py(31): heads"), b.op("aten::mm", shapes=[WEIGHT, HEAD], seq=head, us=1):
                    pass
                for name in between if loss else ():
                    with b.op(name, shapes=[WEIGHT], us=1):
                        pass
                if stepped and loss:
                    with b.annotation("Optimizer.step#SGD.step", us=1):
                        pass
                with b.python("train.py(40): step"):
                    with b.op("aten::ones_like", shapes=[[]], us=1):
                        pass
                    if through and loss:
                        with b.backward("MmBackwardBackward0", base + 90, us=1):
                            pass
                    with b.backward("MmBackward0", head, us=1):
                        pass
                    for node in TRUNK:
                        with b.backward("MmBackward0", graph + node), b.op("aten::mm", shapes=[WEIGHT, WEIGHT]):
                            work(b, us, device)
                            if through and not loss and node == 2:
                                with b.op("aten::mm", shapes=[WEIGHT, WEIGHT], seq=base + 90, us=1):
                                    pass
                        stored(b, WEIGHT, added=added and loss > 0)
            with b.annotation("Optimizer.step#SGD.step"), b.op("aten::_foreach_add_", shapes=[[WEIGHT], [WEIGHT]]):
                pass
            if device:
                b.sync()
    return b


# Two nodes of 1 ms run again in each of four steps of 10 ms, and each stores a gradient for 2 us.
@fires(cost_ms=2.004, occurrences=4, severity="high", line="train.py:40")
def two_losses_through_one_trunk() -> TraceBuilder:
    return losses()


@fires(cost_ms=6.012, occurrences=12, severity="high")
def four_losses() -> TraceBuilder:
    return losses(count=4)


@fires(cost_ms=2.004, occurrences=4)
def weights_of_losses_are_multiplied_between() -> TraceBuilder:
    return losses(between=("aten::view",))


@fires(cost_ms=2.0, occurrences=4)
def on_a_gpu() -> TraceBuilder:
    return losses(device="NVIDIA A100-SXM4-80GB")


@quiet
def one_loss() -> TraceBuilder:
    return losses(count=1)


@quiet
def a_graph_for_each_micro_batch() -> TraceBuilder:
    return losses(new_graph=True)


# Gradients of tasks that are kept apart: copied, or dropped before the next.
@quiet
def gradients_are_copied_between() -> TraceBuilder:
    return losses(between=("aten::clone",))


@quiet
def gradients_are_zeroed_between() -> TraceBuilder:
    return losses(between=("aten::zero_",))


@quiet
def gradients_are_dropped_between() -> TraceBuilder:
    return losses(added=False)


@quiet
def an_optimizer_steps_between() -> TraceBuilder:
    return losses(stepped=True)


# A penalty on gradients runs back through what made them, and through the graph below once more.
@quiet
def the_second_pass_is_through_the_first() -> TraceBuilder:
    return losses(through=True)


@edge
def three_percent_of_the_step(over: bool) -> TraceBuilder:
    """90 % of two nodes of 166 or 163 us and 4 us more, of 10.0 ms: 3.02 or 2.97 %."""
    us = 166 if over else 163
    return losses(us, rest_us=10_000 - 4 * us - 14)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return losses(shapes=False)


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("ampere_sgemm_128x64_nn")

"""Proof of cpu/separate-layers: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

BATCH = 16
ENGINE = "autograd::engine::evaluate_function: "
Op = tuple[str, list[object]]
"""An operator and its operands' shapes."""


def linear(takes: int, gives: int) -> Op:
    return "aten::linear", [[BATCH, takes], [gives, takes], [gives]]


def steps(
    *turn: Op,
    count: int = 12,
    picked: int = 0,
    us: float = 20,
    own: bool = True,
    shapes: bool = True,
    training: bool = True,
    device: str | None = None,
) -> TraceBuilder:
    """Steps of a loop over layers, and 5 ms of other work.

    A turn picks *picked* columns of its own in 2 us, if it does; each of its operators takes *us*, and as long backward. The
    gradients of a layer's weight and bias are stored in 5 us each, one for each turn if each has its *own* weights, and their
    updates take 5 us each.
    """
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    stored = [tensor for name, operands in turn if name in ("aten::linear", "aten::conv1d") for tensor in operands[1:3]]
    stored *= count if own else 1
    for step in range(3):
        with b.step():
            with b.python("train.py(30): forward"):
                for number in range(count):
                    if picked:
                        values = ["", "1", str(number)]
                        with b.op("aten::select", shapes=[[BATCH, count, picked], [], []], values=values, us=2):
                            pass
                    for place, (name, operands) in enumerate(turn):
                        seq = 1000 * step + 10 * number + place if training else None
                        layer = name == "aten::linear"
                        with b.op(name, shapes=operands, seq=seq, us=0 if layer else us):
                            if layer:
                                with b.op("aten::addmm", shapes=operands, us=us):
                                    pass
                            if device:
                                b.kernel("sgemm", us=5)
                with b.op("aten::stack", shapes=[[], []], us=20):
                    pass
            with b.op("aten::mkldnn_convolution", us=5_000):
                pass
            for number in reversed(range(count)) if training else ():
                for place in reversed(range(len(turn))):
                    with b.backward("AddmmBackward0", 1000 * step + 10 * number + place), b.op("aten::mm", us=us):
                        pass
            for tensor in stored if training else ():
                with (
                    b.op(ENGINE + "torch::autograd::AccumulateGrad", fwd_thread=1),
                    b.op("torch::autograd::AccumulateGrad", fwd_thread=1, shapes=[tensor], us=5),
                ):
                    pass
            with b.annotation("Optimizer.step#SGD.step"):
                for tensor in stored if training else ():
                    with b.op("aten::add_", shapes=[tensor, tensor, []], us=5):
                        pass
    return b


HEAD, SQUARE, RELU = linear(32, 8), linear(32, 32), ("aten::relu", [[BATCH, 32]])


# 12 turns of 20 us, as many backward; 20 us to join; 24 gradients of 5 us to store, and 24 updates of 5 us.
@fires(cost_ms=0.74, occurrences=3, severity="medium", op="aten::linear", line="train.py:30")
def heads_on_one_input() -> TraceBuilder:
    return steps(HEAD)


# Two microseconds more in each turn.
@fires(cost_ms=0.764)
def a_layer_for_each_channel() -> TraceBuilder:
    return steps(SQUARE, picked=32)


@fires(cost_ms=1.04)
def channels_behind_an_activation() -> TraceBuilder:
    return steps(SQUARE, RELU, count=10, picked=32)


# 12 times two layers and an activation.
@fires(cost_ms=1.94)
def members_of_an_ensemble() -> TraceBuilder:
    return steps(SQUARE, RELU, linear(32, 4))


@fires(cost_ms=1.94)
def experts_as_wide_as_their_input() -> TraceBuilder:
    return steps(linear(32, 64), ("aten::gelu", [[BATCH, 64]]), linear(64, 32))


@fires(cost_ms=1.22)
def heads_with_a_loss_each() -> TraceBuilder:
    return steps(HEAD, ("aten::cross_entropy_loss", [[BATCH, 8], [BATCH], [], [], []]))


@fires(cost_ms=0.74)
def convolutions() -> TraceBuilder:
    return steps(("aten::conv1d", [[BATCH, 1, 64], [8, 1, 5], [8], [], [], [], []]))


# A plain stack of layers.
@quiet
def layers_that_follow_each_other() -> TraceBuilder:
    return steps(SQUARE, RELU)


@quiet
def residual_blocks() -> TraceBuilder:
    add: Op = ("aten::add", [[BATCH, 32], [BATCH, 32], []])
    return steps(linear(32, 64), ("aten::relu", [[BATCH, 64]]), linear(64, 32), add)


@quiet
def gated_layers() -> TraceBuilder:
    return steps(linear(32, 64), ("aten::glu", [[BATCH, 64], []]))


# x = x0 * layer(x) + x
@quiet
def layers_whose_number_scales_their_input() -> TraceBuilder:
    return steps(linear(32, 1), ("aten::mul", [[BATCH, 32], [BATCH, 1]]), ("aten::add", [[BATCH, 32], [BATCH, 32], []]))


# h = layer(cat([h, x]))
@quiet
def layers_that_see_the_input_again() -> TraceBuilder:
    return steps(("aten::cat", [[BATCH, 32], [BATCH, 8], []]), linear(40, 32), RELU)


# x = relu(layer(x) + condition[:, i])
@quiet
def layers_with_a_condition_each() -> TraceBuilder:
    return steps(("aten::add", [[BATCH, 32], [BATCH, 32], []]), RELU, SQUARE, picked=32)


@quiet
def one_layer_for_all() -> TraceBuilder:
    return steps(HEAD, own=False)


@quiet
def inference() -> TraceBuilder:
    return steps(HEAD, training=False)


# Sixteen million multiply-adds each.
@quiet
def large_layers() -> TraceBuilder:
    return steps(("aten::linear", [[256, 256], [128, 256], [128]]), count=8, us=30)


@edge
def eight_layers(over: bool) -> TraceBuilder:
    return steps(HEAD, count=8 if over else 7)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return steps(HEAD, device="Tesla V100-SXM2-16GB")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(HEAD, shapes=False)

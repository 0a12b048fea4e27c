"""Proof of cpu/growing-prefix: traces on which it fires, and traces on which it does not."""

from collections.abc import Callable

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

BATCH, LENGTH, WIDTH, CLASSES = 4, 20, 32, 50
Op = tuple[str, list[object], list[str]]
"""An operator, its operands' shapes and its values."""
Turn = Callable[[int], list[Op]]
"""A turn of the loop, by the length of its prefix."""


def slice_of(t: int) -> Op:
    return "aten::slice", [[BATCH, LENGTH], [], [], [], []], ["", "1", "0", str(t), "1"]


def embedding(t: int) -> Op:
    return "aten::embedding", [[CLASSES, WIDTH], [BATCH, t]], []


def linear(t: int) -> Op:
    return "aten::linear", [[BATCH, t, WIDTH], [WIDTH, WIDTH], []], []


def fused(t: int, *, causal: bool = True) -> Op:
    heads = [BATCH, 2, t, 16]
    return (
        "aten::scaled_dot_product_attention",
        [heads, heads, heads, [], [], []],
        ["", "", "", "", "0.", str(causal)],
    )


def last(t: int, width: int = WIDTH) -> Op:
    return "aten::select", [[BATCH, t, width], [], []], ["", "1", "-1"]


HEAD: Op = ("aten::linear", [[BATCH, WIDTH], [CLASSES, WIDTH], []], [])
LOSS: Op = ("aten::cross_entropy_loss", [[BATCH, CLASSES], [BATCH]], [])


def causal(t: int) -> list[Op]:
    return [slice_of(t), embedding(t), linear(t), fused(t), last(t), HEAD, LOSS]


def steps(
    turn: Turn,
    turns: int = 10,
    *,
    shapes: bool = True,
    training: bool = True,
    updated: str = "",
    device: str | None = None,
) -> TraceBuilder:
    """Three steps of turns and 5 ms of other work. What grows takes 10 us a position, other operators 10 us; as long backward.

    With *updated* that operator updates parameters at the end of each turn.
    """
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    lasting = [
        [10 * t if now != then else 10 for now, then in zip(turn(t), turn(t + 1), strict=True)]
        for t in range(1, turns + 1)
    ]
    for step in range(3):
        with b.step():
            with b.python("train.py(30): loss_of"):
                for number in range(turns):
                    for place, (name, operands, values) in enumerate(turn(number + 1)):
                        seq = 1000 * step + 20 * number + place if training else None
                        with b.op(name, shapes=operands, values=values or None, seq=seq):
                            with b.op("aten::addmm", us=lasting[number][place]):
                                pass
                            if device:
                                b.kernel("sgemm", us=5)
                    if updated:
                        with b.annotation("Optimizer.step#SGD.step"), b.op(updated, us=20):
                            pass
            with b.op("aten::mkldnn_convolution", us=5_000):
                pass
            for number in reversed(range(turns)) if training else ():
                for place in reversed(range(len(turn(1)))):
                    with (
                        b.backward("SomeBackward0", 1000 * step + 20 * number + place),
                        b.op("aten::mm", us=lasting[number][place]),
                    ):
                        pass
    return b


# Ten turns: five operators of 10 us a position (55 positions), two of 10 us; as long backward: 2 x (2,750 + 200) us a step.
@fires(cost_ms=5.9, occurrences=3, severity="high", op="aten::slice", line="train.py:30")
def a_decoder_with_a_causal_mask() -> TraceBuilder:
    return steps(causal)


@fires(cost_ms=2.95, occurrences=3)
def the_same_in_inference() -> TraceBuilder:
    return steps(causal, training=False)


def recurrent(t: int, *, two_ways: bool = False) -> list[Op]:
    values = ["", "", "", "True", "1", "0.", "True", str(two_ways), "True"]
    layer: Op = ("aten::lstm", [[BATCH, t, WIDTH], [1, BATCH, WIDTH], [4 * WIDTH, WIDTH]], values)
    return [slice_of(t), embedding(t), layer, last(t), HEAD, LOSS]


# Four operators of 10 us a position, two of 10 us.
@fires(cost_ms=4.8, occurrences=3)
def a_recurrent_layer() -> TraceBuilder:
    return steps(recurrent)


# The state behind the last position is taken: three operators grow, three do not.
@fires(cost_ms=3.9, occurrences=3)
def the_last_state_of_a_recurrent_layer() -> TraceBuilder:
    state: Op = ("aten::select", [[1, BATCH, WIDTH], [], []], ["", "0", "-1"])
    return steps(lambda t: [*recurrent(t)[:3], state, HEAD, LOSS])


def masked(t: int, *, mask: bool = True) -> list[Op]:
    scores, values = [BATCH, 2, t, t], [BATCH, 2, t, 16]
    fill: Op = ("aten::masked_fill", [scores, [1, 1, t, t] if mask else [BATCH, 1, 1, t], []], [])
    softmax: Op = ("aten::softmax", [scores, [], []], ["", "-1", ""])
    products: list[Op] = [
        ("aten::matmul", [values, [BATCH, 2, 16, t]], []),
        fill,
        softmax,
        ("aten::matmul", [scores, values], []),
    ]
    return [slice_of(t), embedding(t), linear(t), *products, last(t), HEAD, LOSS]


# Eight operators grow, two do not.
@fires(cost_ms=9.2, occurrences=3)
def a_mask_of_its_own() -> TraceBuilder:
    return steps(masked)


# Fed what it gave: the prefix is put together in the loop.
@quiet
def a_prefix_of_its_own_words() -> TraceBuilder:
    return steps(lambda t: [*causal(t), ("aten::cat", [[BATCH, t], [BATCH, 1], []], [])])


# Fed what it gave: each word is written behind the prefix, into the tensor that is sliced.
@quiet
def a_prefix_that_is_written_in_the_loop() -> TraceBuilder:
    write: Op = ("aten::copy_", [[BATCH], [BATCH], []], [])
    return steps(lambda t: [*causal(t), write])


# Walk-forward training: each prefix goes through a model that was fitted to the last one.
@quiet
def a_model_that_each_turn_trains() -> TraceBuilder:
    return steps(causal, updated="aten::_foreach_add_")


# Its parameters are written by hand.
@quiet
def parameters_that_each_turn_writes() -> TraceBuilder:
    write: Op = ("aten::sub_", [[WIDTH, WIDTH], [WIDTH, WIDTH], []], [])
    return steps(lambda t: [*causal(t), write])


# More sequences, not longer ones.
@quiet
def a_batch_that_grows() -> TraceBuilder:
    values = ["", "", "", "True", "1", "0.", "True", "False", "True"]
    state: Op = ("aten::select", [[1, BATCH, WIDTH], [], []], ["", "0", "-1"])

    def turn(t: int) -> list[Op]:
        part: Op = ("aten::slice", [[LENGTH, 8, WIDTH], [], [], [], []], ["", "0", "0", str(t), "1"])
        return [part, ("aten::lstm", [[t, 8, WIDTH], [1, BATCH, WIDTH], [4 * WIDTH, WIDTH]], values), state, HEAD]

    return steps(turn)


@quiet
def attention_without_a_mask() -> TraceBuilder:
    return steps(lambda t: [slice_of(t), embedding(t), linear(t), fused(t, causal=False), last(t), HEAD, LOSS])


# What is masked are places without a word, for all positions alike.
@quiet
def a_mask_of_padding_alone() -> TraceBuilder:
    return steps(lambda t: masked(t, mask=False))


@quiet
def a_recurrent_layer_of_two_directions() -> TraceBuilder:
    return steps(lambda t: recurrent(t, two_ways=True))


@quiet
def a_mean_over_the_prefix() -> TraceBuilder:
    def mean(t: int) -> Op:
        return ("aten::mean", [[BATCH, t, WIDTH], [], [], []], ["", "[1]", "False", ""])

    return steps(lambda t: [slice_of(t), embedding(t), linear(t), mean(t), HEAD, LOSS])


@quiet
def a_convolution_over_the_prefix() -> TraceBuilder:
    def mixed(t: int) -> Op:
        return "aten::conv1d", [[BATCH, WIDTH, t], [WIDTH, WIDTH, 3]], []

    return steps(lambda t: [slice_of(t), embedding(t), mixed(t), linear(t), last(t), HEAD, LOSS])


# All positions of each prefix go into the loss.
@quiet
def results_of_all_positions() -> TraceBuilder:
    return steps(lambda t: [op for op in causal(t) if op != last(t)])


# The whole sequence each time: cpu/repeated-module.
@quiet
def the_same_sequence_in_each_turn() -> TraceBuilder:
    return steps(lambda t: causal(LENGTH))


@edge
def eight_prefixes(over: bool) -> TraceBuilder:
    return steps(causal, turns=8 if over else 7)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return steps(causal, device="Tesla V100-SXM2-16GB")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(causal, shapes=False)

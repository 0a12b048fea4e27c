"""Proof of cpu/growing-history: traces on which it fires, and traces on which it does not."""

from collections.abc import Callable

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

BATCH, LENGTH, WIDTH, CLASSES = 4, 20, 32, 50
Op = tuple[str, list[object], list[str]]
"""An operator, its operands' shapes and its values."""
Turn = Callable[[int], list[Op]]
"""A turn of the loop, by the length of its history."""


def stack(t: int) -> Op:
    return "aten::stack", [[[BATCH, WIDTH]] * t, []], ["", "1"]


def layer(t: int, *, two_ways: bool = False) -> Op:
    values = ["", "", "", "True", "1", "0.", "False", str(two_ways), "True"]
    return "aten::gru", [[BATCH, t, WIDTH], [1, BATCH, WIDTH], [3 * WIDTH, WIDTH]], values


def last(t: int) -> Op:
    return "aten::select", [[BATCH, t, WIDTH], [], []], ["", "1", "-1"]


HEAD: Op = ("aten::linear", [[BATCH, WIDTH], [CLASSES, WIDTH], []], [])


def rollout(t: int) -> list[Op]:
    return [stack(t), layer(t), last(t), HEAD]


def steps(
    turn: Turn,
    turns: int = 10,
    *,
    shapes: bool = True,
    training: bool = False,
    updated: str = "",
    device: str | None = None,
) -> TraceBuilder:
    """Three steps of turns and 5 ms of training. What grows takes 10 us a position and 10 us beside, other operators 10 us.

    With *updated* that operator updates parameters at the end of each turn.
    """
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    lasting = [
        [10 * t + 10 if now != then else 10 for now, then in zip(turn(t), turn(t + 1), strict=True)]
        for t in range(1, turns + 1)
    ]
    for step in range(3):
        with b.step():
            with b.python("train.py(30): play"):
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
            outer = b.op("aten::linear", shapes=[[64, WIDTH], [WIDTH, WIDTH], []], seq=1000 * step + 900)
            with outer, b.op("aten::addmm", us=2_500):
                pass
            with b.backward("AddmmBackward0", 1000 * step + 900), b.op("aten::mm", us=2_500):
                pass
            for number in reversed(range(turns)) if training else ():
                for place in reversed(range(len(turn(1)))):
                    with (
                        b.backward("SomeBackward0", 1000 * step + 20 * number + place),
                        b.op("aten::mm", us=lasting[number][place]),
                    ):
                        pass
    return b


# Ten turns of three operators that grow: 3 x (550 + 100) us a step, of which 3 x 200 remain.
@fires(cost_ms=1.95, occurrences=3, severity="high", op="aten::stack", line="train.py:30")
def a_policy_on_all_that_it_saw() -> TraceBuilder:
    return steps(rollout)


# A gradient flows through all turns: as long backward.
@fires(cost_ms=3.9, occurrences=3)
def a_decoder_fed_its_own_outputs_in_training() -> TraceBuilder:
    return steps(rollout, training=True)


def buffered(t: int) -> list[Op]:
    write: Op = ("aten::copy_", [[BATCH, WIDTH], [BATCH, WIDTH], []], [])
    part: Op = ("aten::slice", [[BATCH, LENGTH, WIDTH], [], [], [], []], ["", "1", "0", str(t), "1"])
    return [write, part, layer(t), last(t), HEAD]


# Of nine turns, as the last one ends without a write, the layer and the pick: 2 x (450 + 90) us.
@fires(cost_ms=1.08, occurrences=3)
def a_buffer_that_the_loop_fills() -> TraceBuilder:
    return steps(buffered)


def words(t: int) -> list[Op]:
    embedding: Op = ("aten::embedding", [[CLASSES, WIDTH], [BATCH, t]], [])
    join: Op = ("aten::cat", [[[BATCH, t], [BATCH, 1]], []], ["", "1"])
    return [layer(t), last(t), HEAD, join, embedding]


# The layer, the pick, the concatenation and the embedding.
@fires(cost_ms=2.6, occurrences=3)
def words_that_are_put_behind_the_text() -> TraceBuilder:
    return steps(words)


# Nothing tells whether each longer input is the last one with something behind it: lengths at which a model is tested have
# a batch of their own each, which no state leads to.
@quiet
def a_batch_of_its_own_for_each_length() -> TraceBuilder:
    return steps(lambda t: rollout(t)[1:])


@quiet
def batches_that_are_drawn() -> TraceBuilder:
    def drawn(t: int) -> Op:
        return "aten::randn", [[], [], [], [], []], [f"[{BATCH}, {t}, {WIDTH}]", "", "", "", "False"]

    def marked(t: int) -> Op:
        return "aten::cat", [[[BATCH, t, WIDTH], [BATCH, 1, WIDTH]], []], ["", "1"]

    return steps(lambda t: [drawn(t), marked(t), layer(t + 1), last(t + 1), HEAD])


# Behind 3, 6, 9 positions there is one more: no batch is the last one with that one behind it.
@quiet
def batches_with_a_mark_behind() -> TraceBuilder:
    def marked(t: int) -> Op:
        return "aten::cat", [[[BATCH, 3 * t, WIDTH], [BATCH, 1, WIDTH]], []], ["", "1"]

    return steps(lambda t: [marked(t), layer(3 * t + 1), last(3 * t + 1), HEAD])


# More sequences, not longer ones.
@quiet
def a_batch_that_grows() -> TraceBuilder:
    values = ["", "", "", "True", "1", "0.", "False", "False", "True"]
    state: Op = ("aten::select", [[1, BATCH, WIDTH], [], []], ["", "0", "-1"])

    def turn(t: int) -> list[Op]:
        sequences: Op = ("aten::stack", [[[LENGTH, WIDTH]] * t, []], ["", "0"])
        return [sequences, ("aten::gru", [[t, LENGTH, WIDTH], [1, BATCH, WIDTH], [96, WIDTH]], values), state, HEAD]

    return steps(turn)


# Each turn is one of a model that was trained on the last one: a state of that is none of this one's.
@quiet
def a_model_that_each_turn_trains() -> TraceBuilder:
    return steps(rollout, training=True, updated="aten::_foreach_add_")


# Its parameters are written by hand.
@quiet
def parameters_that_each_turn_writes() -> TraceBuilder:
    write: Op = ("aten::sub_", [[3 * WIDTH, WIDTH], [3 * WIDTH, WIDTH], []], [])
    return steps(lambda t: [*rollout(t), write])


def linear(t: int) -> Op:
    return "aten::linear", [[BATCH, t, WIDTH], [WIDTH, WIDTH], []], []


def attention(t: int, *, causal: bool = True) -> list[Op]:
    heads = [BATCH, 2, t, 16]
    values = ["", "", "", "", "0.", str(causal)]
    fused: Op = ("aten::scaled_dot_product_attention", [heads, heads, heads, [], [], []], values)
    return [stack(t), linear(t), fused, last(t), HEAD]


@fires(cost_ms=2.6, occurrences=3)
def a_policy_with_a_causal_mask() -> TraceBuilder:
    return steps(attention)


@quiet
def attention_without_a_mask() -> TraceBuilder:
    return steps(lambda t: attention(t, causal=False))


@quiet
def a_layer_of_two_directions() -> TraceBuilder:
    return steps(lambda t: [stack(t), layer(t, two_ways=True), last(t), HEAD])


@quiet
def the_last_eight_observations() -> TraceBuilder:
    return steps(lambda t: rollout(8))


def mean(t: int) -> Op:
    return "aten::mean", [[BATCH, t, WIDTH], [], [], []], ["", "[1]", "False", ""]


@quiet
def a_mean_over_the_history() -> TraceBuilder:
    return steps(lambda t: [stack(t), layer(t), mean(t), HEAD])


# Nothing of the earlier positions is used: cpu/late-pick.
@quiet
def layers_of_one_position() -> TraceBuilder:
    return steps(lambda t: [stack(t), linear(t), last(t), HEAD])


# It is known before the loop: cpu/growing-prefix.
@quiet
def prefixes_of_a_known_sequence() -> TraceBuilder:
    return steps(lambda t: buffered(t)[1:])


@edge
def eight_turns(over: bool) -> TraceBuilder:
    return steps(rollout, turns=8 if over else 7)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return steps(rollout, device="Tesla V100-SXM2-16GB")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(rollout, shapes=False)

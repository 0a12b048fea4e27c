"""Proof of cpu/unrolled-recurrence: traces on which it fires, and traces on which it does not."""

from collections.abc import Sequence

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

BATCH, WIDE, HIDDEN, LENGTH = 16, 48, 64, 100
STATE = [BATCH, HIDDEN]
LSTM: list[object] = [[BATCH, WIDE], STATE, STATE, [4 * HIDDEN, WIDE], [4 * HIDDEN, HIDDEN], [4 * HIDDEN], [4 * HIDDEN]]
GRU: list[object] = [[BATCH, WIDE], STATE, [3 * HIDDEN, WIDE], [3 * HIDDEN, HIDDEN], [3 * HIDDEN], [3 * HIDDEN]]
Op = tuple[str, list[object]]
"""An operator and its operands' shapes."""


def beside(b: TraceBuilder, name: str, shape: list[object]) -> None:
    """Call an operator of 1 us; a layer's time is its product's."""
    with b.op(name, shapes=shape, us=0 if name == "aten::linear" else 1):
        if name == "aten::linear":
            with b.op("aten::addmm", shapes=shape, us=1):
                pass


def steps(
    turns: int = 20,
    *,
    cell: str = "aten::lstm_cell",
    operands: Sequence[object] = LSTM,
    us: float = 40,
    picked: bool = True,
    same: bool = False,
    unbound: bool = False,
    before: Sequence[Op] = (),
    behind: Sequence[Op] = (),
    joined: bool = True,
    shapes: bool = True,
    device: str | None = None,
) -> TraceBuilder:
    """Steps of a loop over time, and 10 ms of other work.

    A turn picks a time step in 2 us, and calls a cell of *us*; backward these take 10 us and *us*. What else runs *before* the
    cell, and *behind* it, takes 1 us. Joining the outputs takes 30 us.
    """
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    whole = [BATCH, LENGTH, WIDE]
    for step in range(3):
        with b.step():
            with b.python("train.py(30): forward"):
                if unbound:
                    with b.op("aten::unbind", shapes=[whole, []], us=5):
                        pass
                for turn in range(turns):
                    number = 1000 * step + 2 * turn
                    if picked:
                        values = ["", "1", "0" if same else str(turn)]
                        with b.op("aten::select", shapes=[whole, [], []], values=values, seq=number, us=2):
                            pass
                    for name, shape in before:
                        beside(b, name, shape)
                    with b.op(cell, shapes=list(operands), seq=number + 1, us=us):
                        if device:
                            b.kernel("fused_cell", us=5)
                    for name, shape in behind:
                        beside(b, name, shape)
                if joined:
                    with b.op("aten::stack", shapes=[[], []], us=30):
                        pass
            with b.op("aten::mkldnn_convolution", us=10_000):
                pass
            for turn in reversed(range(turns)):
                number = 1000 * step + 2 * turn
                with b.backward("MulBackward0", number + 1), b.op("aten::mm", us=us):
                    pass
                if picked:
                    with b.backward("SelectBackward0", number), b.op("aten::select_backward", us=10):
                        pass
    return b


# 20 turns of 2 + 40 us, of 40 + 10 us backward, and 30 us to join: 1.87 ms.
@fires(cost_ms=1.87, occurrences=3, severity="medium", op="aten::lstm_cell", line="train.py:30")
def an_lstm_over_slices() -> TraceBuilder:
    return steps()


# 20 turns of 40 us, as many backward, and 30 us.
@fires(cost_ms=1.63)
def over_what_unbind_gave() -> TraceBuilder:
    return steps(picked=False, unbound=True)


@fires(cost_ms=5.87)
def a_gru() -> TraceBuilder:
    return steps(cell="aten::gru_cell", operands=GRU, us=140)


LINEAR: Op = ("aten::linear", [[BATCH, HIDDEN], [10, HIDDEN], [10]])
NEXT: Op = ("aten::linear", [[BATCH, HIDDEN], [WIDE, HIDDEN], [WIDE]])
RELU: Op = ("aten::relu", [[BATCH, WIDE]])


# One microsecond more in each turn.
@fires(cost_ms=1.89)
def with_logits_in_each_turn() -> TraceBuilder:
    return steps(behind=[LINEAR])


@fires(cost_ms=1.89)
def with_an_activation_before_the_cell() -> TraceBuilder:
    return steps(before=[RELU])


# 60 turns of 2 + 10 + 1 us, and of 10 + 10 us backward.
@fires(cost_ms=1.98)
def of_two_cells() -> TraceBuilder:
    second: Op = ("aten::gru_cell", [STATE, STATE, [192, 64], [192, 64], [192], [192]])
    return steps(60, us=10, behind=[second], joined=False)


# Its output is what it takes next.
@quiet
def a_decoder_that_takes_its_output() -> TraceBuilder:
    return steps(picked=False, unbound=True, behind=[NEXT])


@quiet
def a_decoder_that_samples() -> TraceBuilder:
    choice: Op = ("aten::argmax", [[BATCH, 10]])
    embedding: Op = ("aten::embedding", [[10, WIDE], [BATCH]])
    return steps(picked=False, behind=[LINEAR, choice, embedding])


@quiet
def attention_before_the_cell() -> TraceBuilder:
    return steps(before=[("aten::cat", [[BATCH, 24], [BATCH, 24], []])])


@quiet
def states_that_the_data_reset() -> TraceBuilder:
    return steps(behind=[("aten::mul", [STATE, [BATCH, 1]])])


# Nothing that is picked before the loop begins: as messages between nodes of a graph.
@quiet
def inputs_of_unknown_origin() -> TraceBuilder:
    return steps(picked=False)


@quiet
def the_same_input_each_time() -> TraceBuilder:
    return steps(same=True)


@quiet
def a_small_part_of_the_step() -> TraceBuilder:
    return steps(12, us=3)


@quiet
def a_large_cell() -> TraceBuilder:
    large: list[object] = [[64, 1024], [64, 1024], [64, 1024], [4096, 1024], [4096, 1024], [4096], [4096]]
    return steps(operands=large, picked=False, unbound=True)


@edge
def eight_turns(over: bool) -> TraceBuilder:
    return steps(8 if over else 7, us=200)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return steps(device="Tesla V100-SXM2-16GB")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(shapes=False)

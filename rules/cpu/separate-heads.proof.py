"""Proof of cpu/separate-heads: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

BATCH, TOKENS, WIDTH, SIZE = 4, 16, 32, 8
ENGINE = "autograd::engine::evaluate_function: "
STORE = "torch::autograd::AccumulateGrad"
Op = tuple[str, list[object]]
"""An operator and its operands' shapes."""


def linear(takes: int = WIDTH, gives: int = SIZE, tokens: int = TOKENS) -> Op:
    return "aten::linear", [[BATCH, tokens, takes], [gives, takes], []]


PART, SCORES = [BATCH, TOKENS, SIZE], [BATCH, TOKENS, TOKENS]
LAYERS = [linear(), linear(), linear()]
ATTEND: list[Op] = [
    ("aten::transpose", [PART, [], []]),
    ("aten::matmul", [PART, [BATCH, SIZE, TOKENS]]),
    ("aten::mul", [SCORES, []]),
    ("aten::masked_fill", [SCORES, [TOKENS, TOKENS], []]),
    ("aten::softmax", [SCORES, [], []]),
    ("aten::matmul", [SCORES, PART]),
]
FUSED: Op = ("aten::scaled_dot_product_attention", [PART, PART, PART, [], [], []])


def steps(
    *turn: Op,
    count: int = 4,
    us: float = 20,
    joined: list[int] | None = None,
    one_input: bool = True,
    apart: Op | None = None,
    shapes: bool = True,
    training: bool = True,
    device: str | None = None,
) -> TraceBuilder:
    """Steps of *count* heads, each a turn, what joins their results, and 5 ms of other work.

    Each operator takes *us*, and as long backward. The gradients of the layers' input are added up in 2 us each if the heads have
    *one_input*, else those of each head alone; *apart* runs between the heads.
    """
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    layers = [place for place, (name, _) in enumerate(turn) if name == "aten::linear"]
    for step in range(3):
        with b.step():
            with b.python("train.py(30): forward"):
                for number in range(count):
                    if apart and number:
                        with b.op(apart[0], shapes=apart[1], us=us):
                            pass
                    for place, (name, operands) in enumerate(turn):
                        seq = 1000 * step + 20 * number + place if training else None
                        layer = place in layers
                        with b.op(name, shapes=operands, seq=seq, us=0 if layer else us):
                            if layer:
                                with b.op("aten::mm", us=us):
                                    pass
                            if device:
                                b.kernel("sgemm", us=5)
                with b.op("aten::cat", shapes=[[joined or PART] * count, []], us=20):
                    pass
            with b.op("aten::mkldnn_convolution", us=5_000):
                pass
            for number in reversed(range(count)) if training else ():
                for place in reversed(range(len(turn))):
                    with b.backward("MmBackward0", 1000 * step + 20 * number + place):
                        with b.op("aten::mm", us=us):
                            pass
                        last = place == layers[-1] and (not one_input or number == count - 1)
                        if place in layers and not last:
                            with b.op("aten::add_", us=2):
                                pass
            for weight in [turn[place][1][1] for place in layers] * count if training else ():
                with b.op(ENGINE + STORE, fwd_thread=1), b.op(STORE, fwd_thread=1, shapes=[weight], us=5):
                    pass
    return b


# Four heads of nine operators of 20 us, as many backward; 11 gradients added in 2 us, 12 stored in 5; 20 us to join.
@fires(cost_ms=1.542, occurrences=3, severity="high", op="aten::linear", line="train.py:30")
def heads_of_a_small_model() -> TraceBuilder:
    return steps(*LAYERS, *ATTEND)


@fires(cost_ms=0.742, occurrences=3)
def a_fused_operator_for_each_head() -> TraceBuilder:
    return steps(*LAYERS, FUSED)


# Four heads of nine operators, and 20 us to join.
@fires(cost_ms=0.74, occurrences=3)
def inference() -> TraceBuilder:
    return steps(*LAYERS, *ATTEND, training=False)


# One layer for queries, keys and values of a head; three gradients are added, four are stored.
@fires(cost_ms=0.522, occurrences=3)
def one_layer_a_head() -> TraceBuilder:
    return steps(linear(gives=3 * SIZE), ("aten::chunk", [[BATCH, TOKENS, 3 * SIZE], [], []]), FUSED)


# Views of one scene, or models of an ensemble: each has an input of its own, whose three gradients alone are added up.
@quiet
def heads_on_inputs_of_their_own() -> TraceBuilder:
    return steps(*LAYERS, *ATTEND, one_input=False)


# The values come from another sequence, of another length.
@quiet
def attention_to_another_input() -> TraceBuilder:
    return steps(linear(), linear(tokens=24), linear(tokens=24), FUSED)


# Of other models: their results are averaged, and each is as wide as its input.
@quiet
def wide_heads_without_gradients() -> TraceBuilder:
    wide = [BATCH, TOKENS, WIDTH]
    square = linear(gives=WIDTH)
    attend: Op = (FUSED[0], [wide, wide, wide, [], [], []])
    return steps(square, square, square, attend, joined=wide, training=False)


# A block each: a layer behind the attention.
@quiet
def blocks_with_a_projection() -> TraceBuilder:
    return steps(*LAYERS, *ATTEND, ("aten::linear", [PART, [SIZE, SIZE], [SIZE]]))


@quiet
def work_of_another_kind_between() -> TraceBuilder:
    return steps(*LAYERS, *ATTEND, apart=("aten::layer_norm", [[BATCH, TOKENS, WIDTH], [], [WIDTH], [WIDTH]]))


@quiet
def a_normalization_in_each_turn() -> TraceBuilder:
    return steps(("aten::layer_norm", [[BATCH, TOKENS, WIDTH], [], [WIDTH], [WIDTH]]), *LAYERS, *ATTEND)


# Pieces of another width are joined.
@quiet
def other_results_are_joined() -> TraceBuilder:
    return steps(*LAYERS, *ATTEND, joined=[BATCH, TOKENS, 5])


# No product of what the layers gave.
@quiet
def plain_layers() -> TraceBuilder:
    return steps(*LAYERS)


# Heads in one dimension: one attention.
@quiet
def heads_side_by_side() -> TraceBuilder:
    heads = [BATCH, 4, TOKENS, SIZE]
    wide = linear(gives=WIDTH)
    return steps(
        wide, wide, wide, (FUSED[0], [heads, heads, heads, [], [], []]), count=1, joined=[BATCH, TOKENS, WIDTH]
    )


@edge
def three_heads(over: bool) -> TraceBuilder:
    return steps(*LAYERS, *ATTEND, count=3 if over else 2)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return steps(*LAYERS, *ATTEND, device="Tesla V100-SXM2-16GB")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(*LAYERS, *ATTEND, shapes=False)

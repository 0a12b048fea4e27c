"""Proof of cpu/pairwise-intermediate: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

Shape = list[int]
ROWS, COLUMNS, WIDTH = 256, 128, 64
LEFT, RIGHT = [ROWS, 1, WIDTH], [1, COLUMNS, WIDTH]
WHOLE = [ROWS, COLUMNS, WIDTH]
SQUARE = ("aten::pow", [WHOLE, []], ["", "2"])
SUM = ("aten::sum", [WHOLE, [], [], []], ["", "[-1]", "False", ""])
Step = tuple[str, list[Shape], list[str]]


def steps(
    *chain: Step,
    first: str = "aten::sub",
    operands: tuple[Shape, Shape] = (LEFT, RIGHT),
    strides: tuple[Shape, Shape] | None = None,
    us: float = 1000,
    backward_us: float = 0,
    shapes: bool = True,
    device: str | None = None,
) -> TraceBuilder:
    """Steps of 10 ms: an operator on two tensors, others on its result, *us* each, and a product for the rest."""
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    for number in range(3):
        left = 10_000.0
        with b.step():
            for at, (name, dims, values) in enumerate([(first, [*operands, []], ["", "", "1"]), *chain]):
                steps_of = list(strides or ([WIDTH, 1, 1], [1, WIDTH, 1])) if not at else None
                all_steps = [*steps_of, []] if steps_of else [[] for _ in dims]
                seq = 10 * number + at + 1
                with b.op(name, shapes=dims, values=values, strides=all_steps, us=us, seq=seq if backward_us else None):
                    if device:
                        b.kernel("vectorized_elementwise_kernel", us=100)
                left -= us
            if backward_us:
                for at in (1, 0):
                    with (
                        b.backward("PowBackward0" if at else "SubBackward0", 10 * number + at + 1),
                        b.op("aten::mul", shapes=[WHOLE, WHOLE], us=backward_us),
                    ):
                        pass
                    left -= backward_us
            with b.op("aten::mm", us=left):
                pass
    return b


# Three passes of 1 ms, of which 92 % return at most, and four fifths of that at least.
@fires(cost_ms=3.0, cost_share=0.3, occurrences=3, severity="high", op="aten::sub")
def squared_distances() -> TraceBuilder:
    return steps(SQUARE, SUM)


@fires(cost_ms=5.0)
def with_their_backward_pass() -> TraceBuilder:
    return steps(SQUARE, SUM, backward_us=1000)


@fires(cost_ms=2.0)
def a_norm_of_differences() -> TraceBuilder:
    return steps(("aten::linalg_vector_norm", [WHOLE, [], [], [], []], ["", "2", "[-1]", "False", ""]))


@fires(cost_ms=2.0)
def products_that_are_summed() -> TraceBuilder:
    return steps(SUM, first="aten::mul")


@fires(cost_ms=2.0)
def expanded_before() -> TraceBuilder:
    return steps(SUM, first="aten::mse_loss", operands=(WHOLE, WHOLE), strides=([WIDTH, 0, 1], [0, WIDTH, 1]))


@fires(cost_ms=1.0)
def cosines_of_all_pairs() -> TraceBuilder:
    return steps(first="aten::cosine_similarity")


@fires(cost_ms=4.0)
def coordinates_with_weights() -> TraceBuilder:
    return steps(("aten::div", [WHOLE, [WIDTH]], ["", ""]), SQUARE, SUM)


@fires(cost_ms=3.0)
def absolute_differences_of_a_large_batch() -> TraceBuilder:
    whole = [1024, 256, 64]
    total = ("aten::sum", [whole, [], [], []], ["", "[2]", "False", ""])
    return steps(("aten::abs", [whole], [""]), total, operands=([1024, 1, 64], [1, 256, 64]))


# torch.cdist(p=1) is hardly faster than what stays in the processor's caches.
@quiet
def absolute_differences_of_a_small_batch() -> TraceBuilder:
    return steps(("aten::abs", [WHOLE], [""]), SUM)


@quiet
def the_differences_are_used_again() -> TraceBuilder:
    return steps(SQUARE, SUM, ("aten::mul", [WHOLE, [ROWS, COLUMNS, 1]], ["", ""]))


@quiet
def another_operator_before_the_sum() -> TraceBuilder:
    return steps(("aten::tanh", [WHOLE], [""]), SUM)


@quiet
def summed_over_the_pairs() -> TraceBuilder:
    return steps(SQUARE, ("aten::sum", [WHOLE, [], [], []], ["", "[1]", "False", ""]))


@quiet
def a_variance_for_each_pair() -> TraceBuilder:
    return steps(("aten::div", [WHOLE, [COLUMNS, WIDTH]], ["", ""]), SQUARE, SUM)


@quiet
def a_bias() -> TraceBuilder:
    return steps(SQUARE, SUM, operands=(WHOLE, [WIDTH]))


@quiet
def cubes() -> TraceBuilder:
    return steps(("aten::pow", [WHOLE, []], ["", "3"]), SUM)


@quiet
def differences_that_nothing_sums() -> TraceBuilder:
    return steps(SQUARE)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return steps(SQUARE, SUM, device="NVIDIA A100-SXM4-80GB")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(SQUARE, SUM, shapes=False)


@edge
def eight_times_the_operands(over: bool) -> TraceBuilder:
    """16 and 16 rows give 256 pairs, 8 times 32; of 15 and 16 it is 240, and 7.7 times 31."""
    rows = 16 if over else 15
    whole = [rows, 16, WIDTH]
    total = ("aten::sum", [whole, [], [], []], ["", "[-1]", "False", ""])
    return steps(("aten::pow", [whole, []], ["", "2"]), total, operands=([rows, 1, WIDTH], [1, 16, WIDTH]))


@edge
def three_percent_of_the_step(over: bool) -> TraceBuilder:
    """90 % of 92 % of 3 times 0.123 or 0.119 ms of 10: 3.06 or 2.96 %."""
    return steps(SQUARE, SUM, us=123 if over else 119)

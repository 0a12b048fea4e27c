"""Proof of cpu/pairwise-order: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

Shape = list[int]
Step = tuple[str, list[Shape], list[str]]
N = 1024
ROW, COLUMN, PAIRS = [1, N], [N, 1], [N, N]
GREATER: Step = ("aten::ge", [ROW, COLUMN], ["", ""])
CAST: Step = ("aten::to", [PAIRS, [], [], [], []], ["", "6", "False", "False", ""])
NOT: Step = ("aten::bitwise_not", [PAIRS], [""])
FILL: Step = ("aten::masked_fill", [ROW, PAIRS, []], ["", "", "-inf"])
TIMES: Step = ("aten::mul", [[N], PAIRS], ["", ""])
SUM: Step = ("aten::sum", [PAIRS, [], [], []], ["", "[1]", "False", ""])
MEAN: Step = ("aten::mean", [PAIRS, []], ["", ""])
LOG_SUM: Step = ("aten::logsumexp", [PAIRS, [], []], ["", "[1]", "False"])


def steps(
    *chain: Step,
    us: float = 1000,
    backward_us: float = 0,
    shapes: bool = True,
    device: str | None = None,
) -> TraceBuilder:
    """Steps of 10 ms: operators of *us* each, their backward pass, and a product for the rest."""
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    for number in range(3):
        left = 10_000.0
        with b.step():
            for at, (name, dims, values) in enumerate(chain):
                seq = 10 * number + at + 1
                with b.op(name, shapes=dims, values=values, us=us, seq=seq if backward_us else None):
                    if device:
                        b.kernel("vectorized_elementwise_kernel", us=100)
                left -= us
            if backward_us:
                with (
                    b.backward("MulBackward0", 10 * number + len(chain) - 1),
                    b.op("aten::mul", shapes=[PAIRS, PAIRS], us=backward_us),
                ):
                    pass
                left -= backward_us
            with b.op("aten::mm", us=left):
                pass
    return b


# Four operators of 1 ms, of which a sort leaves 0.13 ms and 0.1 us for each of 2,048 numbers: 3.665 ms go at most.
@fires(cost_ms=4.0, cost_share=0.4, occurrences=3, severity="high", op="aten::ge")
def risk_sets_by_a_log_sum() -> TraceBuilder:
    return steps(GREATER, NOT, FILL, LOG_SUM)


@fires(cost_ms=6.0)
def a_vector_times_the_mask_with_its_backward_pass() -> TraceBuilder:
    return steps(GREATER, CAST, TIMES, SUM, backward_us=2000)


@fires(cost_ms=3.0, fix="Sort once, and take cumulative sums (logcumsumexp, searchsorted)")
def a_product_with_the_mask() -> TraceBuilder:
    return steps(GREATER, CAST, ("aten::mv", [PAIRS, [N]], ["", ""]))


@fires(cost_ms=3.0, fix="Count by torch.searchsorted in the sorted values")
def ranks() -> TraceBuilder:
    return steps(GREATER, CAST, SUM)


@fires(cost_ms=7.0)
def wins_and_half_of_the_ties() -> TraceBuilder:
    ties: Step = ("aten::eq", [ROW, COLUMN], ["", ""])
    half: Step = ("aten::mul", [PAIRS, []], ["", "0.5"])
    add: Step = ("aten::add", [PAIRS, PAIRS, []], ["", "", "1"])
    return steps(GREATER, CAST, ties, CAST, half, add, MEAN)


@fires(cost_ms=2.0, fix="Take a cumulative sum in place of a product with a triangle of ones")
def a_triangle_of_ones() -> TraceBuilder:
    ones: Step = ("aten::ones", [[], [], [], [], []], [f"[{N}, {N}]", "", "", "", ""])
    triangle: Step = ("aten::tril", [PAIRS, []], ["", "0"])
    return steps(ones, triangle, ("aten::matmul", [[512, N], PAIRS], ["", ""]))


# The mask is of positions; the scores have the same shape and numbers of their own.
@quiet
def a_causal_mask_of_scores() -> TraceBuilder:
    return steps(
        ("aten::mm", [[N, 64], [64, N]], ["", ""]),
        GREATER,
        ("aten::masked_fill", [PAIRS, PAIRS, []], ["", "", ""]),
        SUM,
    )


@quiet
def a_mask_of_scores_of_several_heads() -> TraceBuilder:
    return steps(GREATER, ("aten::masked_fill", [[4, 8, N, N], PAIRS, []], ["", "", "-inf"]), SUM)


@quiet
def a_loss_of_differences() -> TraceBuilder:
    difference: Step = ("aten::sub", [COLUMN, ROW, []], ["", "", "1"])
    return steps(
        GREATER,
        difference,
        ("aten::softplus", [PAIRS, [], []], ["", "1", "20"]),
        ("aten::mul", [PAIRS, PAIRS], ["", ""]),
        SUM,
    )


@quiet
def two_orders_at_once() -> TraceBuilder:
    return steps(GREATER, ("aten::lt", [ROW, COLUMN], ["", ""]), ("aten::bitwise_and", [PAIRS, PAIRS], ["", ""]), SUM)


@quiet
def a_mask_of_padding() -> TraceBuilder:
    spread: Step = ("aten::mul", [[N, N, 16], [N, N, 1]], ["", ""])
    return steps(GREATER, SUM, spread)


@quiet
def a_triangle_of_something_else() -> TraceBuilder:
    return steps(("aten::tril", [PAIRS, []], ["", "0"]), ("aten::matmul", [[512, N], PAIRS], ["", ""]))


@quiet
def a_mask_that_nothing_sums() -> TraceBuilder:
    return steps(GREATER, CAST)


@quiet
def coordinates_that_are_compared() -> TraceBuilder:
    return steps(
        ("aten::ge", [[N, 1, 3], [1, N, 3]], ["", ""]), ("aten::sum", [[N, N, 3], [], [], []], ["", "[1]", "False", ""])
    )


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return steps(GREATER, CAST, SUM, device="NVIDIA A100-SXM4-80GB")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(GREATER, CAST, SUM, shapes=False)


@edge
def eight_times_the_operands(over: bool) -> TraceBuilder:
    """128 and 128 rows give 16,384 pairs, the least that counts, 64 times 256; 127 and 128 give fewer."""
    rows = 128 if over else 127
    whole = [rows, 128]
    return steps(
        ("aten::ge", [[rows, 1], [1, 128]], ["", ""]), ("aten::sum", [whole, [], [], []], ["", "[1]", "False", ""])
    )


@edge
def three_percent_of_the_step(over: bool) -> TraceBuilder:
    """95 % of 3 times 0.218 or 0.213 ms less 0.3348 ms (0.13 and 2,048 times 0.1 us), of 10 ms: 3.03 or 2.89 %."""
    return steps(GREATER, CAST, SUM, us=218 if over else 213)

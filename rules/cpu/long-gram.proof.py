"""Proof of cpu/long-gram: traces on which it fires, and traces on which it does not."""

from collections.abc import Sequence

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

LONG, SHORT = 512, 128
H100 = "NVIDIA H100 80GB HBM3"
Call = tuple[str, list[list[int]]]


def iterating(
    *,
    long: int = LONG,
    short: int = SHORT,
    batch: Sequence[int] = (),
    before: Sequence[Call] = (),
    between: Sequence[Call] = (),
    behind: Sequence[Call] = (),
    fused: bool = False,
    power: bool = True,
    used: bool = True,
    strides: bool = True,
    turned: bool = True,
    second: Sequence[int] = (),
    us: float = 1000,
    rest_us: float = 10_000,
    device: str | None = None,
    shapes: bool = True,
    compiled: bool = False,
    scaled: bool = True,
) -> TraceBuilder:
    """Steps in which a tall matrix goes through two turns: a Gram matrix of *us*, its square of twice that, a product of *us*."""
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    tall, wide, square = [*batch, long, short], [*batch, short, long], [*batch, long, long]
    product = "aten::bmm" if batch else "aten::mm"

    def run(name: str, time: float, *operands: list[int], steps: Sequence[Sequence[int]] | None = None) -> None:
        with b.op(name, shapes=list(operands), strides=steps, us=1 if device else time):
            if device:
                b.kernel("ampere_sgemm_128x64_nn", us=time)

    def turn() -> None:
        if turned:
            run("aten::transpose", 1, tall, [], [])
        run(product, us, tall, wide, steps=step if strides else None)
        for name, operands in before:
            run(name, 10, *operands)
        if fused:
            run("aten::baddbmm" if batch else "aten::addmm", 2 * us, square, square, square, [], [])
        elif power:
            if scaled:
                run("aten::mul", 0, square, [])
            run(product, 2 * us, square, square)
            run("aten::add", 0, square, square, [])
        for name, operands in between:
            run(name, 10, *operands)
        if used:
            run(product, us, square, tall)
        for name, operands in behind:
            run(name, 10, *operands)

    ones = [short * long] if batch else []
    step = [[*ones, short, 1], list(second) or [*ones, 1, short]]
    for _ in range(3):
        with b.step():
            run("aten::softmax", rest_us, [64, 10])
            for _ in range(2):
                with b.python("muon.py(27): zeropower"):
                    if compiled:
                        with b.op("Torch-Compiled Region: 0/0"):
                            turn()
                    else:
                        turn()
    return b


# Two turns of 4 ms: a quarter of 2 ms and a 64th of 2 ms, half as long again, stay.
@fires(cost_ms=8.0, occurrences=6, severity="high", line="muon.py:27")
def newton_schulz_on_a_tall_matrix() -> TraceBuilder:
    return iterating()


@fires(cost_ms=8.0, occurrences=6)
def added_by_the_product_itself() -> TraceBuilder:
    return iterating(fused=True)


@fires(cost_ms=8.0)
def stacked_matrices() -> TraceBuilder:
    return iterating(batch=[4])


@fires(cost_ms=8.0)
def stacked_matrices_fused() -> TraceBuilder:
    return iterating(batch=[4], fused=True)


@fires(cost_ms=8.0)
def without_strides() -> TraceBuilder:
    return iterating(strides=False)


@fires(cost_ms=8.0, severity="high")
def on_a_gpu() -> TraceBuilder:
    return iterating(device=H100)


@fires(cost_ms=8.02)
def scaled_before_the_square() -> TraceBuilder:
    return iterating(before=[("aten::mul", [[LONG, LONG], []])])


# The weight of another layer is as large.
@fires(cost_ms=8.0)
def another_matrix_behind() -> TraceBuilder:
    return iterating(behind=[("aten::mm", [[64, LONG], [LONG, LONG]]), ("aten::sum", [[LONG, LONG]])])


@quiet
def a_wide_matrix() -> TraceBuilder:
    return iterating(long=128, short=512)


@quiet
def attention_scores() -> TraceBuilder:
    return iterating(batch=[8], before=[("aten::_softmax", [[8, LONG, LONG], [], []])])


@quiet
def scores_with_a_mask() -> TraceBuilder:
    return iterating(batch=[8], before=[("aten::masked_fill", [[8, LONG, LONG], [LONG, LONG], []])])


# Statistics of many steps: the matrix at hand is no factor of them (Shampoo).
@quiet
def statistics_of_many_steps() -> TraceBuilder:
    return iterating(before=[("aten::lerp_", [[LONG, LONG], [LONG, LONG], []])])


@quiet
def statistics_by_a_sum() -> TraceBuilder:
    return iterating(before=[("aten::add", [[LONG, LONG], [LONG, LONG], []])])


# An inverse root of a covariance matrix, which is used as such.
@quiet
def powers_that_no_tall_matrix_takes() -> TraceBuilder:
    return iterating(used=False)


@quiet
def a_kernel_matrix_that_is_inverted() -> TraceBuilder:
    return iterating(between=[("aten::linalg_inv_ex", [[LONG, LONG], []])])


@quiet
def a_trace_behind_the_last_use() -> TraceBuilder:
    return iterating(behind=[("aten::sum", [[LONG, LONG]])])


@quiet
def an_activation_of_the_power() -> TraceBuilder:
    return iterating(between=[("aten::relu", [[LONG, LONG]])])


# (X X^T) X alone is cpu/product-order's and cpu/product-chain's.
@quiet
def no_square() -> TraceBuilder:
    return iterating(power=False)


# Of [512, 128] in rows by a matrix [128, 512] in rows: the weight of a layer.
@quiet
def two_matrices_that_lie_in_rows() -> TraceBuilder:
    return iterating(second=[LONG, 1])


@quiet
def without_strides_and_nothing_transposed() -> TraceBuilder:
    return iterating(strides=False, turned=False)


@quiet
def in_compiled_code() -> TraceBuilder:
    return iterating(compiled=True)


# Kernels of 3 us take no less time for smaller matrices.
@quiet
def kernels_of_three_microseconds() -> TraceBuilder:
    return iterating(us=2, rest_us=1, device=H100)


# S + A A: nothing else of its size was made, so S may be a sum over the steps, which keeps its side.
@quiet
def a_power_that_is_added_to_statistics() -> TraceBuilder:
    return iterating(scaled=False)


@edge
def a_fifth_is_spared(over: bool) -> TraceBuilder:
    """Of 256 rows: products with X take as long at two thirds of the rate, the square, of half the time, 1.5 r^3."""
    return iterating(long=256, short=188 if over else 190, us=4000, rest_us=1000)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return iterating(shapes=False)

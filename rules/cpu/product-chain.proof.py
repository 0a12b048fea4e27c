"""Proof of cpu/product-chain: traces on which it fires, and traces on which it does not."""

from collections.abc import Sequence

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

ROWS, WIDTH = 256, 64
MATRICES = [ROWS, WIDTH, WIDTH]
FLAT = [ROWS * WIDTH, WIDTH]
OUTER = ("aten::bmm", [ROWS, WIDTH, 1], [ROWS, 1, WIDTH])
USE = ("aten::mm", FLAT, [WIDTH, 1])


def step_of(
    first: tuple[str, list[int], list[int]] = OUTER,
    use: tuple[str, list[int], list[int]] = USE,
    *,
    between: Sequence[tuple[str, list[list[int]]]] = (),
    behind: Sequence[tuple[str, list[list[int]]]] = (),
    train: bool = True,
    summed: bool = False,
    compiled: bool = False,
    us: float = 2000,
    device: str | None = None,
    shapes: bool = True,
) -> TraceBuilder:
    """Steps of about 20 ms: a product and its use in *us* each, and twice that for the backward pass of each."""
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)

    def run(name: str, time: float, *operands: list[int], seq: int | None = None) -> None:
        with b.op(name, shapes=list(operands), dtypes=["float"] * len(operands), seq=seq, us=1 if device else time):
            if device:
                b.kernel("volta_sgemm_128x64_nn", us=time)

    def layer(seq: int) -> None:
        run(first[0], us, *first[1:], seq=seq + 1)
        for name, operands in between:
            run(name, 10, *operands, seq=seq + 2)
        with b.op("aten::matmul", shapes=[MATRICES, use[2]]):
            run(use[0], us, *use[1:], seq=seq + 3)
        for name, operands in behind:
            run(name, 10, *operands)

    for step in range(3):
        seq = 100 * step
        with b.step():
            if compiled:
                with b.op("Torch-Compiled Region: 0/0"):
                    layer(seq)
            else:
                layer(seq)
            run("aten::softmax", 20_000 - 6 * us, [ROWS, 10])
            if train:
                with b.backward("MmBackward0", seq + 3):
                    run("aten::mm", us, [WIDTH, ROWS * WIDTH], [ROWS * WIDTH, 1])
                    run("aten::mm", us, [ROWS * WIDTH, 1], [1, WIDTH])
                if summed:
                    with b.op("autograd::engine::evaluate_function: ViewBackward0"):
                        run("aten::add", 10, MATRICES, MATRICES, [])
                with b.backward("BmmBackward0", seq + 1):
                    run("aten::bmm", us, [ROWS, 1, WIDTH], MATRICES)
                    run("aten::bmm", us, MATRICES, [ROWS, WIDTH, 1])
    return b


@fires(cost_ms=12.0, occurrences=3, severity="high", op="aten::bmm")
def an_outer_product_for_each_row() -> TraceBuilder:
    return step_of()


# s[:, :, 32:] = 0 is no linear operator.
@quiet
def a_part_that_is_written_before() -> TraceBuilder:
    part = [ROWS, WIDTH, WIDTH // 2]
    return step_of(between=[("aten::slice", [MATRICES]), ("aten::fill_", [part])])


@fires(cost_ms=4.0)
def in_inference() -> TraceBuilder:
    return step_of(train=False)


@fires(cost_ms=4.0)
def columns_times_rows() -> TraceBuilder:
    return step_of(("aten::mul", [ROWS, WIDTH, 1], [ROWS, 1, WIDTH]), train=False)


@fires(cost_ms=4.0)
def by_a_vector() -> TraceBuilder:
    return step_of(use=("aten::mv", FLAT, [WIDTH]), train=False)


@fires(cost_ms=4.0)
def from_the_left() -> TraceBuilder:
    return step_of(use=("aten::bmm", [ROWS, 1, WIDTH], MATRICES), train=False)


@fires(cost_ms=4.01)
def scaled_by_a_number() -> TraceBuilder:
    return step_of(between=[("aten::mul", [MATRICES, []])], train=False)


# Of 512 positions and 16 columns: (Q K^T) V takes 2 * 512 * 512 * 16, Q (K^T V) 2 * 512 * 16 * 16.
@fires(cost_ms=4.0)
def attention_without_a_softmax() -> TraceBuilder:
    scores = [8, 512, 512]
    return step_of(("aten::bmm", [8, 512, 16], [8, 16, 512]), ("aten::bmm", scores, [8, 512, 16]), train=False)


# (P (X W)) of 5 rows of P: X W takes 2,000 * 200 * 256, (P X) W 5 * 200 * (2,000 + 256).
@fires(cost_ms=4.0)
def pooled_behind_a_layer() -> TraceBuilder:
    return step_of(("aten::mm", [2000, 200], [200, 256]), ("aten::mm", [5, 2000], [2000, 256]), train=False)


@quiet
def attention_with_a_softmax() -> TraceBuilder:
    scores = [8, 512, 512]
    return step_of(
        ("aten::bmm", [8, 512, 16], [8, 16, 512]),
        ("aten::bmm", scores, [8, 512, 16]),
        between=[("aten::_softmax", [scores, [], []])],
        train=False,
    )


@quiet
def with_a_mask() -> TraceBuilder:
    return step_of(between=[("aten::mul", [MATRICES, [WIDTH, WIDTH]])])


@quiet
def used_elsewhere_too() -> TraceBuilder:
    return step_of(behind=[("aten::sum", [MATRICES, [], [], []])])


@quiet
def used_elsewhere_by_its_gradient() -> TraceBuilder:
    return step_of(summed=True)


@quiet
def nothing_takes_it() -> TraceBuilder:
    return step_of(use=("aten::mm", [ROWS, 10], [10, 10]), train=False)


@quiet
def an_order_that_takes_as_much() -> TraceBuilder:
    return step_of(("aten::bmm", [ROWS, WIDTH, WIDTH], MATRICES), ("aten::mm", FLAT, [WIDTH, WIDTH]), train=False)


@quiet
def in_compiled_code() -> TraceBuilder:
    return step_of(compiled=True, train=False)


@quiet("not_applicable")
def on_a_gpu() -> TraceBuilder:
    return step_of(device="NVIDIA A100-SXM4-80GB")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return step_of(shapes=False)


@edge
def a_twentieth_of_the_step(over: bool) -> TraceBuilder:
    """Of 6 times as many us of 20 ms about nine tenths go, and seven eighths of that is the middle."""
    return step_of(us=220 if over else 180)

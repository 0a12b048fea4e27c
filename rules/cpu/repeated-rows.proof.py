"""Proof of cpu/repeated-rows: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

Shape = list[int]
NODES, WIDTH = 64, 32
EACH = [NODES, NODES, WIDTH]
FIRST, SECOND, OWN = [WIDTH, 0, 1], [0, WIDTH, 1], [NODES * WIDTH, WIDTH, 1]
JOINED = [NODES, NODES, 2 * WIDTH]
LAYER = ("aten::linear", [JOINED, [16, 2 * WIDTH], [16]])


def steps(
    taker: tuple[str, list[Shape]] = LAYER,
    *,
    strides: tuple[Shape, ...] = (FIRST, SECOND),
    dim: int = -1,
    us: float = 1000,
    backward_us: float = 0,
    by_repeat: bool = False,
    shapes: bool = True,
    device: str | None = None,
) -> TraceBuilder:
    """Steps of 10 ms: rows of all pairs are put together and go through a layer, *us* each, then a product."""
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    name, dims = taker
    for number in range(3):
        left = 10_000.0 - 2 * us - backward_us
        with b.step():
            if by_repeat:
                left -= us
                with (
                    b.op("aten::repeat", shapes=[[NODES, 1, WIDTH], []]),
                    b.op("aten::copy_", shapes=[EACH, EACH, []], strides=[OWN, FIRST, []], us=us),
                ):
                    pass
            with b.op(
                "aten::cat",
                shapes=[[EACH for _ in strides], []],
                values=["", str(dim)],
                strides=[list(strides), []],
                us=us,
            ):
                if device:
                    b.kernel("CatArrayBatchedCopy", us=100)
            with b.op(name, shapes=dims, us=us), b.op("aten::addmm", seq=number + 1 if backward_us else None):
                pass
            if backward_us:
                with (
                    b.backward("AddmmBackward0", number + 1),
                    b.op("aten::mm", shapes=[[NODES * NODES, 16], [16, 2 * WIDTH]], us=backward_us),
                ):
                    pass
            with b.op("aten::mm", us=left):
                pass
    return b


# 2 of 10 ms; 16 outputs of 64 columns: 1 / 1.025 of it, and of this 75 to 100 %.
@fires(cost_ms=2.0, cost_share=0.2, occurrences=3, severity="high", op="aten::cat")
def expanded_rows_of_all_pairs() -> TraceBuilder:
    return steps()


@fires(cost_ms=3.0)
def with_the_layers_backward_pass() -> TraceBuilder:
    return steps(backward_us=1000)


@fires(cost_ms=2.0)
def times_a_vector() -> TraceBuilder:
    return steps(("aten::matmul", [JOINED, [2 * WIDTH]]))


# Half of the columns: 0.5 to the power of 0.6, over 1.025, of 2 ms.
@fires(cost_ms=2.0, severity="medium")
def beside_columns_of_each_pair() -> TraceBuilder:
    return steps(strides=(FIRST, OWN))


# The copy by repeat costs 1 ms more, and half of the columns are repeated.
@fires(cost_ms=3.0)
def rows_that_repeat_copied() -> TraceBuilder:
    return steps(strides=(OWN, OWN), by_repeat=True)


@quiet
def rows_that_are_there_once() -> TraceBuilder:
    return steps(strides=(OWN, OWN))


@quiet
def a_third_of_the_columns() -> TraceBuilder:
    third = [NODES, NODES, 3 * WIDTH]
    return steps(("aten::linear", [third, [16, 3 * WIDTH], [16]]), strides=(FIRST, OWN, OWN))


@quiet
def a_normalization_takes_them() -> TraceBuilder:
    return steps(("aten::layer_norm", [JOINED, [], [2 * WIDTH], [2 * WIDTH]]))


@quiet
def put_together_along_the_rows() -> TraceBuilder:
    return steps(("aten::linear", [[NODES, 2 * NODES, WIDTH], [16, WIDTH], [16]]), dim=1)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return steps(device="NVIDIA A100-SXM4-80GB")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(shapes=False)


@edge
def three_percent_of_the_step(over: bool) -> TraceBuilder:
    """87.5 % of 1 / 1.025 of twice 0.18 or 0.17 ms of 10: 3.07 or 2.9 %."""
    return steps(us=180 if over else 170)

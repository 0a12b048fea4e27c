"""Proof of cpu/dense-adjacency: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

A100 = "NVIDIA A100-SXM4-80GB"


def step_of(
    *,
    rows: int = 2000,
    columns: int = 64,
    name: str = "aten::mm",
    before: str = "",
    gradient: bool = False,
    right: bool = False,
    us: float = 2000,
    device: str | None = None,
    shapes: bool = True,
) -> TraceBuilder:
    """Steps of 20 ms: a product with a square matrix in *us*, and its backward pass in as much."""
    b = TraceBuilder(device, host_us=2 if device else 0, record_shapes=shapes)
    square, thin = [rows, rows], [rows, columns]

    def run(name: str, time: float, *operands: list[int], seq: int | None = None) -> None:
        with b.op(name, shapes=list(operands), us=0 if device else time, seq=seq):
            if device:
                b.kernel("volta_sgemm_128x64_nn", us=time)

    for step in range(3):
        with b.step():
            if before:
                run(before, 100, square, [])
            run(name, us, *([thin[::-1], square] if right else [square, thin]), seq=step)
            run("aten::softmax", 20_000 - 2 * us, thin)
            with b.backward("MmBackward0", step):
                run("aten::mm", us, square, thin)
                if gradient:
                    run("aten::mm", 100, thin, thin[::-1])
            if device:
                b.sync()
    return b


@fires(cost_ms=4.0, occurrences=3, severity="medium", op="aten::mm")
def a_graph_convolution() -> TraceBuilder:
    return step_of()


@quiet
def a_small_matrix() -> TraceBuilder:
    return step_of(rows=512)


@quiet
def as_many_columns_as_rows() -> TraceBuilder:
    return step_of(columns=1000)


@quiet
def attention_weights() -> TraceBuilder:
    return step_of(before="aten::softmax")


@quiet
def a_weight_that_learns() -> TraceBuilder:
    return step_of(gradient=True)


@quiet
def a_weight_on_the_right() -> TraceBuilder:
    return step_of(right=True)


# 64 columns: 1 - 0.003 · 64 and 10 us of each 2 ms, 80 % go where one value in a thousand is not zero.
@fires(cost_ms=4.0, severity="medium")
def a_program_on_a_gpu() -> TraceBuilder:
    return step_of(device=A100)


@quiet
def hundreds_of_columns_on_a_gpu() -> TraceBuilder:
    return step_of(columns=400, device=A100)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return step_of(shapes=False)


@edge
def a_twentieth_of_the_step(over: bool) -> TraceBuilder:
    """Of twice *us* the middle of what a sparse matrix returns is 5 % of 20 ms."""
    return step_of(us=600 if over else 560)

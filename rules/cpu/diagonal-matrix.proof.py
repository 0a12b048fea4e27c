"""Proof of cpu/diagonal-matrix: traces on which it fires, and traces on which it does not."""

from contextlib import nullcontext

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

Shape = list[int]
Step = tuple[str, list[Shape]]
N = 512
SQUARE = [N, N]
DIAG: Step = ("aten::diag_embed", [[N]])
MADE: Step = ("aten::diag_embed", [[64, 16]])
BATCH = [64, 16, 16]
NORMAL = "torch/distributions/multivariate_normal.py(247): log_prob"


def steps(
    *chain: Step,
    us: float = 1000,
    library: str = "",
    within: int = 1,
    lines: tuple[int, ...] = (),
    backward_us: float = 0,
    stacks: bool = True,
    shapes: bool = True,
    device: str | None = None,
) -> TraceBuilder:
    """Steps of 10 ms: operators of *us* each, from *within* on in *library*, their backward pass, and one for the rest."""
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    for number in range(3):
        left = 10_000.0
        with b.step():
            for at, (name, dims) in enumerate(chain):
                seq = 10 * number + at + 1
                line = lines[at] if lines else 30
                with (
                    b.python(f"train.py({line}): loss") if stacks else nullcontext(),
                    b.python(library) if library and at >= within else nullcontext(),
                    b.op(name, shapes=dims, us=us, seq=seq if backward_us else None),
                ):
                    if device:
                        b.kernel("vectorized_elementwise_kernel", us=100)
                left -= us
            if backward_us:
                with (
                    b.backward("MmBackward0", 10 * number + len(chain)),
                    b.op("aten::mm", shapes=[SQUARE, SQUARE], us=backward_us),
                ):
                    pass
                left -= backward_us
            with b.op("aten::relu", us=left):
                pass
    return b


# 3 ms, of which scaling leaves 0.02 ms and 2 ns for each of two times 512 x 512 numbers: 1.07 ms.
@fires(
    cost_ms=3.0,
    cost_share=0.3,
    occurrences=3,
    op="aten::diag_embed",
    fix="Scale rows and columns by the diagonal itself",
)
def a_matrix_scaled_on_both_sides() -> TraceBuilder:
    return steps(DIAG, ("aten::mm", [SQUARE, SQUARE]), ("aten::mm", [SQUARE, SQUARE]))


@fires(cost_ms=4.0)
def rows_that_are_scaled_with_the_backward_pass() -> TraceBuilder:
    return steps(DIAG, ("aten::matmul", [SQUARE, [N, 64]]), backward_us=2000)


@fires(cost_ms=4.0, severity="high", fix="Use Independent(Normal) in place of MultivariateNormal")
def a_covariance_of_a_policy() -> TraceBuilder:
    solve: Step = ("aten::linalg_solve_triangular", [[1, 64, 16, 16], [1, 64, 16, 1]])
    return steps(MADE, ("aten::isfinite", [BATCH]), ("aten::linalg_cholesky", [BATCH]), solve, library=NORMAL)


# The second product takes another matrix: A_hat @ X, whose first factor is of that shape.
@fires(cost_ms=2.0)
def a_product_with_something_else_behind() -> TraceBuilder:
    return steps(DIAG, ("aten::mm", [SQUARE, SQUARE]), ("aten::mm", [SQUARE, [N, 64]]))


@fires(cost_ms=2.0)
def a_product_of_two_matrices_on_another_line() -> TraceBuilder:
    return steps(DIAG, ("aten::mm", [SQUARE, SQUARE]), ("aten::mm", [SQUARE, SQUARE]), lines=(30, 30, 31))


@quiet
def something_is_added_to_it() -> TraceBuilder:
    return steps(DIAG, ("aten::add", [SQUARE, SQUARE, []]), ("aten::mm", [SQUARE, SQUARE]))


@quiet
def a_covariance_that_something_is_added_to() -> TraceBuilder:
    """The steps' lines are the program's own up to the distribution: factor @ factor.T + torch.diag(v)."""
    return steps(
        ("aten::diag_embed", [[16]]),
        ("aten::add", [[16, 16], [16, 16], []]),
        ("aten::linalg_cholesky", [[16, 16]]),
        library=NORMAL,
        within=2,
    )


@quiet
def a_square_factor_times_itself_is_added() -> TraceBuilder:
    return steps(DIAG, ("aten::mm", [SQUARE, SQUARE]), ("aten::add", [SQUARE, SQUARE, []]))


CORNER: list[Step] = [
    ("aten::slice", [BATCH, [], [], [], []]),
    ("aten::select", [BATCH, [], []]),
    ("aten::select", [[64, 16], [], []]),
    ("aten::copy_", [[64], [64], []]),
]
"""``scale[:, 1, 0] = correlation``: views of the matrix, and a copy into the last one."""


@quiet
def a_factor_whose_lower_part_is_filled_in() -> TraceBuilder:
    solve: Step = ("aten::linalg_solve_triangular", [[1, 64, 16, 16], [1, 64, 16, 1]])
    return steps(MADE, *CORNER, solve, ("aten::matmul", [BATCH, [64, 16, 1]]), library=NORMAL, within=5)


@quiet
def a_matrix_that_is_written_into_before_its_product() -> TraceBuilder:
    return steps(MADE, *CORNER, ("aten::matmul", [BATCH, [64, 16, 16]]))


# What is written into behind the product was diagonal when it was multiplied.
@fires(cost_ms=2.0)
def a_matrix_that_is_written_into_behind_its_product() -> TraceBuilder:
    return steps(MADE, ("aten::matmul", [BATCH, [64, 16, 16]]), *CORNER)


# A copy of another vector into another one, behind a view of the matrix that is only read.
@fires(cost_ms=2.0)
def a_matrix_that_is_looked_at_while_something_else_is_written() -> TraceBuilder:
    chain: list[Step] = [
        ("aten::select", [BATCH, [], []]),
        ("aten::exp", [[64, 16]]),
        ("aten::copy_", [[64, 16], [64, 16], []]),
    ]
    return steps(MADE, *chain, ("aten::matmul", [BATCH, [64, 16, 16]]))


@quiet
def matrices_in_no_distribution() -> TraceBuilder:
    return steps(MADE, ("aten::linalg_cholesky", [BATCH]))


@quiet
def matrices_of_another_width_in_a_distribution() -> TraceBuilder:
    return steps(MADE, ("aten::linalg_cholesky", [[64, 8, 8]]), library=NORMAL)


@quiet
def a_small_product() -> TraceBuilder:
    return steps(DIAG, ("aten::mm", [SQUARE, SQUARE]), us=100)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return steps(DIAG, ("aten::mm", [SQUARE, SQUARE]), device="NVIDIA A100-SXM4-80GB")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(DIAG, ("aten::mm", [SQUARE, SQUARE]), shapes=False)


@lacks("stacks")
def no_stacks_recorded() -> TraceBuilder:
    return steps(DIAG, ("aten::mm", [SQUARE, SQUARE]), stacks=False)


@edge
def three_percent_of_the_step(over: bool) -> TraceBuilder:
    """92.5 % of 2 times 190 or 180 us without 20 us and 2 ns for each of 512 x 16 numbers, of 10 ms: 3.18 or 2.99 %."""
    return steps(DIAG, ("aten::mm", [SQUARE, [N, 16]]), us=190 if over else 180)

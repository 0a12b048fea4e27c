"""Proof of cpu/expanded-copies: traces on which it fires, and traces on which it does not."""

from collections.abc import Sequence

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

SHARED = ([64, 32, 32], [0, 32, 1])
OWN = ([64, 32, 32], [1024, 32, 1])
Tensor = tuple[Sequence[int], Sequence[int]]


def steps(
    *tensors: Tensor,
    name: str = "aten::linalg_cholesky",
    us: float = 2000,
    shapes: bool = True,
    device: str | None = None,
) -> TraceBuilder:
    """Steps of 10 ms, of which an operator on *tensors* (shape and strides) takes *us*."""
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    for _ in range(3):
        with b.step(), b.python("model.py(7): log_prob"):
            with b.op(name, shapes=[shape for shape, _ in tensors], strides=[strides for _, strides in tensors], us=us):
                if device:
                    b.kernel("potrf", us=100)
            with b.op("aten::mm", us=10_000 - us):
                pass
    return b


# 2 of 10 ms, of which 63/64 are copies.
@fires(cost_ms=2.0, cost_share=0.2, occurrences=3, severity="high", op="aten::linalg_cholesky", line="model.py:7")
def one_factor_for_each_sample() -> TraceBuilder:
    return steps(SHARED)


@fires
def both_sides_are_expanded() -> TraceBuilder:
    return steps(SHARED, ([64, 32, 32], [0, 1, 32]), name="aten::isclose")


@fires
def a_row_beside_an_expanded_batch() -> TraceBuilder:
    return steps(SHARED, ([32], [1]), name="aten::add")


@quiet
def a_matrix_of_its_own_for_each_sample() -> TraceBuilder:
    return steps(OWN)


@quiet
def what_it_is_added_to_differs() -> TraceBuilder:
    return steps(SHARED, OWN, name="aten::add")


@quiet
def a_matrix_of_equal_rows_is_one_matrix() -> TraceBuilder:
    return steps(([32, 32], [0, 1]))


def draws(weights: int, count: int, *, replacement: bool = False, rows: int = 512) -> TraceBuilder:
    """Each row draws so many of so many weights, which all rows share."""
    b = TraceBuilder(None, host_us=0)
    for _ in range(3):
        with b.step(), b.python("model.py(7): sample"):
            values = ["", str(count), str(replacement), ""]
            dims: list[list[int]] = [[rows, weights], [], [], []]
            with b.op("aten::multinomial", shapes=dims, values=values, strides=[[0, 1], [], [], []], us=2000):
                pass
            with b.op("aten::mm", us=8000):
                pass
    return b


# All but 0.03 ms, 20 ns for each of 10,000 weights and 0.1 us for each of 512 numbers: 1.72 of 2 ms.
@fires(cost_ms=2.0, op="aten::multinomial", fix="Draw for all rows from the one distribution, with replacement")
def samples_of_one_distribution_for_each_row() -> TraceBuilder:
    return draws(10_000, 1)


@fires(cost_ms=2.0, op="aten::multinomial")
def as_many_as_one_likes_with_replacement() -> TraceBuilder:
    return draws(196, 49, replacement=True, rows=64)


@quiet
def a_quarter_of_the_patches_without_replacement() -> TraceBuilder:
    """Each row hides 49 of 196 patches: drawn with replacement, 42 or so would be different."""
    return draws(196, 49, rows=64)


@quiet
def a_number_of_draws_that_was_not_recorded() -> TraceBuilder:
    return steps(([512, 10_000], [0, 1]), name="aten::multinomial")


@edge
def draws_of_which_two_are_the_same_in_one_row_of_a_hundred(over: bool) -> TraceBuilder:
    """15 draws of 10,500 weights make 105 pairs, of which one in 10,500 is of the same: 1.0 %; of 10,400 weights 1.01 %."""
    return draws(10_500 if over else 10_400, 15, rows=64)


@quiet
def a_distribution_of_its_own_for_each_row() -> TraceBuilder:
    return steps(([512, 10_000], [10_000, 1]), name="aten::multinomial")


@quiet
def each_copy_draws_numbers_of_its_own() -> TraceBuilder:
    return steps(SHARED, name="aten::bernoulli")


@quiet
def three_copies() -> TraceBuilder:
    return steps(([3, 32, 32], [0, 32, 1]))


@quiet("not_applicable")
def on_a_gpu() -> TraceBuilder:
    return steps(SHARED, device="NVIDIA A100-SXM4-80GB")


@edge
def six_per_cent_of_the_step(over: bool) -> TraceBuilder:
    """Of 10 ms the operator takes 0.549: 0.925 x 63/64 of 5.49 % is 5.0 %."""
    return steps(SHARED, us=550 if over else 548)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return steps(SHARED, shapes=False)

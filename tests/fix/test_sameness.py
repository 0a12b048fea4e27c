"""The same computation: losses of two runs within the tolerance of their types."""

from __future__ import annotations

import math

import pytest

from advisor.fix.sameness import difference, losses
from advisor.record.measured import Figure, Measured


def run(*values: float, dtype: str = "float32", autocast: tuple[str, ...] = ()) -> Measured:
    """Make a run with these losses, one number each."""
    return Measured(losses=tuple(Figure((1.0, value), (dtype,)) for value in values), autocast=autocast)


@pytest.mark.parametrize(
    ("dtype", "autocast", "apart", "same"),
    [
        ("float32", (), 5e-5, True),
        ("float32", (), 5e-4, False),
        ("float64", (), 5e-8, True),
        ("float64", (), 1e-6, False),
        ("bfloat16", (), 1e-2, True),
        ("float32", ("bfloat16",), 1e-2, True),
        ("float32", ("bfloat16",), 0.2, False),
    ],
)
def test_the_tolerance_is_that_of_the_type(dtype: str, autocast: tuple[str, ...], apart: float, same: bool) -> None:
    before, after = (run(2.0, value, dtype=dtype, autocast=autocast) for value in (1.0, 1.0 + apart))
    assert (difference(before, after) == "") is same


def test_the_coarser_type_counts_where_the_type_changes() -> None:
    assert difference(run(1.0, dtype="float64"), run(1.00001, dtype="float32")) == ""


def test_another_loss_is_named() -> None:
    assert difference(run(2.0, 1.5), run(2.0, 1.25)) == "loss 2 is 1.25 instead of 1.5"
    assert difference(run(2.0, 1.5), run(2.0)) == "1 losses instead of 2"


def test_not_a_number_is_the_same_as_itself_alone() -> None:
    assert difference(run(math.nan), run(math.nan)) == ""
    assert "nan" in difference(run(1.0), run(math.nan))
    assert difference(run(math.inf), run(math.inf)) == ""
    assert "inf" in difference(run(math.inf), run(-math.inf))


def test_nothing_to_compare_is_no_sameness() -> None:
    assert "not known" in difference(Measured(), Measured())


def test_outputs_are_compared_where_there_are_no_losses() -> None:
    def outputs(last: float) -> Measured:
        return Measured(outputs=(Figure((3.0, 0.5, 0.6, 1.0, 100.0, last), ("float32",)),))

    # A small number beside a large one is as exact as that: 1e-4 of 100.
    assert difference(outputs(0.001), outputs(0.009)) == ""
    assert difference(outputs(0.001), outputs(0.9)).startswith("output 1 is 0.9")


def test_steps_beyond_the_first_are_not_compared() -> None:
    assert difference(run(*[1.0] * 6, 1.0), run(*[1.0] * 6, 9.0)) == ""


def test_first_losses_are_shown_in_pairs() -> None:
    assert losses(run(2.0, 1.0), run(2.0, 1.5)) == [(2.0, 2.0), (1.0, 1.5)]
    assert losses(Measured(), Measured()) is None


def passes(*updates: tuple[float, ...]) -> Measured:
    """Make a run whose updates have these losses."""
    return Measured(
        losses=tuple(
            Figure((1.0, value), ("float32",), number) for number, each in enumerate(updates) for value in each
        )
    )


def test_losses_that_are_passed_back_as_their_sum_are_the_same() -> None:
    """Found on two tasks: one-backward could never be kept, for its first loss was the sum instead of the first."""
    apart = passes((2.0, 0.5), (1.5, 0.5), (1.0, 0.25), (1.0,))
    assert difference(apart, passes((2.5,), (2.0,), (1.25,), (1.0,))) == ""
    assert losses(apart, passes((2.5,), (2.0,), (1.25,), (1.0,))) == [(2.5, 2.5), (2.0, 2.0), (1.25, 1.25)]
    assert difference(apart, passes((2.5,), (2.25,), (1.25,), (1.0,))) == "loss 2 is 2.25 instead of 2"


def test_as_many_passes_are_compared_one_by_one() -> None:
    """Two losses that changed places have the same sum, and are not the same."""
    one, other = passes((2.0, 0.5), (1.5, 0.5), (1.0, 0.25)), passes((0.5, 2.0), (1.5, 0.5), (1.0, 0.25))
    assert difference(one, other) == "loss 1 is 0.5 instead of 2"


def test_one_update_alone_is_no_sum_to_compare() -> None:
    assert difference(passes((2.0, 0.5), (1.0,)), passes((2.5,), (1.0,))) == "2 losses instead of 3"


def test_of_inference_all_outputs_are_compared_as_the_first_may_be_of_preparations() -> None:
    """Six layers of a model that was being quantized answered first, and hid that it answered otherwise afterwards."""

    def outputs(last: float, updates: int = 0) -> Measured:
        return Measured(outputs=tuple(Figure((1.0, value), ("float32",), updates) for value in (*[1.0] * 8, last)))

    assert difference(outputs(2.0), outputs(3.0)) == "output 9 is 3 instead of 2"
    assert difference(outputs(2.0, updates=1), outputs(3.0, updates=1)) == ""  # of one that learns, rounding grows

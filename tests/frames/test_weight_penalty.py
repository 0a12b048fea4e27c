"""Penalties on parameters in the loss: small traces whose expected values are worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import advisor
from advisor.testing import TraceBuilder
from advisor.testing.penalties import MAGNITUDES, MUL, NORM, POW, SQUARE, SQUARES, SUB, SUM, WEIGHT, Call, penalized

VIEW = Call("aten::view", 1, "ViewBackward0", 1)
EVERY = [6 * 64 * 48]
CAT = Call("aten::cat", 1, "CatBackward0", 1, ([[64 * 48]] * 6, []))


def norm(name: str, order: str) -> Call:
    return Call(name, 150, "LinalgVectorNormBackward0", 203, (WEIGHT, [], [], [], []), order)


def rows(b: TraceBuilder, tmp_path: Path) -> list[dict[str, Any]]:
    frame = advisor.read(b.write(tmp_path / "trace.json")).patterns
    return [dict(row) for _, row in frame[frame.kind == "weight-penalty"].iterrows()]


def kinds(b: TraceBuilder, tmp_path: Path) -> dict[str, int]:
    """Parameters of each kind in the first pass, and rows of all."""
    found = rows(b, tmp_path)
    return {row["detail"]: int(row["repeats"]) for row in found if row["step"] == 0}


def test_a_row_has_its_parameters_and_what_a_step_does_not_take(tmp_path: Path) -> None:
    """Of 2,386 us the squares take 600, the additions 240: 600 us stay, as long as what a weight decay adds."""
    found = rows(penalized(), tmp_path)
    assert [(row["detail"], row["repeats"], row["length"], row["line"]) for row in found] == [
        ("squares", 6, 6 * 64 * 48, 30)
    ] * 3
    assert [row["cost_ns"] for row in found] == [2_386_000] * 3
    assert found[0]["part"] == pytest.approx(1 - 600 / 2386, abs=1e-6)


def test_of_several_passes_a_step_adds_once(tmp_path: Path) -> None:
    """A quarter of 600 us for each of four micro-batches."""
    found = rows(penalized(passes=4), tmp_path)
    assert len(found) == 12
    assert found[0]["part"] == pytest.approx(1 - 150 / 2386, abs=1e-6)


def test_signs_and_quotients_stay(tmp_path: Path) -> None:
    """Absolute values: 600 + 240 us. Norms: 900 + 2 x 240."""
    assert rows(penalized(MAGNITUDES), tmp_path)[0]["part"] == pytest.approx(1 - 840 / 2386, abs=1e-6)
    assert rows(penalized((NORM,)), tmp_path)[0]["part"] == pytest.approx(1 - 1380 / 2386, abs=1e-6)


@pytest.mark.parametrize(
    ("term", "kind"),
    [
        (SQUARES, "squares"),
        ((Call("aten::square", 100, "PowBackward0", 200, (WEIGHT,)), SUM), "squares"),
        ((POW, Call("aten::sum", 50, "SumBackward0", 3, (WEIGHT, [], [], []))), None),  # over a dimension
        ((POW, Call("aten::mean", 50, "MeanBackward0", 3)), "means"),
        ((Call("aten::pow", 100, "PowBackward0", 200, value="3"), SUM), None),
        ((Call("aten::pow", 100, "PowBackward0", 200), SUM), None),  # the exponent was not recorded
        ((POW, VIEW, SUM), "squares"),
        (MAGNITUDES, "absolute values"),
        ((NORM,), "norms"),
        ((NORM, SQUARE), "squares"),
        ((norm("aten::linalg_vector_norm", "1"),), "absolute values"),
        ((norm("aten::linalg_vector_norm", "inf"),), None),
        ((norm("aten::linalg_norm", ""),), "norms"),
        ((norm("aten::linalg_norm", "2"),), None),  # a singular value
        ((SUB, *SQUARES), "distances"),
        ((NORM, Call("aten::div", 1, "DivBackward0", 1)), None),
    ],
)  # fmt: skip
def test_kinds_of_terms(term: tuple[Call, ...], kind: str | None, tmp_path: Path) -> None:
    assert kinds(penalized(term), tmp_path) == ({kind: 6} if kind else {})


def test_both_kinds_of_an_elastic_net(tmp_path: Path) -> None:
    """One loop over the parameters with a term of each kind."""
    assert kinds(penalized((*MAGNITUDES, *SQUARES)), tmp_path) == {"squares": 6, "absolute values": 6}


def test_all_parameters_behind_each_other(tmp_path: Path) -> None:
    """One vector of all: views, a concatenation, and a square and a sum of that."""
    every = (
        Call("aten::pow", 100, "PowBackward0", 200, (EVERY, []), "2"),
        Call("aten::sum", 50, "SumBackward0", 3, (EVERY, [])),
    )
    b = penalized((VIEW,), behind=(CAT, *every), sums=False)
    found = rows(b, tmp_path)
    assert [(row["detail"], row["repeats"], row["length"]) for row in found] == [("squares", 6, EVERY[0])] * 3


def test_a_backward_pass_of_the_penalty_alone(tmp_path: Path) -> None:
    """A penalty of its own pass is stored and added there: it costs the same."""
    found = rows(penalized(apart=True), tmp_path)
    assert [(row["detail"], row["repeats"], row["cost_ns"]) for row in found] == [("squares", 6, 2_386_000)] * 3


def test_a_product_of_two_tensors_is_no_square(tmp_path: Path) -> None:
    """Of a square the engine adds the gradients of both factors."""
    assert kinds(penalized((MUL, SUM)), tmp_path) == {}
    assert kinds(penalized((MUL, SUM), doubled=True), tmp_path) == {"squares": 6}


def test_more_terms_than_parameters_of_their_shape_are_none(tmp_path: Path) -> None:
    """Activations of as many steps of a recurrent layer."""
    assert kinds(penalized(stored=5), tmp_path) == {}


def test_an_operator_between_the_terms_parts_them(tmp_path: Path) -> None:
    """Six rows of a parameter in each pass."""
    found = rows(penalized((*SQUARES, Call("aten::relu", 1, "ReluBackward0", 1, ([32, 48],)))), tmp_path)
    assert [row["repeats"] for row in found] == [1] * 18


@pytest.mark.parametrize("change", [{"through": False}, {"added": False}, {"activation": True}, {"shapes": False}])
def test_what_is_not_proved_is_none(change: dict[str, bool], tmp_path: Path) -> None:
    assert rows(penalized(**change), tmp_path) == []

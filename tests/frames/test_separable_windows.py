"""Weights of ones that are no boxes any more: some of their numbers are others."""

from __future__ import annotations

import pytest

from advisor.frames.patterns.separable_windows import _shapes_anew

WINDOW = (1, 1, 9, 9)


@pytest.mark.parametrize(
    ("name", "operands", "anew"),
    [
        # Divided by how many there are, it is a box still; times a disk of ones and zeros it is none.
        ("aten::div", (WINDOW, ()), False),
        ("aten::div", (WINDOW, (1,)), False),
        ("aten::mul", (WINDOW, WINDOW), True),
        ("aten::mul_", (WINDOW, (9, 9)), True),
        ("aten::mul", ((9, 9), WINDOW), True),
        ("aten::where", ((9, 9), WINDOW, ()), True),
        ("aten::tril", (WINDOW,), True),
        ("aten::slice", (WINDOW,), True),
        ("aten::mul", ((8, 8), (8, 8)), False),
        ("aten::conv2d", ((1, 1, 64, 64), WINDOW), False),
    ],
)
def test_what_gives_a_window_other_numbers(name: str, operands: tuple[tuple[int, ...], ...], anew: bool) -> None:
    assert _shapes_anew(name, operands, WINDOW) is anew

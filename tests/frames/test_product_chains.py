"""Products in an expensive order: what is a product, how another one takes it, and what each order takes."""

from __future__ import annotations

import pytest

from advisor.frames.patterns.product_chains import _Chain, _Product, _taken, product_of


@pytest.mark.parametrize(
    ("name", "operands", "sizes"),
    [
        ("aten::bmm", ((8, 30, 1), (8, 1, 20)), (8, 30, 1, 20)),
        ("aten::mm", ((30, 40), (40, 20)), (1, 30, 40, 20)),
        ("aten::mm", ((30, 4), (4, 20)), None),  # cpu/product-order
        ("aten::mm", ((30, 40), (41, 20)), None),
        ("aten::mul", ((8, 30, 1), (8, 1, 20)), (8, 30, 1, 20)),
        ("aten::mul", ((1, 20), (8, 30, 1)), (8, 30, 1, 20)),
        ("aten::mul", ((8, 30, 1), (8, 30, 20)), None),
        ("aten::mul", ((8, 30, 20), (8, 30, 20)), None),
        ("aten::mul", ((8, 30, 1), (7, 1, 20)), None),
        ("aten::mul", ((30,), (30, 1)), None),
        ("aten::mul", ((30, 20),), None),
    ],
)
def test_what_is_a_product(
    name: str, operands: tuple[tuple[int, ...], ...], sizes: tuple[int, int, int, int] | None
) -> None:
    assert product_of(name, operands) == (sizes and _Product(*sizes))


@pytest.mark.parametrize(
    ("name", "operands", "taken"),
    [
        ("aten::bmm", ((8, 30, 20), (8, 20, 3)), (3, 720)),
        ("aten::bmm", ((8, 3, 30), (8, 30, 20)), (3, 480)),
        ("aten::bmm", ((8, 20, 30), (8, 30, 3)), (3, 480)),  # turned
        ("aten::mm", ((240, 20), (20, 3)), (3, 720)),  # of all rows at once
        ("aten::addmm", ((3,), (240, 20), (20, 3)), (3, 720)),
        ("aten::mv", ((240, 20), (20,)), (1, 240)),
        ("aten::mm", ((120, 40), (40, 3)), (0, 0)),  # as many numbers, other rows
        ("aten::mm", ((3, 240), (240, 20)), (0, 0)),  # a sum over the batch
        ("aten::relu", ((8, 30, 20),), (0, 0)),
    ],
)
def test_how_a_product_takes_it(name: str, operands: tuple[tuple[int, ...], ...], taken: tuple[int, int]) -> None:
    assert _taken(name, operands, _Product(8, 30, 1, 20)) == taken


def test_what_each_order_takes() -> None:
    """8 outer products of 30 by 20, then 2 columns: 4,800 times 1 and 2; the other order 8 times 50 times 2."""
    chain = _Chain(0, _Product(8, 30, 1, 20), uses=[1], columns=2)
    assert chain.arithmetic() == (14_400, 800)
    assert chain.wrong
    # Matrices are written and read; factors read, two columns of 8 at both ends, and written and read between.
    assert chain.moved() == (9600, 400 + 800 + 32)
    # An eighteenth of the time, at half the rate; and 10 us for each of two calls, three times that where it learns.
    assert chain.part(1e6, False) == pytest.approx(1 - 2 / 18 - 0.02)
    assert chain.part(1e6, True) == pytest.approx(1 - 2 / 18 - 0.06)
    assert chain.part(6_000, False) == 0
    # Numbers moved count where they take longer: at the recorded rate, or in 1 ns each.
    wide = _Chain(0, _Product(1, 2000, 200, 256), uses=[1], columns=5)
    assert wide.part(1e7, False) == pytest.approx(1 - 2 * 464_480 / 1e7 - 0.002)

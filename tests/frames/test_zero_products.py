"""Products with matrices that are nearly all zeros: what their zeros take."""

from __future__ import annotations

import pytest

from advisor.frames.zero_products import spared


@pytest.mark.parametrize(("zeros", "part"), [(1.0, 1.0), (0.999, 0.97), (0.99, 0.7), (0.95, 0.0), (0.5, 0.0)])
def test_one_number_along_a_list_takes_as_long_as_thirty_of_a_dense_product(zeros: float, part: float) -> None:
    assert spared(zeros) == pytest.approx(part)

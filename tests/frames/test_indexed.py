"""Dimension of an index by one list of places, from the view that torch makes of the tensor."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from advisor.testing import TraceBuilder
from advisor.trace import read


@pytest.mark.parametrize(
    ("sizes", "strides", "dim"),
    [
        ("[1024, 256]", "[24000, 0]", 1),
        ("[256, 24000]", "[0, 1]", 0),
        ("[8, 1024, 256]", "[2048000, 2000, 0]", 2),
        ("[256, 4]", "[0, 0]", None),
        ("[256, 32]", "[1, 0]", None),  # a transposed tensor: whole rows
        ("[1024, 1]", "[24000, 0]", None),
        ("", "", None),
    ],
)
def test_the_dimension_that_stands_still_is_the_one_whose_places_are_listed(
    sizes: str, strides: str, dim: int | None, tmp_path: Path
) -> None:
    b = TraceBuilder(None)
    whole, view = [1024, 24000], ["", sizes, strides, ""]
    with (
        b.step(),
        b.op("aten::index", us=50, shapes=[whole, []], values=["", ""]),
        b.op("aten::as_strided", us=5, shapes=[whole, [], [], []], values=view),
    ):
        pass
    calls = read(str(b.write(tmp_path / "t.json"))).frame("operator_calls").set_index("name")["index_dim"]
    found = calls["aten::index"]
    assert found is pd.NA or pd.isna(found) if dim is None else found == dim
    assert pd.isna(calls["aten::as_strided"])


def test_the_places_of_a_mask_are_searched_for_first(tmp_path: Path) -> None:
    b = TraceBuilder(None)
    whole, view = [1024, 24000], ["", "[1024, 256]", "[24000, 0]", ""]
    with b.step(), b.op("aten::index", us=80, shapes=[whole, []], values=["", ""]):
        with b.op("aten::nonzero", us=5, shapes=[[24000]]):
            pass
        with b.op("aten::as_strided", us=5, shapes=[whole, [], [], []], values=view):
            pass
    calls = read(str(b.write(tmp_path / "t.json"))).frame("operator_calls").set_index("name")["index_dim"]
    assert pd.isna(calls["aten::index"])

"""Rows of frames as plain values of Python: the same whether a row is read alone, among others, or without a frame."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from advisor.columns import Columns, Series
from advisor.testing import TraceBuilder
from advisor.trace import read

KNOWN = np.array([False, True])
MIXED = Columns(
    {
        "whole": Series(np.array([2**60 + 1, 0]), KNOWN),
        "part": Series(np.array([0.5, 0.0]), KNOWN),
        "flag": Series(np.array([True, False]), KNOWN),
        "text": ["a", None],
        "plain": np.array([7, 8]),
        "nan": np.array([1.5, np.nan]),
    }
)
EXPECTED = [
    {"whole": 2**60 + 1, "part": 0.5, "flag": True, "text": "a", "plain": 7, "nan": 1.5},
    {"whole": None, "part": None, "flag": None, "text": None, "plain": 8, "nan": None},
]


@pytest.mark.parametrize(
    "names", [list(MIXED), ["whole", "part"], ["whole"], ["part", "nan"], ["flag"], ["text"], ["whole", "plain"]]
)
def test_a_row_alone_is_the_row_among_others(names: list[str]) -> None:
    expected = [{name: row[name] for name in names} for row in EXPECTED]
    table = MIXED.pick(names)
    alone = [*table.rows(slice(1)).records(), *table.rows(slice(1, None)).records()]
    assert table.records() == alone == expected
    for found, right in zip([*table.records(), *alone], [*expected, *expected], strict=True):
        assert [type(value) for value in found.values()] == [type(value) for value in right.values()]


def test_the_facts_are_the_row_of_the_frame(tmp_path: Path) -> None:
    b = TraceBuilder()
    for _ in range(2):
        with b.step(), b.op("aten::mm", shapes=[[8, 8], [8, 8]], dtypes=["float", "float"]):
            b.kernel("volta_sgemm_128x64_nn", us=900)
    trace = read(str(b.write(tmp_path / "trace.json")))
    (row,) = trace.columns("trace").records()
    facts = dict(trace.facts)
    assert facts == row
    assert {name: type(value) for name, value in facts.items()} == {name: type(value) for name, value in row.items()}
    assert (facts["step_count"], facts["kernel_ns"], facts["rank"], facts["training"]) == (2, 1_800_000, None, False)
    assert None not in (facts["busy_share"], facts["vendor"], facts["has_gpu"])

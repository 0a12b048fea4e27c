"""Operators on equal copies, by the strides of their tensors, worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from advisor.testing import TraceBuilder
from advisor.trace import read

SHARED, OWN = ([64, 4, 4], [0, 4, 1]), ([64, 4, 4], [16, 4, 1])


@pytest.mark.parametrize(
    ("name", "tensors", "copies"),
    [
        ("aten::exp", [SHARED], 64),
        ("aten::exp", [([8, 64, 4], [0, 0, 1])], 8 * 64),
        ("aten::exp", [([8, 64, 4], [4, 0, 1])], 64),
        ("aten::exp", [([3, 4], [0, 1])], None),  # three are few
        ("aten::exp", [OWN], None),
        ("aten::mul", [SHARED, ([4], [1])], 64),
        ("aten::mul", [SHARED, ([64, 1, 1], [1, 1, 1])], None),  # a number for each copy
        ("aten::mul", [SHARED, ([], [])], 64),
        ("aten::linalg_inv", [([64, 4, 4], [16, 0, 1])], None),  # equal rows of different matrices
        ("aten::bmm", [SHARED, SHARED], 64),
        ("aten::bmm", [SHARED, OWN], None),  # a weight that all samples share
        ("aten::copy_", [SHARED], None),
        ("aten::dropout", [SHARED], None),
    ],
)
def test_copies_are_counted_along_dimensions_of_stride_0(
    tmp_path: Path, name: str, tensors: Sequence[tuple[list[int], list[int]]], copies: int | None
) -> None:
    b = TraceBuilder(None)
    with b.step(), b.op(name, shapes=[shape for shape, _ in tensors], strides=[steps for _, steps in tensors], us=1000):
        pass
    found = read(str(b.write(tmp_path / "trace.json"))).patterns
    rows = found[found["kind"] == "expanded"]
    assert rows["repeats"].tolist() == ([] if copies is None else [copies])
    assert [round(part, 5) for part in rows["part"]] == ([] if copies is None else [round(1 - 1 / copies, 5)])


def test_without_strides_nothing_is_told(tmp_path: Path) -> None:
    b = TraceBuilder(None)
    with b.step(), b.op("aten::exp", shapes=[[64, 4, 4]], us=1000):
        pass
    assert not (read(str(b.write(tmp_path / "trace.json"))).patterns["kind"] == "expanded").any()

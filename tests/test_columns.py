"""Columns of a frame: what is missing stays missing, by rows, by values, and as pandas has it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.columns import Columns, Series
from advisor.testing import TraceBuilder

KINDS = Series.texts(["sgemm", None, "copy", "sgemm"])
BYTES = Series(np.array([8, 0, 2, 5]), np.array([False, True, False, False]))


def test_texts_are_codes_into_sorted_words() -> None:
    assert (KINDS.values.tolist(), KINDS.words, len(KINDS)) == ([1, -1, 0, 1], ("copy", "sgemm"), 4)
    assert (KINDS.tolist(), KINDS.isna().tolist()) == (["sgemm", None, "copy", "sgemm"], [False, True, False, False])


def test_what_is_missing_equals_nothing() -> None:
    assert KINDS.equals("sgemm").tolist() == [True, False, False, True]
    assert KINDS.within(("copy", "no such kernel")).tolist() == [False, False, True, False]
    assert BYTES.equals(0).tolist() == [False] * 4  # a 0 stands where the number is unknown
    assert Series(np.array([0.5, np.nan])).equals(0.5).tolist() == [True, False]


def test_unknown_numbers_have_a_value_only_where_one_is_given() -> None:
    with pytest.raises(ValueError, match="missing"):
        BYTES.to_numpy(np.int64)
    assert BYTES.to_numpy(np.float64, na_value=-1).tolist() == [8.0, -1.0, 2.0, 5.0]
    assert BYTES[np.array([0, 2])].to_numpy().tolist() == [8, 2]
    assert (BYTES.at(1), BYTES.at(3), KINDS.at(1), KINDS.at(2)) == (None, 5, None, "copy")
    assert Series(np.array([1.5, np.nan])).tolist() == [1.5, None]
    assert (list(BYTES), list(KINDS)) == ([8, None, 2, 5], ["sgemm", None, "copy", "sgemm"])


def test_a_column_is_not_compared_as_a_whole() -> None:
    """As an array is, row by row, it would seem to be: and be neither equal nor unequal."""
    with pytest.raises(TypeError, match="equals"):
        assert KINDS == "sgemm"


def test_words_that_no_row_has_are_left_out_in_their_order() -> None:
    part = KINDS[np.array([False, True, True, False])].used()
    assert (part.words, part.tolist()) == (("copy",), [None, "copy"])
    named = KINDS.replaced(KINDS.isna(), "(not linked)")
    assert named.tolist() == ["sgemm", "(not linked)", "copy", "sgemm"]
    assert KINDS.replaced(KINDS.isna(), "copy").words == KINDS.words


def test_columns_have_as_many_rows_as_each_of_them() -> None:
    table = Columns({"kind": KINDS, "bytes": BYTES, "step": 3, "ns": np.arange(4), "op": ["a", "a", None, "b"]})
    assert (len(table), table.names) == (4, ["kind", "bytes", "step", "ns", "op"])
    assert table.rows(np.array([1, 3]), ("bytes", "step", "op")).records() == [
        {"bytes": None, "step": 3, "op": "a"},
        {"bytes": 5, "step": 3, "op": "b"},
    ]
    changed = table.with_columns({"ns": table["ns"].values * 2, "more": 1})
    assert (changed.names[-1], changed["ns"].tolist(), changed["more"].tolist()) == ("more", [0, 2, 4, 6], [1] * 4)
    with pytest.raises(ValueError, match="kind 4, ns 2"):
        Columns({"kind": KINDS, "ns": np.arange(2)})


def test_pandas_has_the_same_values() -> None:
    table = Columns(
        {"kind": KINDS, "bytes": BYTES, "flag": Series(BYTES.values > 4, BYTES.missing), "ns": np.arange(4)}
    )
    frame = table.pandas()
    assert [str(kind) for kind in frame.dtypes] == ["category", "Int64", "boolean", "int64"]
    assert frame["kind"].tolist()[0::2] == ["sgemm", "copy"]
    assert int(frame["bytes"].sum()) == 15
    assert (frame["flag"].isna().tolist(), frame["flag"].dropna().tolist()) == (
        [False, True, False, False],
        [True, False, True],
    )


def test_what_a_user_writes_into_a_dataframe_stays_there() -> None:
    table = Columns({"ns": np.arange(4), "bytes": BYTES, "kind": KINDS})
    frame = table.pandas()
    frame.loc[0, "ns"], frame.loc[0, "bytes"], frame.loc[0, "kind"] = 9, 9, "copy"
    assert table.rows(slice(1)).records() == [{"ns": 0, "bytes": 8, "kind": "sgemm"}]


def test_a_column_is_numbers_or_texts() -> None:
    for mixed in ([1, None, 2], ["a", float("nan")], [1, "a"]):
        with pytest.raises(TypeError, match="numbers"):
            Columns({"mixed": np.array(mixed, np.object_)})
    assert Columns({"ns": np.arange(2), "one": np.int64(4)})["one"].tolist() == [4, 4]


rows = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**63), 2**63 - 1), st.none() | st.floats(allow_nan=False), st.none() | st.booleans(),
        st.none() | st.text(), st.integers(-9, 9),
    )
)  # fmt: skip


@given(rows)
def test_pandas_and_back_is_the_same(values: list[tuple[Any, ...]]) -> None:
    kinds = ("Int64", "Float64", "boolean", object, "int64")
    frame = pd.DataFrame({str(at): pd.Series([row[at] for row in values], dtype=kind) for at, kind in enumerate(kinds)})
    table = Columns.of_pandas(frame)
    again = Columns.of_pandas(table.pandas())
    expected = [{str(at): value for at, value in enumerate(row)} for row in values]
    assert table.records() == again.records() == expected


@pytest.mark.parametrize("form", ["text", "json", "html", "markdown"])
def test_an_analysis_needs_no_pandas(form: str, tmp_path: Path) -> None:
    """It takes longer to import than a small trace to analyze."""
    b = TraceBuilder()
    for _ in range(4):
        with b.step(), b.op("aten::mm", shapes=[[8, 8], [8, 8]]):
            b.kernel("volta_sgemm_128x64_nn", us=900)
    trace = b.write(tmp_path / "trace.json")
    code = (
        "import sys\nsys.modules['pandas'] = None\nimport advisor.cli\n"
        f"sys.argv[1:] = ['analyze', {str(trace)!r}, '-f', {form!r}, '-o', {str(tmp_path / 'report')!r}]\nadvisor.cli.program()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, (tmp_path / "report").stat().st_size > 0) == (0, True), done.stderr

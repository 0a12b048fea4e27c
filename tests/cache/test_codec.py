"""Values with arrays as bytes, and back: exact to the bit, and never anything but the type that was asked for."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from isal import isal_zlib

from advisor.cache import codec
from advisor.errors import AdvisorError

Array = npt.NDArray[Any]
KINDS = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")


class Held(msgspec.Struct):
    array: Array
    name: str = ""


@given(
    kind=st.sampled_from(KINDS),
    data=st.binary(max_size=200),
    columns=st.integers(1, 3),
    compress=st.booleans(),
)
def test_arrays_come_back_to_the_bit(kind: str, data: bytes, columns: int, compress: bool) -> None:
    """Any bits: of floats every NaN, too. Truth values are 0 and 1."""
    dtype = np.dtype(kind)
    if kind == "?":
        data = bytes(byte & 1 for byte in data)
    width = dtype.itemsize * columns
    array = np.frombuffer(data[: len(data) // width * width], dtype).reshape(-1, columns)
    back = codec.decode(codec.encode(Held(array, "x"), compress=compress), Held, compressed=compress)
    assert (back.name, back.array.dtype, back.array.shape) == ("x", array.dtype, array.shape)
    assert back.array.tobytes() == array.tobytes()
    back.array[:] = 0  # it can be written to


@pytest.mark.parametrize("compress", [False, True])
def test_order_and_byte_order_do_not_matter(compress: bool) -> None:
    grid = np.arange(12, dtype=np.int32).reshape(3, 4)
    for array in (grid.T, grid[:, ::2], grid.astype(">i4"), np.zeros((0, 5)), np.zeros(0, np.int8), np.array(7)):
        back = codec.decode(codec.encode({"a": array}, compress=compress), dict[str, Array], compressed=compress)["a"]
        np.testing.assert_array_equal(back, array)
        assert back.dtype.isnative


def test_tables_come_back_with_what_is_missing() -> None:
    table = pd.DataFrame(
        {
            "ns": np.array([1, 2**62, -1]),
            "share": [0.1, math.nan, math.inf],
            "ok": [True, False, True],
            "bytes": pd.array([1, None, 2**62 + 1], "Int64"),
            "known": pd.array([True, None, False], "boolean"),
            "op": pd.Categorical(["b", None, "a"], categories=["unused", "b", "a"]),
        }
    )
    back = codec.decode(codec.encode(table), pd.DataFrame)
    pd.testing.assert_frame_equal(back.drop(columns="op"), table.drop(columns="op"))
    assert back["op"].tolist()[::2] == ["b", "a"]
    assert back["op"].isna().tolist() == [False, True, False]
    assert b"unused" not in codec.encode(table)
    assert len(codec.decode(codec.encode(table.iloc[:0]), pd.DataFrame)) == 0


@pytest.mark.parametrize(
    "value", [np.array([object()]), np.array(["text"]), np.array([1j]), np.zeros(1, "i4,i4"), object(), {"x": {1j}}]
)
def test_what_has_no_plain_form_is_not_written(value: object) -> None:
    with pytest.raises(TypeError, match="no plain form"):
        codec.encode({"a": value})


def test_a_small_message_is_no_large_array() -> None:
    """A bomb: a thousand times as much as its bytes. Strangers' bytes are not inflated at all, others not past their size."""
    bomb = isal_zlib.compress(bytes(50_000_000), 1)
    assert len(bomb) < 500_000
    said = {"array": ["<i8", [1_000_000_000_000], bomb, True], "name": ""}
    for compressed in (False, True):
        with pytest.raises(AdvisorError, match="hold no Held"):
            codec.decode(msgspec.msgpack.encode(said), Held, compressed=compressed)
    said["array"] = ["<i8", [10], bomb, True]
    with pytest.raises(AdvisorError, match="81 bytes are no array"):
        codec.decode(msgspec.msgpack.encode(said), Held, compressed=True)
    said["array"] = ["<i8", [1_000_000_000_000], b"12345678", False]
    with pytest.raises(AdvisorError, match="8 bytes are no array"):
        codec.decode(msgspec.msgpack.encode(said), Held)


SOUND = codec.encode(Held(np.arange(100), "x"), compress=True)


@given(place=st.integers(0, len(SOUND) - 1), byte=st.integers(0, 255), cut=st.booleans())
def test_damaged_bytes_are_a_value_or_an_error(place: int, byte: int, cut: bool) -> None:
    data = SOUND[:place] if cut else SOUND[:place] + bytes([byte]) + SOUND[place + 1 :]
    try:
        assert isinstance(codec.decode(data, Held, compressed=True).array, np.ndarray)
    except AdvisorError as error:
        assert "these bytes hold no Held" in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    "said",
    [
        ["|O", [1], b"12345678", False],
        ["<M8[s]", [1], b"12345678", False],
        ["<i8", [-1, -1], b"12345678", False],
        ["<i8", [1], b"garbage", True],
        ["<i8", "1", b"12345678", False],
        ["<i8", [1], b"12345678"],
        b"12345678",
        None,
    ],
)
def test_what_is_no_array_is_refused(said: Any) -> None:
    with pytest.raises(AdvisorError, match="hold no Held"):
        codec.decode(msgspec.msgpack.encode({"array": said}), Held, compressed=True)

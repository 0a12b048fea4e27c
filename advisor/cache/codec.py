"""Values that hold arrays as bytes, and back: msgpack in which an array is its type, its shape and its bytes. Exact to the bit.

Nothing is pickled. What is read becomes the type that was asked for, or an ``AdvisorError``; its memory is in proportion to
the bytes, of compressed arrays, where they are allowed, to what deflate makes of them (1,032 times as much at most).
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_origin
from weakref import WeakValueDictionary

import msgspec
import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from advisor.errors import AdvisorError

if TYPE_CHECKING:
    import pandas as pd

Value = TypeVar("Value")
Array = npt.NDArray[Any]

_TYPES = frozenset(["|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8"])
_MASKED = {"Int64": np.int64, "boolean": np.bool_}


class _Array(NamedTuple):
    """An array: ``data`` in C order and little-endian; deflated, all first bytes of its numbers stand before all second ones."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes
    deflated: bool


class _Column(NamedTuple):
    """A column of a table: its values, which of them are missing (``mask``), or numbers into ``texts``, -1 for missing."""

    values: Array
    mask: Array | None = None
    texts: list[str] | None = None


def encode(value: object, *, compress: bool = False) -> bytes:
    """Return *value* as bytes: what msgspec encodes, arrays of numbers or truth values, and pandas tables of such and of texts.

    Raises ``TypeError``, ``ValueError`` or ``OverflowError`` for what has no plain form.
    """
    return msgspec.msgpack.encode(value, enc_hook=partial(_plain, compress=compress))


def decode(data: bytes, kind: type[Value], *, compressed: bool = False) -> Value:
    """Decode a value of *kind*. Raises ``AdvisorError`` where it is something else, or compressed and not so expected."""
    try:
        return msgspec.msgpack.decode(data, type=kind, dec_hook=partial(_built, compressed=compressed))
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise AdvisorError(f"these bytes hold no {kind.__name__}: {error}") from error


def _plain(value: Any, compress: bool) -> Any:
    if isinstance(value, np.ndarray):
        little = value.astype(value.dtype.newbyteorder("<"), copy=False)
        if little.dtype.str not in _TYPES:
            raise TypeError(f"an array of {value.dtype} has no plain form")
        data = little.tobytes() if not compress else _deflated(little)
        return _Array(little.dtype.str, little.shape, data, compress)
    if type(value).__name__ == "DataFrame":
        return {str(name): _column(value[name]) for name in value.columns}
    raise TypeError(f"{type(value).__name__} has no plain form")


def _built(kind: type, value: Any, compressed: bool) -> Any:
    if kind is np.ndarray or get_origin(kind) is np.ndarray:
        return _array(msgspec.convert(value, _Array), compressed)
    if kind.__name__ == "DataFrame":
        hook = partial(_built, compressed=compressed)
        return _table(msgspec.convert(value, dict[str, _Column], dec_hook=hook))
    raise TypeError(f"{kind} is not read from bytes")


# ---- arrays


def _array(packed: _Array, compressed: bool) -> Array:
    if packed.dtype not in _TYPES or min(packed.shape, default=0) < 0 or (packed.deflated and not compressed):
        raise ValueError(f"no array of {packed.dtype!r} and shape {packed.shape} is expected")
    dtype = np.dtype(packed.dtype)
    size = math.prod(packed.shape) * dtype.itemsize
    data = _inflated(packed.data, size) if packed.deflated else packed.data
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes are no array of {packed.dtype} and shape {packed.shape}")
    if packed.deflated:
        rows = np.frombuffer(data, np.uint8).reshape(dtype.itemsize, -1).T
        array = rows.copy(order="C").reshape(-1).view(dtype)
    else:
        array = np.frombuffer(bytearray(data), dtype)
    return array.reshape(packed.shape).astype(dtype.newbyteorder("="), copy=False)


def _deflated(array: Array) -> bytes:
    rows = np.frombuffer(array.tobytes(), np.uint8).reshape(-1, array.itemsize)
    packed: bytes = isal_zlib.compress(rows.T.tobytes(), 1)
    return packed


def _inflated(data: bytes, size: int) -> bytes:
    """Return at most *size* + 1 bytes of what *data* inflates to."""
    try:
        text: bytes = isal_zlib.decompressobj().decompress(data, size + 1)
    except isal_zlib.error as error:  # type: ignore[misc]  # its stub says an instance
        raise ValueError(str(error)) from None
    return text


# ---- tables


def _column(series: pd.Series[Any]) -> _Column:
    kind = str(series.dtype)
    if kind == "category":
        # Only the texts that these rows use: a trace has thousands.
        used = series.cat.remove_unused_categories().cat
        texts = [str(text).encode("utf-8", "replace").decode("utf-8") for text in used.categories.tolist()]
        return _Column(used.codes.to_numpy(), texts=texts)
    if kind in _MASKED:
        return _Column(series.to_numpy(_MASKED[kind], na_value=0), mask=series.isna().to_numpy(np.bool_))
    return _Column(series.to_numpy())


def _table(columns: dict[str, _Column]) -> pd.DataFrame:
    import pandas as pd

    if any(column.values.ndim != 1 for column in columns.values()):
        raise ValueError("a column has one dimension")
    return pd.DataFrame({name: _values(column) for name, column in columns.items()})


def _values(column: _Column) -> Any:
    import pandas as pd

    if column.texts is not None:
        return pd.Categorical.from_codes(column.values, categories=_index(tuple(column.texts)))
    if column.mask is None:
        return column.values
    build = pd.arrays.BooleanArray if column.values.dtype == np.bool_ else pd.arrays.IntegerArray
    return build(column.values, column.mask)


_indexes: WeakValueDictionary[tuple[str, ...], pd.Index[Any]] = WeakValueDictionary()


def _index(texts: tuple[str, ...]) -> pd.Index[Any]:
    """Return the index of these texts: one for all tables that live, for a thousand ranks run the same kernels."""
    import pandas as pd

    found = _indexes.get(texts)
    if found is None:
        found = _indexes[texts] = pd.Index(texts, dtype=object)
    return found

"""A digest as bytes, to travel between processes and machines: msgpack of plain arrays, never a pickle.

What arrives is checked against what a digest is, so that no bytes, whoever wrote them, become anything but a digest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from advisor.errors import AdvisorError
from advisor.ranks.digest import COLLECTIVE, WORK, Digest
from advisor.timeline.ledger import CAUSES

_PLAIN = {"int64": np.int64, "float64": np.float64, "bool": np.bool_}
_MASKED: dict[str, Any] = {"Int64": pd.Int64Dtype(), "boolean": pd.BooleanDtype()}


class _Column(msgspec.Struct, array_like=True):
    """One column: values as little-endian bytes; what is missing as a mask; texts as numbers into a list."""

    type: str
    values: bytes
    mask: bytes = b""
    texts: list[str] = []


class _Table(msgspec.Struct, array_like=True):
    rows: int
    columns: dict[str, _Column]


class Packed(msgspec.Struct, array_like=True):
    """A :class:`Digest` as it travels."""

    path: str
    rank: int | None
    world_size: int | None
    zero_ns: int
    window: tuple[int, int]
    step_ms: float | None
    step_count: int
    step_numbers: list[int]
    counted_ns: int
    causes: dict[str, int]
    facts: dict[str, str | int | float | bool | None]
    features: list[str]
    collectives: _Table
    before: bytes
    work: _Table
    work_count: int
    work_ns: int


def pack(digest: Digest) -> Packed:
    """*digest* in a form that msgspec writes."""
    return Packed(
        digest.path.encode("utf-8", "replace").decode("utf-8"),
        digest.rank,
        digest.world_size,
        digest.zero_ns,
        digest.window,
        digest.step_ms,
        digest.step_count,
        digest.step_numbers.tolist(),
        digest.counted_ns,
        digest.causes,
        digest.facts,
        sorted(digest.features),
        _table(digest.collectives),
        digest.before.astype("<i8").tobytes(),
        _table(digest.work),
        digest.work_count,
        digest.work_ns,
    )


def unpack(packed: Packed) -> Digest:
    """The digest again. Raises ``AdvisorError`` where the parts do not fit together."""
    rows = packed.collectives.rows
    if len(packed.before) != 8 * rows * len(CAUSES) or set(packed.causes) != set(CAUSES):
        raise AdvisorError("what a worker returned is no digest: its parts do not fit together")
    return Digest(
        path=packed.path,
        rank=packed.rank,
        world_size=packed.world_size,
        zero_ns=packed.zero_ns,
        window=packed.window,
        step_ms=packed.step_ms,
        step_count=packed.step_count,
        step_numbers=np.array(packed.step_numbers, np.int64),
        counted_ns=packed.counted_ns,
        causes=packed.causes,
        facts=packed.facts,
        features=frozenset(packed.features),
        collectives=_frame(packed.collectives, COLLECTIVE),
        before=np.frombuffer(packed.before, "<i8").astype(np.int64).reshape(rows, len(CAUSES)),
        work=_frame(packed.work, WORK),
        work_count=packed.work_count,
        work_ns=packed.work_ns,
    )


def _table(frame: pd.DataFrame) -> _Table:
    return _Table(len(frame), {str(name): _column(frame[name]) for name in frame.columns})


def _column(series: pd.Series[Any]) -> _Column:
    kind = str(series.dtype)
    if kind == "category":
        texts = [str(text).encode("utf-8", "replace").decode("utf-8") for text in series.cat.categories.tolist()]
        used, codes = np.unique(series.cat.codes.to_numpy(np.int64), return_inverse=True)
        told = used[used >= 0].tolist()
        # Only the texts that these rows use: a trace has thousands.
        codes = codes.astype(np.int64) - int(bool(len(used)) and used[0] < 0)
        return _Column(kind, codes.astype("<i4").tobytes(), texts=[texts[code] for code in told])
    if kind in _MASKED:
        mask = series.isna().to_numpy()
        values = series.fillna(False if kind == "boolean" else 0).to_numpy(np.int64)
        return _Column(kind, values.astype("<i8").tobytes(), mask=mask.astype(np.bool_).tobytes())
    return _Column(kind, series.to_numpy(_PLAIN[kind]).tobytes())


def _frame(table: _Table, names: Sequence[str]) -> pd.DataFrame:
    """The table again; raises ``AdvisorError`` where it is not one of these columns, all of one length."""
    if list(table.columns) != list(names):
        raise AdvisorError("what a worker returned is no digest: its tables have other columns")
    try:
        made = {name: _series(column) for name, column in table.columns.items()}
    except (ValueError, TypeError, KeyError) as error:
        raise AdvisorError(f"what a worker returned is no digest: {error}") from error
    if any(len(series) != table.rows for series in made.values()):
        raise AdvisorError("what a worker returned is no digest: its columns differ in length")
    return pd.DataFrame(made, index=range(table.rows))


def _series(column: _Column) -> pd.Series[Any]:
    if column.type == "category":
        codes = np.frombuffer(column.values, "<i4")
        return pd.Series(pd.Categorical.from_codes(codes, categories=pd.Index(column.texts, dtype=object)))
    if column.type in _MASKED:
        mask = np.frombuffer(column.mask, np.bool_).copy()
        values = np.frombuffer(column.values, "<i8").astype(np.int64)
        if column.type == "Int64":
            return pd.Series(pd.arrays.IntegerArray(values, mask))
        return pd.Series(pd.arrays.BooleanArray(values.astype(np.bool_), mask))
    return pd.Series(np.frombuffer(column.values, _PLAIN[column.type]).copy())

"""Places in the source of the matched rows: the few lines that carry most of the cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from advisor.columns import Columns, Series
from advisor.intervals import Bools, Ints, alike, coded
from advisor.results.analysis import Place, Through

PLACES = 3
LEAST_SHARE = 0.01
# An operator or module is named with a place only if it holds this much of it: the share beside it is the place\'s.
ALIKE = 0.95
PART = 0.15
"""Share of a place's cost from which on a library's line that it lies in is named."""
_SPREAD, _MORE = 0.3, 1.5
"""Share of the heaviest operator's below which parts of the program are the places, where one holds so many times as much."""
_LINE = ("file", "line", "function")
_AROUND = ("library", "module", "op")
COLUMNS = (*_LINE, *_AROUND)
"""Columns of a frame that say where a row is."""
_ROOM = 2**62


def places(frame: Columns, rows: Bools, weight: str | None, most: int = PLACES) -> list[Place]:
    """The heaviest places of some rows, at most so many, each with its share of their *weight* (a column; None: of rows).

    What carries under 1 % is left out: where most of the time has no place, the little that has one would mislead.

    A place is a line of the user's, with what most of its weight has in common; where no line is known, it is the
    library frame, module and operator.
    """
    if not rows.any() or not set(COLUMNS) <= set(frame):
        return []
    part = frame.rows(rows, COLUMNS)
    codes = {name: _codes(part[name]) for name in part}
    codes["line"][part["line"].to_numpy(np.int64, na_value=-1) < 0] = -1
    weights = np.ones(len(part)) if weight is None else np.maximum(frame[weight].to_numpy()[rows], 0).astype(np.float64)
    located = codes["file"] >= 0
    group = _combine(
        [codes[name] for name in _LINE] + [np.where(located, -1, codes[name]) for name in _AROUND], len(part)
    )
    totals = np.bincount(group, weights)
    total = totals.sum()
    if not total:
        return []
    heaviest: list[Place] = []
    for number in np.argsort(-totals, kind="stable"):
        if totals[number] < LEAST_SHARE * total:
            break
        members = group == number
        fields = {name: _common(part[name], codes[name], members, weights) for name in COLUMNS}
        if all(value is None for value in fields.values()):
            continue
        if fields["line"] is not None:
            fields["line"] = int(fields["line"])
        within = _within(part["module"], codes["module"], members, weights) if fields["module"] is None else None
        split = located[members].all() and fields["library"] is None
        through = _through(part["library"], codes["library"], members, weights) if split else []
        heaviest.append(Place(**fields, share=float(totals[number] / total), within=within, through=through))
        if len(heaviest) == most:
            break
    return heaviest


class Surroundings(Protocol):
    """Trace that tells where rows of a frame lie on the host."""

    def around(self, frame: str, mask: Bools, weights: Ints, op: str, /) -> str | None: ...
    def held(self, frame: str, mask: Bools, weights: Ints, /) -> list[tuple[str, float]]: ...


def surrounded(
    found: list[Place], trace: Surroundings, frame: str, table: Columns, rows: Bools, weight: str | None
) -> list[Place]:
    """The places, and of those of which the operator alone is known what is around it.

    Where each of many operators holds little, the places are the parts of the program that they lie in.
    """
    each = table[weight].to_numpy(np.int64) if weight else np.ones(len(table), np.int64)
    if found and _bare(found[0]) and found[0].share < _SPREAD:
        parts = [(name, share) for name, share in trace.held(frame, rows, each[rows]) if share >= PART]
        # What holds all of it, as the optimizer all that an optimizer launches, tells nothing.
        if parts and _MORE * found[0].share <= parts[0][1] < ALIKE:
            return [msgspec.structs.replace(found[0], op=name, share=share) for name, share in parts[:PLACES]]
    for at, place in enumerate(found):
        if place.op is not None and _bare(place):
            members = rows & table["op"].equals(place.op)
            around = trace.around(frame, members, each[members], place.op)
            found[at] = msgspec.structs.replace(place, around=around)
    return found


def _bare(place: Place) -> bool:
    """Tell whether nothing but an operator is known of a place."""
    return place.op is not None and not (place.file or place.library or place.module)


def _through(column: Series, codes: Ints, members: Bools, weights: npt.NDArray[np.float64]) -> list[Through]:
    """A library's lines with a part of the members' weight each, the heaviest first; none where they hold little."""
    totals = np.bincount(codes[members] + 1, weights[members])
    shares = totals / max(float(totals.sum()), 1.0)
    shares[0] = 0.0
    chosen = [code for code in np.argsort(-shares, kind="stable")[:PLACES].tolist() if shares[code] >= PART]
    rows = np.flatnonzero(members)
    first = {code: rows[np.flatnonzero(codes[rows] == code - 1)[0]] for code in chosen}
    return [Through(library=str(column.at(int(first[code]))), share=float(shares[code])) for code in chosen]


def _within(column: Series, codes: Ints, members: Bools, weights: npt.NDArray[np.float64]) -> str | None:
    """The path that the modules of nearly all of the members' weight begin with, or None."""
    totals: dict[str, float] = {}
    found, first = np.unique(codes[members], return_index=True)
    sums = np.bincount(codes[members] + 1, weights[members])
    rows = np.flatnonzero(members)[first]
    for code, row in zip(found.tolist(), rows.tolist(), strict=True):
        path = str(column.at(row)) if code >= 0 else ""
        parts = path.split("/") if path else []
        for depth in range(1, len(parts) + 1):
            around = "/".join(parts[:depth])
            totals[around] = totals.get(around, 0.0) + float(sums[code + 1])
    common = [path for path, weight in totals.items() if weight >= ALIKE * float(sums.sum())]
    return max(common, key=lambda path: path.count("/"), default=None)


def _codes(column: Series) -> Ints:
    """A number for each value of a column, -1 where it is missing."""
    if column.is_text:
        return column.values.astype(np.int64)
    return np.where(column.isna(), -1, coded(column.values)[1])


def _combine(columns: Sequence[Ints], length: int) -> Ints:
    """A number for each distinct combination of codes, counted in the order in which they first appear."""
    key, size = np.zeros(length, np.int64), 1
    for codes in columns:
        width = int(codes.max()) + 2
        if size > _ROOM // width:
            key = coded(key)[1]
            size = int(key.max()) + 1
        key, size = key * width + codes + 1, size * width
    first, group = alike(key)
    return np.argsort(np.argsort(first))[group]


def _common(column: Series, codes: Ints, members: Bools, weights: npt.NDArray[np.float64]) -> Any:
    """The value that holds nearly all of the members' weight, or None: it stands beside the share of the whole."""
    inside = codes[members]
    totals = np.bincount(inside + 1, weights[members])
    code = int(totals.argmax()) - 1
    if code < 0 or totals[code + 1] < ALIKE * totals.sum():
        return None
    return column.at(int(np.flatnonzero(members & (codes == code))[0]))

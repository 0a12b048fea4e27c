"""Rows in groups: the arithmetic under every table of a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from advisor.counting import counted
from advisor.intervals import Bools, Ints, alike, coded, distinct
from advisor.results.field import Cell
from advisor.results.views import Grid, Heading

if TYPE_CHECKING:
    from advisor.columns import Columns, Series
    from advisor.trace import Trace

MOST_ROWS = 190
LONGEST_TEXT = 400
Values = npt.NDArray[Any]


def counted_rows(trace: Trace, frame: Columns) -> Bools:
    """The rows that tables sum over: those in steps; all rows where the trace has no steps."""
    if not trace.step_count:
        return np.ones(len(frame), np.bool_)
    inside: Bools = frame["step"].to_numpy() >= 0
    return inside


def extent_note(trace: Trace) -> str:
    """Say in a sentence over how many steps a table sums."""
    count = trace.step_count
    if not count:
        return "Totals over the whole recording."
    return f"Totals over {counted(count, 'step')}."


def short(text: str, most: int = LONGEST_TEXT) -> str:
    """*text* with its middle left out where it is longer than *most* characters: both ends of a name tell it apart."""
    if len(text) <= most:
        return text
    head = most // 2
    return f"{text[:head]}…{text[head - most + 1 :]}"


class Labels:
    """A column of text as codes, -1 for missing."""

    def __init__(self, column: Series) -> None:
        self.codes: Ints = column.values.astype(np.int64)
        self.texts = column.words or ()

    def where(self, keep: Bools) -> Labels:
        """Some of the rows."""
        part = object.__new__(Labels)
        part.codes, part.texts = self.codes[keep], self.texts
        return part

    def text(self, code: int) -> str | None:
        """Text that a code stands for; None where it is missing."""
        return None if code < 0 else short(str(self.texts[code]))

    def cells(self, codes: Ints) -> list[str | None]:
        """Texts that codes stand for, each None where it is missing."""
        return [self.text(code) for code in codes.tolist()]


class Groups:
    """Rows that agree in some columns of codes."""

    def __init__(self, *keys: Ints) -> None:
        self.first, self.codes = alike(*keys)
        self.count = len(self.first)

    def sizes(self) -> Ints:
        """Rows in each group."""
        return np.bincount(self.codes, minlength=self.count)

    def sum(self, values: Values) -> Values:
        """Sum of *values* in each group, exact for ns."""
        out = np.zeros(self.count, np.float64 if values.dtype.kind == "f" else np.int64)
        np.add.at(out, self.codes, values)
        return out

    def most(self, values: Values) -> Values:
        """The greatest of *values* in each group."""
        out = np.full(self.count, values.min() if len(values) else 0, values.dtype)
        np.maximum.at(out, self.codes, values)
        return out

    def mean(self, values: Values, weight: Values) -> list[float | None]:
        """Mean of *values* by *weight*, where they are known; None where none is. Unweighted where no weight is.

        None, too, where absurd values add up to more than a number holds.
        """
        known = np.isfinite(values)
        weight = np.where(known, weight, 0).astype(np.float64)
        total = self.sum(weight)
        flat = self.sum(known.astype(np.float64))
        with np.errstate(over="ignore"):
            weighted = self.sum(np.where(known, values, 0.0) * weight)
            plain = self.sum(np.where(known, values, 0.0))
        means = [
            w / t if t else p / f if f else np.nan
            for w, t, p, f in zip(weighted.tolist(), total.tolist(), plain.tolist(), flat.tolist(), strict=True)
        ]
        return [float(mean) if np.isfinite(mean) else None for mean in means]

    def heaviest(self, labels: Ints, weight: Values) -> Ints:
        """The label (a code) that weighs most in each group; -1 where only that has any."""
        out = np.full(self.count, -1, np.int64)
        known = labels >= 0
        if not known.any():
            return out
        width = int(labels.max()) + 1
        keys, at = coded(self.codes[known] * width + labels[known])
        total = np.bincount(at, weight[known].astype(np.float64) + 1e-9, len(keys))
        order = np.argsort(total, kind="stable")
        out[keys[order] // width] = keys[order] % width
        return out

    def distinct(self, labels: Ints) -> Ints:
        """Count the different labels of each group."""
        known = labels >= 0
        if not known.any():
            return np.zeros(self.count, np.int64)
        width = int(labels.max()) + 1
        return np.bincount(distinct(self.codes[known] * width + labels[known]) // width, minlength=self.count)


def ms(ns: Values) -> list[float]:
    """ns as ms, every digit kept."""
    return [value / 1e6 for value in ns.tolist()]


def table(columns: Sequence[tuple[Heading, Sequence[Cell]]], weight: Values, note: str, most: int = MOST_ROWS) -> Grid:
    """The heaviest rows of *columns*, each with its heading, as a grid."""
    order = np.argsort(-weight, kind="stable")[:most].tolist()
    rows = [[values[at] for _, values in columns] for at in order]
    return Grid(columns=[heading for heading, _ in columns], rows=rows, total=len(weight), note=note)


def of_places(frame: Columns, keep: Bools) -> tuple[Ints, list[str]]:
    """Places of rows in the source: codes and texts, ``file:line function``, else the innermost library frame; -1 unknown."""
    file, function = Labels(frame["file"]).where(keep), Labels(frame["function"]).where(keep)
    library = Labels(frame["library"]).where(keep)
    line = frame["line"].to_numpy()[keep]
    groups = Groups(file.codes, line, function.codes, library.codes)
    texts: dict[str, int] = {}
    codes = np.full(groups.count, -1, np.int64)
    for group, at in enumerate(groups.first.tolist()):
        if file.codes[at] >= 0:
            where = f"{file.text(file.codes[at])}:{line[at]}" if line[at] >= 0 else file.text(file.codes[at])
            text = f"{where} {function.text(function.codes[at]) or ''}".strip()
        elif library.codes[at] >= 0:
            text = library.text(library.codes[at]) or ""
        else:
            continue
        codes[group] = texts.setdefault(text, len(texts))
    return codes[groups.codes] if groups.count else groups.codes, list(texts)

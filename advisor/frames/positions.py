"""Work on positions that do not count: padding, and positions without a label. Columns of `ops`, from what the recorder saw.

An operator works on the padded positions where its shapes hold the padded width, alone or times the rows of the batch; on
the logits where they hold the classes of the loss together with its positions.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from advisor.intervals import Ints
from advisor.timeline.calls import OPTIMIZER
from advisor.timeline.context import Context

Floats = npt.NDArray[np.float64]
_DIMS = re.compile(r"\[[\d,\s]*\]")
_NUMBER = re.compile(r"\d+")
_LOSS = re.compile(r"^aten::(?:nll_loss(?:2d)?_forward|cross_entropy_loss)$")
_LEAST_CLASSES = 256
"""Fewer classes than these cost next to nothing to compute."""


def padding_share(context: Context, rows: Ints) -> Floats:
    """Share of each operator's work that is on padding; NULL where none was seen, and for operators without the width."""
    recorded, out = context.metadata.recorded, np.full(len(rows), np.nan)
    if recorded is None or not recorded.batch_width or recorded.batch_longest is None or not len(rows):
        return out
    width, share = recorded.batch_width, 1 - recorded.batch_longest / recorded.batch_width
    shapes = _Shapes(context, rows)
    looked_up = [dims for dims in shapes.of("aten::embedding") if len(dims) > 1 and width in dims[1]]
    if share <= 0 or not looked_up:
        return out
    counts = {width} | {dims[1][0] * width for dims in looked_up if len(dims[1]) == 2}
    wide = shapes.where(lambda dims: any(count in each for each in dims for count in counts))
    wide &= context.phases(rows) != OPTIMIZER
    out[wide] = share
    return out


def unlabelled_share(context: Context, rows: Ints) -> Floats:
    """Share of each operator's work that is for positions without a label, likewise."""
    recorded, out = context.metadata.recorded, np.full(len(rows), np.nan)
    if recorded is None or not recorded.ignored_share or not len(rows):
        return out
    shapes = _Shapes(context, rows)
    losses = {
        (dims[0][0], dims[0][1])
        for name in context.names
        if _LOSS.match(name)
        for dims in shapes.of(name)
        if dims and len(dims[0]) == 2 and dims[0][1] >= _LEAST_CLASSES
    }
    if not losses:
        return out
    classes, counts = {many for _, many in losses}, {count for count, _ in losses}

    def on_logits(dims: list[list[int]]) -> bool:
        numbers = {number for each in dims for number in each}
        return bool(numbers & classes) and (bool(numbers & counts) or not counts.isdisjoint(_products(dims)))

    of_loss = shapes.where(on_logits) & (context.phases(rows) != OPTIMIZER)
    out[of_loss] = recorded.ignored_share
    return out


def _products(dims: list[list[int]]) -> set[int]:
    """Numbers of positions in shapes that hold them as rows times width, in front of the classes or of what makes them."""
    return {int(np.prod(each[:-1])) for each in dims if len(each) > 2}


class _Shapes:
    """Shapes of operators, parsed once for each distinct text."""

    def __init__(self, context: Context, rows: Ints) -> None:
        self._context, self._rows = context, rows
        table = context.tables["op"]
        host = context.recording.host
        self._codes = table["dims"][host.row[rows]]
        self._names = host.name[rows]
        used = np.unique(self._codes)
        self._dims = {int(code): _parsed(context.shape_texts[code]) for code in used.tolist()}

    def of(self, name: str) -> list[list[list[int]]]:
        """Distinct shapes of the inputs of operators of one name."""
        if name not in self._context.names:
            return []
        codes = np.unique(self._codes[self._names == self._context.names.index(name)])
        return [self._dims[code] for code in codes.tolist()]

    def where(self, holds: Callable[[list[list[int]]], bool]) -> npt.NDArray[np.bool_]:
        """Flag operators whose shapes do what is asked."""
        good = [code for code, dims in self._dims.items() if holds(dims)]
        return np.isin(self._codes, good)


def _parsed(text: str) -> list[list[int]]:
    return [[int(number) for number in _NUMBER.findall(part)] for part in _DIMS.findall(text)]

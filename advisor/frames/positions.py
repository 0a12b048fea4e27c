"""Work on positions that do not count: padding, positions without a label, and pairs of positions that a mask rules out.

Columns of `ops`, from what the recorder saw.

An operator works on the padded positions where its shapes, or those of one around it, hold the padded width, alone or times
the rows of the batch; on
the logits where they hold the classes of the loss together with its positions.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from advisor.frames.patterns.operands import made_by_convolution
from advisor.frames.patterns.tree import Shapes
from advisor.intervals import Bools, Ints, distinct
from advisor.reading.program_settings import Mask
from advisor.regex import regex
from advisor.timeline.calls import OPTIMIZER
from advisor.timeline.context import Context

Floats = npt.NDArray[np.float64]
Operands = tuple[tuple[int, ...], ...]
_LOSS = regex(r"^aten::(?:nll_loss(?:2d)?_forward|cross_entropy_loss)$")
_ATTENTION = regex(r"^aten::_?(?:scaled_dot_product|flash_attention|efficient_attention)")
_STRIDED = regex(r"^aten::(?:conv[12]d|convolution)$")
_SOFTMAX = ("aten::_softmax", "aten::_log_softmax", "aten::softmax")
_MOST_WIDTHS = 16
_LEAST_CLASSES = 256
"""Fewer classes than these cost next to nothing to compute."""
_REPACKED = 2
"""Times as long, at the most, as another packed batch of the same loop."""


def padding_share(context: Context, rows: Ints) -> Floats:
    """Share of each operator's work that is on padding; NULL where none was seen, and for operators without the width."""
    recorded, out = context.metadata.recorded, np.full(len(rows), np.nan)
    if recorded is None or not len(rows):
        return out
    for width, longest, find in (
        (recorded.batch_width, recorded.batch_longest, _of_words),
        (recorded.feature_width, recorded.feature_longest, _of_frames),
    ):
        if width and longest is not None and longest < width and np.isnan(out).all():
            out = find(context, rows, width, longest / width)
    return out


def _of_words(context: Context, rows: Ints, width: int, kept: float) -> Floats:
    """Share of work on padding where rows of words are looked up in an embedding."""
    out = np.full(len(rows), np.nan)
    shapes = _Operators(context, rows)
    looked_up = [dims for dims in shapes.of("aten::embedding") if len(dims) > 1 and width in dims[1]]
    if not looked_up:
        return out
    batches = {dims[1][0] for dims in looked_up if len(dims[1]) == 2}
    counts = {width} | {dims[1][0] * width for dims in looked_up if len(dims[1]) == 2}
    own = np.where(shapes.where(lambda dims: any(count in each for each in dims for count in counts)), 1, -1)
    own[shapes.where(lambda dims: _squared(dims, width, batches))] = 2
    own[shapes.named(_ATTENTION) & (own > 0)] = 2
    return _shares(context, rows, own, kept)


def _of_frames(context: Context, rows: Ints, width: int, kept: float) -> Floats:
    """Share of work on padding where rows of frames go into layers: of every length that convolutions make of the width."""
    shapes = _Operators(context, rows)
    fed = {each[0] for dims in shapes.all() for each in dims if len(each) > 1 and width in each[1:]}
    widths = {width} | shapes.shortened(width)
    counts = {rows * each for rows in fed for each in widths}
    own = np.where(shapes.where(lambda dims: any(_holds(each, widths, counts) for each in dims)), 1, -1)
    own[shapes.where(lambda dims: any(_squared(dims, each, fed) for each in widths))] = 2
    own[shapes.named(_ATTENTION) & (own > 0)] = 2
    return _shares(context, rows, own, kept)


def _holds(shape: tuple[int, ...], widths: set[int], counts: set[int]) -> bool:
    """Tell whether a shape is of frames: rows of them, or all frames one after the other."""
    if len(shape) > 2:
        return not widths.isdisjoint(shape)
    return bool(shape) and (shape[0] in counts or (len(shape) == 2 and shape[1] in counts))


def _shares(context: Context, rows: Ints, own: Ints, kept: float) -> Floats:
    """Share of work on padding of operators by the power of the width that they work on (-1: not on it)."""
    out = np.full(len(rows), np.nan)
    # A recurrent layer runs its own loop over the width: what is inside of it, forward and backward, is as many turns.
    power = _with_backward(context, rows, own)
    wide = (power > 0) & (context.phases(rows) != OPTIMIZER)
    out[wide] = 1 - kept ** power[wide]
    return out


def _squared(dims: Operands, width: int, batches: set[int]) -> bool:
    """Tell whether an operator works on each position for each other one: scores of attention, and their products.

    Scores are as wide as they are high, for each head of each row: three dimensions that begin with the rows of the batch are
    as likely positions times features.
    """
    for each in dims:
        if each[-2:] == (width, width) and (len(each) > 3 or (len(each) == 3 and each[0] not in batches)):
            return True
    if len(dims) < 2 or len(dims[0]) != len(dims[1]) or len(dims[0]) < 3 or dims[0][-1] != dims[1][-2]:
        return False
    sizes = (dims[0][-2], dims[0][-1], dims[1][-1])
    return (len(dims[0]) > 3 or dims[0][0] not in batches) and sizes.count(width) > 1


def _with_backward(context: Context, rows: Ints, own: Ints) -> Ints:
    """Marks of operators (-1: none) handed down to what runs inside of them and in their backward, where that has none."""
    host = context.recording.host
    marks = np.full(host.size, -1, np.int64)
    marks[rows] = own
    handed: Ints = host.with_backward(marks)[rows]
    return handed


def unlabelled_share(context: Context, rows: Ints) -> Floats:
    """Share of each operator's work that is for positions without a label, likewise."""
    recorded, out = context.metadata.recorded, np.full(len(rows), np.nan)
    if recorded is None or not recorded.ignored_share or not len(rows):
        return out
    shapes = _Operators(context, rows)
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

    def on_logits(dims: Operands) -> bool:
        numbers = {number for each in dims for number in each}
        return bool(numbers & classes) and (bool(numbers & counts) or not counts.isdisjoint(_products(dims)))

    own = np.where(shapes.where(on_logits), 1, -1)
    of_loss = (_with_backward(context, rows, own) > 0) & (context.phases(rows) != OPTIMIZER)
    out[of_loss] = recorded.ignored_share
    return out


def _products(dims: Operands) -> set[int]:
    """Numbers of positions in shapes that hold them as rows times width, in front of the classes or of what makes them."""
    return {int(np.prod(each[:-1])) for each in dims if len(each) > 2}


def masked(context: Context, rows: Ints) -> tuple[Floats, Floats]:
    """Share of the scores of attention that each operator works on which a mask rules out, and of tiles where any is kept.

    NULL where it works on none. Of several masks of one size the least share counts. A size that a parameter has as well, as the
    optimizer shows, is none: its products look like those of scores.
    """
    recorded = context.metadata.recorded
    share, tiles = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    if recorded is None or not recorded.masks or not len(rows):
        return share, tiles
    shapes = _Operators(context, rows)
    updated = context.phases(rows) == OPTIMIZER
    scores = {dims[0][-2:] for name in _SOFTMAX for dims in shapes.of(name) if dims and len(dims[0]) > 1}
    for size in sorted(scores):
        alike = [mask for mask in recorded.masks if (mask.rows, mask.columns) in (size, size[::-1])]
        alike = alike or [mask for mask in recorded.masks if _repacked(mask, size, scores)]
        if not alike:
            continue
        holds = shapes.where(lambda dims, size=size: _pairs(dims, size))  # type: ignore[misc]
        if (holds & updated & shapes.where(lambda dims, size=size: size in dims)).any():  # type: ignore[misc]
            continue
        of_mask = (_with_backward(context, rows, np.where(holds, 1, -1)) > 0) & ~updated
        share[of_mask] = min(mask.share for mask in alike)
        tiles[of_mask] = max(mask.tiles for mask in alike)
    return share, tiles


def _repacked(mask: Mask, size: tuple[int, ...], scores: set[tuple[int, ...]]) -> bool:
    """Tell whether scores of a size may be those of a mask in another step: a batch into which others are packed."""
    seen = mask.rows
    square = mask.columns == seen and size[0] == size[1] and (seen, seen) not in scores
    return square and seen <= _REPACKED * size[0] <= _REPACKED**2 * seen


def _pairs(dims: Operands, size: tuple[int, ...]) -> bool:
    """Tell whether an operator is given scores of a size, or pairs of positions that they are made of, or makes them."""
    both = (size, size[::-1])
    for each in dims:
        if each[-2:] in both or each[-3:-1] in both or (len(each) > 1 and size[0] * size[1] in each):
            return True
    if len(dims) < 2 or len(dims[0]) < 2 or len(dims[1]) < 2:
        return False
    first, second = dims[0], dims[1]
    if first[-1] == second[-2] and (first[-2], second[-1]) in both:
        return True
    widest = tuple(max(pair) for pair in zip(first[-2:], second[-2:], strict=True))
    return widest in both and all(1 in pair or pair[0] == pair[1] for pair in zip(first[-2:], second[-2:], strict=True))


class _Operators:
    """Shapes of operators' inputs, read once for each distinct list."""

    def __init__(self, context: Context, rows: Ints) -> None:
        self._names, self._codes = context.recording.host.name[rows], context.op_column(rows, "dims")
        self._concrete, self._values = context.op_column(rows, "concrete"), Shapes(context.recording.recorded.inputs)
        self._all = context.names
        shapes = Shapes(context.recording.recorded.raws)
        self._operands = {code: shapes.operands(code) for code in distinct(self._codes).tolist()}

    def of(self, name: str) -> list[Operands]:
        """Distinct shapes of the inputs of operators of one name."""
        if name not in self._all:
            return []
        codes = distinct(self._codes[self._names == self._all.index(name)])
        return [self._operands[code] for code in codes.tolist()]

    def all(self) -> list[Operands]:
        """Distinct shapes of all inputs."""
        return list(self._operands.values())

    def shortened(self, width: int) -> set[int]:
        """Lengths that convolutions and poolings with a stride make of *width*, and of one another."""
        found, new = {width}, {width}
        chosen = np.flatnonzero(self.named(_STRIDED))
        kinds = np.unique(np.stack([self._codes[chosen], self._concrete[chosen]], axis=1), axis=0).tolist()
        while new and len(found) < _MOST_WIDTHS:
            made: set[int] = set()
            for dims, told in kinds:
                made |= made_by_convolution(self._operands.get(dims, ()), self._values.operands(told), new)
            new = made - found
            found |= new
        return found - {width}

    def named(self, pattern: re.Pattern[str]) -> Bools:
        """Flag operators by their name."""
        return np.array([pattern.match(name) is not None for name in self._all], np.bool_)[self._names]

    def where(self, holds: Callable[[Operands], bool]) -> Bools:
        """Flag operators whose shapes do what is asked."""
        return np.isin(self._codes, [code for code, operands in self._operands.items() if holds(operands)])

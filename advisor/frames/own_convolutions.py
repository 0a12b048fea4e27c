"""Convolutions that torch itself sends to its own operator, though oneDNN is on."""

from __future__ import annotations

import math

import numpy as np

from advisor.frames.patterns.operands import numbers
from advisor.frames.patterns.tree import Tree
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Bools, Ints, alike
from advisor.regex import regex
from advisor.timeline.context import Context

_OWN = regex(r"^aten::(?:_?slow_conv|thnn_conv2d)")
_BACKWARD = regex(r"_backward$")
_ONEDNN = "aten::mkldnn_convolution"
_FEW_IMAGES, _SMALL, _NARROW = 16, 20_480, 3
"""A batch of so many images goes to oneDNN whatever its filters; one image of so few numbers at most does not, where a filter is no
wider: torch's ConvParams::use_mkldnn, seen the same under torch 2.13."""


def by_choice(context: Context, rows: Ints) -> Bools:
    """Flag the convolutions that would run in torch's own operator all the same if oneDNN was switched on.

    They are those by filters of 1x1 without a stride, in batches of less than 16, on one thread, where torch's own product is as
    fast, and those of one small image. Where threads were not recorded, one is assumed. Where shapes were not, other convolutions
    that run in oneDNN show that it is on. False for other operators, and for other types than float32, which oneDNN does not take.
    """
    found = np.zeros(len(rows), np.bool_)
    host = context.recording.host
    own = np.array([_OWN.match(name) is not None for name in context.names], np.bool_)
    at = np.flatnonzero(own[host.name[rows]]) if len(rows) else rows
    if not len(at):
        return found
    tree, recorded = Tree(context), context.metadata.recorded
    alone = recorded is None or recorded.threads in (None, 1)
    columns = [host.name[rows[at]], *(context.op_column(rows[at], name) for name in ("dims", "types", "concrete"))]
    first, of = alike(*columns)
    chosen = []
    for name, dims, types, concrete in np.stack([column[first] for column in columns], axis=1).tolist():
        operands, words, texts = tree.shapes.operands(dims), tree.words(types), tree.texts(concrete)
        backward = 1 if _BACKWARD.search(context.names[name]) else 0
        if not all(operands[backward : 2 + backward]) or len(operands) < 2 + backward:
            chosen.append(_ONEDNN in context.names)
            continue
        if words and words[0] != "float":
            chosen.append(False)
            continue
        image, weight = operands[backward : 2 + backward]
        stride = numbers(texts, 4) or ()
        chosen.append(_is_small(image, weight) or (alone and _is_pointwise(image, weight, stride)))
    tree.close()
    found[at] = np.array(chosen, np.bool_)[of]
    return found


def _is_pointwise(image: Shape, weight: Shape, stride: Shape) -> bool:
    return weight[-2:] == (1, 1) and image[0] < _FEW_IMAGES and all(step == 1 for step in stride)


def _is_small(image: Shape, weight: Shape) -> bool:
    return image[0] == 1 and math.prod(image[:4]) <= _SMALL and min(weight[-2:]) <= _NARROW

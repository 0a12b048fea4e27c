"""Operators on copies: a tensor is expanded to the batch, and then each of its equal copies is computed with.

An expanded dimension has the stride 0. What works on each element, or on each matrix of a batch, gives equal results for equal
inputs: computed before it is expanded, it takes the time of one copy.
"""

from __future__ import annotations

import json

import numpy as np

from advisor.frames.patterns.dense_embedding import MILLION, Floats
from advisor.frames.patterns.operands import beyond, launched, numbers, worked
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree
from advisor.intervals import Ints, alike
from advisor.regex import regex
from advisor.timeline.calls import FORWARD

_ELEMENTS = regex(
    r"^aten::(?:add|sub|rsub|mul|div|true_divide|floor_divide|remainder|pow|square|sqrt|rsqrt|exp|expm1|exp2|log|log1p|log2|log10"
    r"|sigmoid|log_sigmoid|tanh|relu6?|gelu|silu|elu|leaky_relu|softplus|hardtanh|sin|cos|tan|atan|atan2|neg|abs|reciprocal|round"
    r"|floor|ceil|sign|clamp|clamp_min|clamp_max|clip|where|masked_fill|maximum|minimum|eq|ne|lt|le|gt|ge|logical_\w+|nan_to_num"
    r"|lerp|addcmul|addcdiv|erf|erfinv|logit|lgamma|digamma|isclose|isnan|isfinite|softmax|log_softmax)$"
)
_MATRICES = regex(
    r"^aten::(?:tril|triu|inverse|cholesky|cholesky_inverse|svd|qr|pinverse|matrix_exp|bmm|logdet|det|slogdet"
    r"|linalg_(?:inv|inv_ex|svd|svdvals|eigh?|eigvalsh?|qr|lu|lu_factor|cholesky|cholesky_ex|pinv|matrix_exp|matrix_power|det"
    r"|slogdet|solve|solve_ex|solve_triangular))$"
)
"""Operators on the last two dimensions: the others are a batch."""
_DRAWS = "aten::multinomial"
"""Draws from rows of weights, which are of one distribution where the rows are equal: all can be drawn from it at once."""
_CALL_NS, _WEIGHT_NS, _DRAW_NS = 30_000.0, 20.0, 100.0
"""Time of drawing with replacement from one row of weights: of the call, for each weight, for each draw."""
_TWICE = 0.01
"""Of rows in which drawing with replacement takes one of equal weights twice: of more it is another sample."""
_LEAST = 4
"""Copies from which on they are counted."""
_MOST = 200_000


def expanded_copies(tree: Tree) -> Occurrences | None:
    """One row per operator all of whose tensors are expanded along the same dimension.

    ``repeats`` says how many equal copies it computes, and ``part`` what all but one of them take.
    """
    host, on_cpu = tree.host, tree.context.cpu_program
    nodes = tree.outermost
    nodes = nodes[host.attributes.phase[nodes] == FORWARD]
    # A GPU works on the matrices of a batch side by side: many small ones take hardly longer than one.
    known = tree.codes_of(lambda name: bool(_ELEMENTS.match(name) or (on_cpu and _on_cpu(name))))
    nodes = nodes[known[host.name[nodes]]]
    if not 0 < len(nodes) <= _MOST:
        return None
    keys = (host.name[nodes], tree.dims(nodes), tree.context.op_column(nodes, "strides"))
    first, of = alike(*keys)
    kinds = zip(*(key[first].tolist() for key in keys), strict=True)
    copies = np.array([_copies(tree, *kind) for kind in kinds], np.int64)[of]
    drawn = tree.codes_of(_DRAWS.__eq__)[host.name[nodes]]
    left = np.zeros(len(nodes))
    left[drawn & (copies >= _LEAST)] = _left_of_draws(tree, nodes[drawn & (copies >= _LEAST)])
    kept = (copies >= _LEAST) & np.isfinite(left)
    nodes, copies, drawn, left = nodes[kept], copies[kept], drawn[kept], left[kept]
    if not len(nodes):
        return None
    marks, late = Pairs(np.arange(len(nodes)), nodes), np.ones(len(nodes), np.bool_)
    work = NOTHING if on_cpu else launched(tree, marks, backward=late)
    took = np.maximum(host.end[nodes] - host.start[nodes], 1)
    part = np.where(drawn, np.maximum(1 - left / took, 0), 1 - 1 / copies)
    return Occurrences(
        kind="expanded",
        node=nodes,
        begin=host.start[nodes],
        end=host.end[nodes],
        inside=work,
        own=work,
        ops=worked(tree, marks, backward=late) if on_cpu else NOTHING,
        figures={
            "repeats": copies,
            "part": np.rint((part if on_cpu else beyond(tree, work, part)) * MILLION).astype(np.int64),
            "dims": tree.dims(nodes),
        },
        details=[tree.context.names[code].removeprefix("aten::") for code in host.name[nodes].tolist()],
    )


def _copies(tree: Tree, name: int, dims: int, strides: int) -> int:
    """Return how often an operator computes the same, by the strides of its tensors; 1 where they differ, or are not known."""
    inputs = tree.context.recording.recorded.inputs
    try:
        told = json.loads(bytes(inputs[strides])) if 0 <= strides < len(inputs) else None
    except (ValueError, RecursionError):
        return 1
    operands = tree.shapes.operands(dims)
    if not isinstance(told, list) or len(told) != len(operands):
        return 1
    tensors = []
    for shape, steps in zip(operands, told, strict=True):
        if not shape:
            continue
        if not isinstance(steps, list) or len(steps) != len(shape):
            return 1
        tensors.append(list(zip(shape, steps, strict=True))[::-1])
    if not tensors:
        return 1
    first = 2 if _MATRICES.match(tree.context.names[name]) else 1 if tree.context.names[name] == _DRAWS else 0
    copies = 1
    for at in range(first, max(map(len, tensors))):
        along = [tensor[at] for tensor in tensors if at < len(tensor) and tensor[at][0] > 1]
        if along and all(step == 0 for _, step in along):
            copies *= int(along[0][0])
    return copies


def _on_cpu(name: str) -> bool:
    return name == _DRAWS or _MATRICES.match(name) is not None


def _left_of_draws(tree: Tree, nodes: Ints) -> Floats:
    """Time of drawing from one row with replacement, in place of draws from equal rows; infinite where that is another sample."""
    left = np.full(len(nodes), np.inf)
    concrete = tree.context.op_column(nodes, "concrete").tolist()
    for at, (dims, code) in enumerate(zip(tree.dims(nodes).tolist(), concrete, strict=True)):
        rows, weights = tree.shapes.operands(dims)[0][-2:]
        texts = tree.texts(code)
        draws = (numbers(texts, 1) or (0,))[0]
        replaced = texts is not None and texts[2:3] == ["True"]
        if draws and (replaced or draws * (draws - 1) <= 2 * weights * _TWICE):
            left[at] = _CALL_NS + _WEIGHT_NS * weights + _DRAW_NS * rows * draws
    return left

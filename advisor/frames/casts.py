"""Conversions inside operators, of a weight or an activation: a column of `kernels`, by shapes of the operator around."""

from __future__ import annotations

import json

import numpy as np

from advisor.intervals import Ints, fetch
from advisor.regex import regex
from advisor.timeline.context import Context
from advisor.timeline.launch_origin import outermost

CONVERTED = ("weight", "activation")
_WEIGHT, _ACTIVATION = range(len(CONVERTED))
# Operators to the places of their parameters among the operands: all else that they are given is computed.
_PARAMETERS = (
    (regex(r"^aten::(?:linear|conv(?:_transpose)?[123]d|conv(?:olution|_tbc)|prelu)$"), (1, 2)),
    (regex(r"^aten::layer_norm$"), (2, 3)),
    (regex(r"^aten::group_norm$"), (2, 3)),
    (regex(r"^aten::(?:b?addbmm|bmm|scaled_dot_product_attention|softmax|log_softmax)$"), ()),
)
_MOST = 1 << 16


def converted(context: Context, rows: Ints) -> Ints:
    """Code of what each kernel in an ``aten::copy_`` inside an operator converts; -1 where the operator does not tell."""
    host = context.recording.host
    launch = context.recording.work.launch[rows]
    out = np.full(len(rows), -1, np.int64)
    call, around = fetch(host.attributes.op, launch), outermost(context, launch)
    copies = np.array([name == "aten::copy_" for name in context.names], np.bool_)
    places = {
        code: found[0]
        for code, name in enumerate(context.names)
        if (found := [where for pattern, where in _PARAMETERS if pattern.match(name)])
    }
    chosen = np.flatnonzero((call >= 0) & (around >= 0) & (around != call))
    chosen = chosen[copies[host.name[call[chosen]]] & np.isin(host.name[around[chosen]], list(places))]
    if not len(chosen):
        return out
    keys = np.stack(
        [
            host.name[around[chosen]],
            context.op_column(around[chosen], "dims"),
            context.op_column(call[chosen], "dims"),
        ]
    )
    keys, back = np.unique(keys, axis=1, return_inverse=True)
    texts = context.shape_texts
    told = [
        _told(texts[outer], texts[copy], places[name]) if outer >= 0 and copy >= 0 else -1
        for name, outer, copy in keys.T.tolist()
    ]
    out[chosen] = np.array(told, np.int64)[back.ravel()]
    return out


def _told(outer: str, copy: str, places: tuple[int, ...]) -> int:
    """Tell it of one conversion; -1 where a parameter has the shape of another operand."""
    try:
        operands, shape = json.loads(outer), json.loads(copy)[0] if len(outer) + len(copy) < _MOST else None
        parameters = [operands[place] for place in places if place < len(operands)]
        others = [operand for place, operand in enumerate(operands) if place not in places]
    except (ValueError, TypeError, IndexError, RecursionError):
        return -1
    if not shape or (shape in parameters and shape in others):
        return -1
    return _WEIGHT if shape in parameters else _ACTIVATION

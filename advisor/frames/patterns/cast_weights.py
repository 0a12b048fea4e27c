"""Weights that autocast converts again in each call of a layer, on the CPU.

Autocast keeps a converted weight until its context ends only where the weight needs a gradient and gradients are recorded. In
inference, and of frozen layers, it keeps none.
"""

from __future__ import annotations

import numpy as np

from advisor.frames.patterns.tree import HIGHEST, NOTHING, Occurrences, Tree
from advisor.intervals import Ints
from advisor.regex import regex
from advisor.timeline.calls import OP

_LAYER = regex(
    r"^aten::(?:(?P<second>linear|conv[123]d|conv_transpose[123]d|convolution|_convolution)"
    r"|(?P<third>addmm|_addmm_activation)|(?P<fourth>_native_multi_head_attention))$"
)
"""Operators with a weight, by the first operand that may be one: those before it are a bias and what comes in."""
_FIRST = {"second": 1, "third": 2, "fourth": 3}
_CONVERSION = regex(r"^aten::(?:to|_to_copy)$")
_TO = (b"c10::BFloat16", b"c10::Half")


def cast_weights(tree: Tree) -> Occurrences | None:
    """One row per conversion of a layer's weight from float to 16 bits inside of the layer; ``dims`` are those of the copy."""
    if not tree.context.cpu_program:
        return None
    host = tree.host
    nodes = tree.ops(tree.codes_of("aten::copy_".__eq__))
    nodes = nodes[_narrows(tree, nodes)]
    if not len(nodes):
        return None
    layers = tree.codes_of(lambda name: _LAYER.match(name) is not None)[host.name] & (host.group == OP)
    layer = host.above(nodes, layers, HIGHEST)
    nodes, layer = nodes[layer >= 0], layer[layer >= 0]
    pairs = np.stack([tree.dims(nodes), tree.dims(layer), host.name[layer]], axis=1)
    kinds, of = np.unique(pairs, axis=0, return_inverse=True)
    weighs = (
        np.array([_is_weight(tree, *kind) for kind in kinds.tolist()], np.bool_)[of.ravel()] if len(kinds) else of > 0
    )
    nodes, layer = nodes[weighs], layer[weighs]
    if not len(nodes):
        return None
    names = tree.context.names
    whole = _outermost_conversion(tree, nodes, layer)
    return Occurrences(
        kind="cast-weight",
        node=nodes,
        begin=host.start[whole],
        end=host.end[whole],
        inside=NOTHING,
        own=NOTHING,
        ops=tree.ops_below(whole).each_once(),
        figures={"dims": tree.dims(nodes)},
        details=[names[code].removeprefix("aten::") for code in host.name[layer].tolist()],
    )


def _narrows(tree: Tree, nodes: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Flag copies of floats into tensors of 16 bits."""
    codes = tree.context.op_column(nodes, "types")
    raws = tree.context.recording.recorded.raws
    narrow = np.zeros(max(len(raws), 1), np.bool_)
    for code in np.unique(codes[codes >= 0]).tolist():
        words = [word.strip(b'[] "') for word in raws[code].split(b",")]
        narrow[code] = words[0] in _TO and words[1:2] == [b"float"]
    return (codes >= 0) & narrow[np.maximum(codes, 0)]


def _is_weight(tree: Tree, copied: int, layer: int, name: int) -> bool:
    """Tell whether what is copied has the shape of a layer's weight, and not that of its input."""
    told = _LAYER.match(tree.context.names[name])
    first, operands = tree.shapes.operands(copied)[:1], tree.shapes.operands(layer)
    if told is None or not first or len(first[0]) < 2:
        return False
    at = _FIRST[str(told.lastgroup)]
    return first[0] in operands[at:] and first[0] not in operands[:at]


def _outermost_conversion(tree: Tree, nodes: Ints, layer: Ints) -> Ints:
    """Return, for each copy, the conversion around it that lies inside of its layer; the copy itself where there is none."""
    host = tree.host
    converts = tree.codes_of(lambda name: _CONVERSION.match(name) is not None)[host.name] & (host.group == OP)
    whole = nodes.copy()
    while True:
        up = host.above(whole, converts, 1)
        on = (up > layer) & converts[np.maximum(up, 0)]
        if not on.any():
            return whole
        whole = np.where(on, up, whole)

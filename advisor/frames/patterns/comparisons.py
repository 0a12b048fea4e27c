"""Comparisons of large tensors with one number after the other, in a loop that Python runs; and the operators around them."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from advisor.frames.patterns.operands import keys
from advisor.frames.patterns.tree import Tree, size_of
from advisor.intervals import Ints, distinct
from advisor.regex import regex
from advisor.timeline.calls import BACKWARD
from advisor.timeline.operator_names import moves_no_data

_COMPARES = frozenset(f"aten::{name}" for name in ("eq", "ne", "lt", "le", "gt", "ge"))
_REDUCES = regex(
    r"^aten::(?:(?:nan)?sum|(?:nan)?mean|any|all|count_nonzero|amax|amin|max|min|std|var|prod|dot|norm|linalg_vector_norm"
    r"|logsumexp)$"
)
_SELECTS = regex(r"^aten::(?:index|masked_select|nonzero|argwhere|_?index_put(?:_impl)?_?)$")
_FILLS = regex(r"^aten::(?:masked_fill_?|where)$")
"""Writes by a mask: a lookup where the mask is of a class, the end of a sequence where it is of an order."""
_ARITHMETIC = regex(
    r"^aten::(?:add|sub|rsub|mul|div|true_divide|pow|square|sqrt|abs|neg|exp|log|log1p|sigmoid|tanh|clamp|clamp_min|clamp_max|clip"
    r"|maximum|minimum|remainder|floor_divide|reciprocal)_?$"
)
_BESIDE = regex(
    r"^aten::(?:eq|ne|lt|le|gt|ge|logical_\w+|bitwise_\w+|__\w+__|to|_to_copy|copy_|clone|contiguous|float|zeros|zeros_like|ones"
    r"|ones_like|full|full_like|new_\w+|fill_|zero_|stack|cat|item|is_nonzero|isnan|isfinite|nan_to_num|argmax|index_select|tensor"
    r"|lift_fresh|type_as)$"
)
"""Other operators of a turn that are gone, or stand once, where all classes are counted at once."""
_OWN_WORK = regex(
    r"^aten::(?:linear|addmm|mm|matmul|bmm|baddbmm|mv|einsum|_?conv\w*|embedding\w*|lstm|gru|rnn_\w+|\w+_cell|(?:native_)?\w+_norm"
    r"|scaled_dot_product_attention|\w*_loss\w*|binary_cross_entropy\w*|rand\w*|normal_?|multinomial|bernoulli_?|dropout"
    r"|\w+_dropout|sort|argsort|topk|median|quantile|nanmedian|unique\w*|_unique2?|cdist|linalg_(?!vector_norm)\w+|cholesky\w*"
    r"|svd)$"
    r"|^torchvision::|^triton_|^Torch-Compiled|Function$"
)
"""Layers, losses, draws, orders: a turn's own work for its class. The classes are then no matter of one call."""
_JOINS = regex(r"^aten::(?:logical_\w+|bitwise_\w+|__(?:and|or|xor)__)$")
_WRITES = regex(r"^aten::(?:_?index_put_?|masked_fill_|copy_|scatter_|masked_scatter_)$")
LEAST = 6
"""Classes from which on a loop is one: a few thresholds are written out by hand."""
_SMALLEST = 64
"""Elements of the tensor that is compared: fewer are numbers of a model, no labels."""
_GAP = 60
"""Operators of a turn at most."""
_MOST = 500_000


class Compared(Struct, eq=False):
    """Comparisons of large tensors with one number, in order: place among the items, group, elements, code of the number (-1:
    of a tensor), the number."""

    at: Ints
    group: Ints
    size: Ints
    code: Ints
    value: list[float]

    def where(self, chosen: Ints) -> Compared:
        """Some of them."""
        value = [self.value[one] for one in chosen.tolist()]
        return Compared(self.at[chosen], self.group[chosen], self.size[chosen], self.code[chosen], value)


class Items:
    """Operators that Python calls outside of the backward pass, in order, and what a turn's are."""

    def __init__(self, tree: Tree) -> None:
        host = tree.host
        outer = tree.outermost
        self.tree = tree
        self.nodes: Ints = outer[(host.attributes.phase[outer] != BACKWARD) & ~tree.engine[outer]]
        self.name: Ints = host.name[self.nodes]
        self.took: Ints = host.end[self.nodes] - host.start[self.nodes]
        self.silent = tree.codes_of(moves_no_data)
        self.compares = tree.codes_of(_COMPARES.__contains__)
        self.reduces, self.selects, self.fills, self.own, self.writes, self.arithmetic, self.beside, self.joins = (
            tree.codes_of(lambda name, form=form: form.search(name) is not None)  # type: ignore[misc]
            for form in (_REDUCES, _SELECTS, _FILLS, _OWN_WORK, _WRITES, _ARITHMETIC, _BESIDE, _JOINS)
        )

    def shapes(self, at: int) -> list[tuple[int, ...]]:
        """Shapes of an item's tensors."""
        code = int(self.tree.dims(self.nodes[at : at + 1])[0])
        return [shape for shape in self.tree.shapes.operands(code) if shape]

    def type(self, at: int) -> str:
        """Type of an item's first operand."""
        code = int(self.tree.context.op_column(self.nodes[at : at + 1], "types")[0])
        return (self.tree.words(code) or [""])[0]

    def before(self, at: int) -> int:
        """The item before one that is no view, and no question; -1 for none."""
        for back in range(at - 1, max(at - 9, -1), -1):
            if not self.silent[self.name[back]]:
                return back
        return -1


def _compared(items: Items) -> Compared | None:
    """All comparisons of a large tensor with one number."""
    tree, host = items.tree, items.tree.host
    at = np.flatnonzero(items.compares[items.name])
    if not LEAST <= len(at) <= _MOST:
        return None
    nodes = items.nodes[at]
    kinds, of = keys(tree, nodes, "dims", "types", "concrete")
    facts = [_fact(tree, dims, types, concrete) for _, dims, types, concrete in kinds]
    size = np.array([size for size, _ in facts], np.int64)[of]
    known = np.array([value is not None for _, value in facts], np.bool_)[of]
    texts = np.array([concrete for *_, concrete in kinds], np.int64)[of]
    step = tree.context.recording.host_step_of(host.start[nodes])
    columns = [step, host.thread[nodes], host.attributes.user[nodes], host.name[nodes]]
    columns += [tree.context.op_column(nodes, column) for column in ("dims", "types")]
    _, group = np.unique(np.stack([column.astype(np.int64) for column in columns], axis=1), axis=0, return_inverse=True)
    kept = np.flatnonzero(size >= _SMALLEST)
    value = [facts[one][1] or 0.0 for one in of.tolist()]
    return Compared(at, group.ravel(), size, np.where(known, texts, -1), value).where(kept)


def _fact(tree: Tree, dims: int, types: int, concrete: int) -> tuple[int, float | None]:
    """Elements of what is compared with one number, -1 for other comparisons; and the number, None where it is a tensor's."""
    operands, words = tree.shapes.operands(dims), tree.words(types)
    if len(operands) < 2 or not words or len(words) < 2 or size_of(operands[1]) not in (-1, 1):
        return -1, None
    texts = tree.texts(concrete)
    if words[1] != "Scalar" or texts is None or len(texts) < 2:
        return size_of(operands[0]), None
    try:
        return size_of(operands[0]), float({"True": "1", "False": "0"}.get(texts[1], texts[1]))
    except ValueError:
        return -1, None


def hulls(items: Items) -> list[tuple[int, int, Compared]]:
    """Ranges of items from the first to the last comparison of a run with enough numbers, and all comparisons in each."""
    compared = _compared(items)
    if compared is None or not len(compared.at):
        return []
    order = np.lexsort((compared.at, compared.group))
    at, group, code = compared.at[order], compared.group[order], compared.code[order]
    edges = np.flatnonzero((np.diff(group) != 0) | (np.diff(at) > _GAP)) + 1
    ranges: list[tuple[int, int]] = []
    for low, high in zip(np.append(0, edges).tolist(), np.append(edges, len(at)).tolist(), strict=True):
        if high - low < LEAST:
            continue
        told = code[low:high]
        if len(distinct(told)) >= LEAST or (told[0] < 0 and _taken_apart(items, at[low:high])):
            ranges.append((int(at[low]), int(at[high - 1])))
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    found = []
    for first, last in merged:
        low, high = np.searchsorted(compared.at, [first, last + 1])
        found.append((first, last, compared.where(np.arange(low, high))))
    return found


def _taken_apart(items: Items, at: Ints) -> bool:
    """Tell whether the tensors that a run compares with are the numbers of one of its own: taken apart before, or picked in turn.

    A pick of what is compared itself (labels == labels[i]) is a loop over samples.
    """
    names, whole = items.tree.context.names, items.shapes(int(at[0]))[:1]
    low = max(int(at[0]) - 12, 0)
    for place in range(low, int(at[1])):
        name, shapes = names[items.name[place]], items.shapes(place)
        if name == "aten::unbind" and shapes and len(shapes[0]) == 1 and shapes[0][0] >= LEAST:
            return bool(place < at[0])
        if name == "aten::select" and place > at[0] - 4 and shapes and len(shapes[0]) == 1:
            other: bool = shapes[:1] != whole
            return other
    return False

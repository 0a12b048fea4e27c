"""Text that is generated token by token: without a cache of keys and values, or with one that is copied for each token."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.tree import NOTHING, Occurrences, Tree, size_of
from advisor.intervals import Bools, Ints, alike, distinct
from advisor.regex import regex

Shape = tuple[int, ...]
Operands = tuple[Shape, ...]
Reader = Callable[[str, Operands], tuple[object, int, int] | None]
"""Reader of a call: a key that those of one sequence share, its length, and the step where the operands tell it (else 0)."""
LEAST_TURNS, _TURNS_ALONE = 5, 8
"""Lengths in a row, each longer by the same, that are a loop and not chance; and where nothing is seen to be put behind them."""
# Operator to the positions of the rows and of the weight among its operands, and of the weight's dimension that they share.
_PRODUCTS = {
    "aten::linear": (0, 1, 1),
    "aten::matmul": (0, 1, 0),
    "aten::addmm": (1, 2, 0),
    "aten::mm": (0, 1, 0),
}
_EACH_ROW = regex(
    r"^aten::(?:layer_norm|rms_norm|_?softmax|scaled_dot_product_attention|embedding|bmm|baddbmm|gelu|relu6?|silu|tanh|sigmoid|add|sub|rsub"
    r"|mul|div|pow|rsqrt|mean|masked_fill|where|clone|contiguous|copy|to)_?$"
)
"""Operators on the rows of a text that a cache leaves one row of: attention asks for one token's, and reads all keys and values."""
PICKS = frozenset({"aten::index", "aten::index_select", "aten::gather"})
_FEW_ROWS = {True: 8, False: 64}
"""Rows of a product that take as long as one, on a CPU and on a GPU: then the weights' bytes count."""
_CALL_NS = 5_000
"""An operator's call on the CPU, whatever it computes."""
CACHE_RANKS = (3, 4, 5)
"""Of a cache: sequences, heads, tokens and their width; the first two in one; or keys and values stacked in one."""


def copied_cache(tree: Tree) -> Occurrences | None:
    """One row per concatenation of a cache of keys or values with those of the next tokens: both in whole written again.

    The same shape comes back in each iteration, longer by as many tokens as were put behind it the time before. A cache whose
    sequences are put into another order with each token (beam search) is written in whole for that, too: a buffer made such a
    search 8 to 27 % slower, so that its concatenations are left out.
    """
    nodes = tree.ops(tree.codes_of("aten::cat".__eq__)) if not tree.context.training() else tree.host.name[:0]
    if len(nodes) < LEAST_TURNS:
        return None
    chosen, length, step = growing(tree, nodes, cache, LEAST_TURNS)
    kept = ~reordered(tree, nodes[chosen])
    return _occurrences(tree, "copied-cache", nodes[chosen[kept]], {"seq_len": length[kept], "length": step[kept]})


def reordered(tree: Tree, nodes: Ints) -> Bools:
    """Flag concatenations of a tensor of whose shape another is indexed: as beams are, not as a few rows are drawn of a memory."""
    picks = tree.ops(tree.codes_of(PICKS.__contains__))
    operands = [tree.shapes.operands(code) for code in distinct(tree.dims(picks)).tolist()]
    trains = tree.context.training()
    given = {each[:1] for each in operands if each and not _draws(each, unknown=trains)}
    first = [tree.shapes.operands(code)[:1] for code in tree.dims(nodes).tolist()]
    flags: Bools = np.array([one in given for one in first], np.bool_)
    return flags


def _draws(operands: Operands, *, unknown: bool) -> bool:
    """Tell whether the indices of a pick are a quarter of the first dimension, or fewer; *unknown* where they were not recorded."""
    indices = [size_of(shape) for shape in operands[1:] if shape]
    return 4 * max(indices) <= operands[0][0] if indices and operands[0] else unknown


def without_cache(tree: Tree) -> Occurrences | None:
    """One row per product with a weight whose rows grow by the same number from iteration to iteration.

    Each computes the prefix again that the one before computed. ``length`` is the number by which they grow, which is that of
    the sequences, ``repeats`` how many tokens of each it computes, and ``part`` what goes of its time. On the CPU also one row
    per operator on these rows between the products.
    """
    codes = tree.codes_of(_PRODUCTS.__contains__)
    nodes = tree.ops(codes) if codes.any() and not tree.context.training() else tree.host.name[:0]
    if len(nodes) < LEAST_TURNS:
        return None
    nodes = nodes[tree.host.above(nodes, codes[tree.host.name]) < 0]
    joins = tree.ops(tree.codes_of("aten::cat".__eq__))
    appended = len(joins) >= LEAST_TURNS and len(growing(tree, joins, _appended, LEAST_TURNS)[0]) > 0
    chosen, length, step = growing(tree, nodes, _rows, LEAST_TURNS if appended else _TURNS_ALONE)
    whole = (length % step == 0) & (length >= 2 * step)
    nodes, tokens, step = nodes[chosen[whole]], length[whole] // np.maximum(step[whole], 1), step[whole]
    few = _FEW_ROWS[tree.context.cpu_program]
    part = np.maximum(1 - np.maximum(few, step) / np.maximum(tokens * step, 1), 0.0)
    if tree.context.cpu_program and len(nodes):
        beside, tokens_of, sequences = _between(tree, nodes, tokens, step)
        took = np.maximum(tree.host.end[beside] - tree.host.start[beside], 1)
        spared = np.maximum(1 - 1 / np.maximum(tokens_of, 1) - _CALL_NS / took, 0.0)
        nodes, part = np.concatenate([nodes, beside]), np.concatenate([part, spared])
        tokens, step = np.concatenate([tokens, tokens_of]), np.concatenate([step, sequences])
        order = np.argsort(nodes, kind="stable")
        nodes, part, tokens, step = nodes[order], part[order], tokens[order], step[order]
    figures = {"repeats": tokens, "length": step, "part": np.rint(part * MILLION).astype(np.int64)}
    return _occurrences(tree, "no-cache", nodes, figures)


def _between(tree: Tree, products: Ints, tokens: Ints, step: Ints) -> tuple[Ints, Ints, Ints]:
    """Operators on the rows of a text between growing products, with its tokens and sequences.

    These are the calls that take a tensor with a row for each token of the product before them, or behind them.
    """
    called = tree.outermost[
        tree.codes_of(lambda name: _EACH_ROW.match(name) is not None)[tree.host.name[tree.outermost]]
    ]
    order = np.argsort(tree.host.start[products], kind="stable")
    at = np.searchsorted(tree.host.start[products[order]], tree.host.start[called])
    inside = (at > 0) & (at < len(products))
    called, at = called[inside], at[inside]
    before, behind = order[at - 1], order[at]
    thread = tree.host.thread
    kept = (thread[called] == thread[products[before]]) & (tokens[behind] - tokens[before] <= 1)
    found, number = [], []
    for node, code, one in zip(
        called[kept].tolist(), tree.dims(called[kept]).tolist(), before[kept].tolist(), strict=True
    ):
        shape = next(iter(tree.shapes.operands(code)), ())
        length, sequences = int(tokens[one]), int(step[one])
        rows = length in shape and size_of(shape) % (length * sequences) == 0
        if rows or size_of(shape[:-1]) == length * sequences:
            found.append(node)
            number.append(one)
    return np.array(found, np.int64), tokens[number], step[number]


def _occurrences(tree: Tree, kind: str, nodes: Ints, figures: dict[str, Ints]) -> Occurrences | None:
    if not len(nodes):
        return None
    inside = tree.launched_below(nodes)
    return Occurrences(
        kind=kind,
        node=nodes,
        begin=tree.host.start[nodes],
        end=tree.host.end[nodes],
        inside=inside,
        own=inside,
        ops=tree.ops_below(nodes) if tree.context.cpu_program else NOTHING,
        figures=figures | {"dims": tree.dims(nodes)},
    )


def cache(name: str, operands: Operands) -> tuple[object, int, int] | None:
    """Key, length and new tokens of a concatenation along one dimension of a cache; None for others."""
    return _appended(name, operands) if operands and len(operands[0]) in CACHE_RANKS else None


def _appended(name: str, operands: Operands) -> tuple[object, int, int] | None:
    """Key, length and new part of a concatenation of something longer with something shorter; None for others."""
    if len(operands) < 2 or len(operands[0]) != len(operands[1]):
        return None
    old, new = operands[:2]
    differ = [at for at, (one, other) in enumerate(zip(old, new, strict=True)) if one != other]
    # Another dimension that is as long as the new one's does not tell where it was put.
    if len(differ) != 1 or not 0 < new[differ[0]] < old[differ[0]]:
        return None
    at = differ[0]
    return (name, at, old[:at], old[at + 1 :]), old[at], new[at]


def _rows(name: str, operands: Operands) -> tuple[object, int, int] | None:
    """Weight and rows of a product, whose step is not known from it: 0; None for what multiplies no matrix of weights."""
    at, weight_at, shared = _PRODUCTS[name]
    if len(operands) <= weight_at:
        return None
    rows, weight = operands[at], operands[weight_at]
    if len(weight) != 2 or len(rows) < 2 or rows[-1] != weight[shared]:
        return None
    count = 1
    for length in rows[:-1]:
        count *= length
    return (name, weight), count, 0


def growing(tree: Tree, nodes: Ints, read: Reader, turns: int) -> tuple[Ints, Ints, Ints]:
    """Places in *nodes* of calls that are part of a growing sequence, with their length and the step by which it grows."""
    names, dims = tree.host.name[nodes], tree.dims(nodes)
    first_of, back = alike(names, dims)
    pairs = zip(names[first_of].tolist(), dims[first_of].tolist(), strict=True)
    facts = [read(tree.context.names[name], tree.shapes.operands(code)) for name, code in pairs]
    groups: dict[object, list[int]] = {}
    order = np.argsort(tree.host.start[nodes], kind="stable")
    thread = tree.host.thread[nodes[order]].tolist()
    for place, code, on in zip(order.tolist(), back[order].tolist(), thread, strict=True):
        fact = facts[code]
        if fact is not None:
            groups.setdefault((fact[0], on), []).append(place)
    places: list[int] = []
    lengths: list[int] = []
    steps: list[int] = []
    for members in groups.values():
        known = [facts[code] for code in back[members].tolist()]
        length = np.array([fact[1] for fact in known if fact is not None], np.int64)
        added = np.array([fact[2] for fact in known if fact is not None], np.int64)
        for first, last, step in _chains(length, turns):
            if added[first] in (0, step):
                places += members[first:last]
                lengths += length[first:last].tolist()
                steps += [step] * (last - first)
    return np.array(places, np.int64), np.array(lengths, np.int64), np.array(steps, np.int64)


def _chains(length: Ints, turns: int) -> list[tuple[int, int, int]]:
    """Stretches in which a length comes as often as the next and grows by one number: first, last (exclusive), the number.

    The first length is left out of a stretch: what is computed once is no repetition.
    """
    if len(length) < turns:
        return []
    begins = np.append(0, np.flatnonzero(np.diff(length)) + 1)
    ends = np.append(begins[1:], len(length))
    values, counts = length[begins], ends - begins
    grows = np.diff(values)
    # The last turn may be cut off by the end of the recording.
    alike: Bools = (counts[1:] == counts[:-1]) | (
        (np.arange(len(grows)) == len(grows) - 1) & (counts[1:] < counts[:-1])
    )
    linked = (grows > 0) & alike
    edges = np.flatnonzero(np.append(True, (np.diff(grows) != 0) | ~linked[1:] | ~linked[:-1])) if len(grows) else grows
    found = []
    for low, high in pairwise([*edges.tolist(), len(grows)]):
        if linked[low] and high - low >= turns - 1:
            found.append((int(begins[low + 1]), int(ends[high]), int(grows[low])))
    return found

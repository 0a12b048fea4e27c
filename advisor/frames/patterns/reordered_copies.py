"""Keys and values of a source that a beam search reorders with every token, beside the caches that grow: equal in all beams.

After each token each beam goes on from another one's text, so that the caches of the text are picked anew by beam. The keys and
values that attention reads of a source (a sentence, a picture) are the same for all beams of it: there the pick writes what was
there before.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from advisor.frames.patterns.generation import (
    CACHE_RANKS,
    LEAST_TURNS,
    PICKS,
    Operands,
    Shape,
    cache,
    growing,
    reordered,
)
from advisor.frames.patterns.tree import NOTHING, Occurrences, Tree, size_of
from advisor.intervals import Ints, distinct, fetch
from advisor.regex import regex
from advisor.timeline.memory import instants

_VIEWS = regex(
    r"^aten::(?:_?(?:unsafe_)?view|_?reshape|_reshape_alias|flatten|unflatten|transpose|permute|movedim|mT|t|expand|unsqueeze|squeeze"
    r"|contiguous|detach|alias)$"
)
"""Operators that leave a tensor's numbers as they are, all of them, whatever shape they give it."""
_ATTENTION = regex(
    r"^aten::_?(?:scaled_dot_product_\w*attention\w*|flash_attention_forward|efficient_attention_forward)$"
)
_PRODUCTS = {"aten::matmul": 0, "aten::bmm": 0, "aten::baddbmm": 1}
"""Products of attention, and the place of their first factor."""
_TURNS_BEFORE = 3
"""Turns that no growing concatenation tells: the first has none, the second puts one token behind one, the third begins a row."""


def reordered_copies(tree: Tree) -> Occurrences | None:
    """One row per pick of such keys or values: of one shape, equally many in turns in a row, which nothing but attention reads.

    ``length`` are their rows, ``repeats`` the turns of the search.
    """
    joins = tree.ops(tree.codes_of("aten::cat".__eq__)) if not tree.context.training() else tree.host.name[:0]
    if len(joins) < LEAST_TURNS:
        return None
    places, length, _ = growing(tree, joins, cache, LEAST_TURNS)
    chosen = reordered(tree, joins[places])
    joins, length = joins[places[chosen]], length[chosen]
    picks = tree.ops(tree.codes_of(PICKS.__contains__)) if len(joins) else joins
    nodes, repeats, rows = [], [], []
    for searched in _searches(tree, joins, length):
        for shape, group in _candidates(tree, picks, searched).items():
            kept = _every_turn(tree, np.array(group, np.int64), searched)
            if len(kept) and _only_read(tree, kept, shape):
                nodes += kept.tolist()
                repeats += [len(searched.starts)] * len(kept)
                rows += [shape[0]] * len(kept)
    if not nodes:
        return None
    node = np.array(nodes, np.int64)
    inside = tree.launched_below(node)
    return Occurrences(
        kind="reordered-copies",
        node=node,
        begin=tree.host.start[node],
        end=tree.host.end[node],
        inside=inside,
        own=inside,
        ops=tree.ops_below(node) if tree.context.cpu_program else NOTHING,
        figures={
            "repeats": np.array(repeats, np.int64),
            "length": np.array(rows, np.int64),
            "dims": tree.dims(node),
        },
    )


class _Search:
    """One search: the starts of its turns, the time in which it runs, and the shapes of the caches that grow in it."""

    def __init__(self, thread: int, starts: list[int], before: int, behind: int, grown: set[Shape]) -> None:
        self.thread, self.starts, self.before, self.behind, self.grown = thread, np.array(starts), before, behind, grown


def _searches(tree: Tree, joins: Ints, length: Ints) -> list[_Search]:
    """Searches, by the concatenations of their caches: a turn is as long as these stay of one length, and the next is longer."""
    host, found = tree.host, []
    for thread in distinct(host.thread[joins]).tolist():
        here = np.flatnonzero(host.thread[joins] == thread)
        here = here[np.argsort(host.start[joins[here]], kind="stable")]
        grows = np.diff(length[here])
        turns = np.append(0, np.flatnonzero(grows != 0) + 1)
        begins = np.append(0, np.flatnonzero(grows < 0) + 1)
        first = host.start[joins[here]]
        end = int(host.end[host.thread == thread].max())
        behind = 0
        for low, high in pairwise([*begins.tolist(), len(here)]):
            starts = first[turns[(turns >= low) & (turns < high)]].tolist()
            if len(starts) < LEAST_TURNS - 1:
                continue
            before = max(behind, starts[0] - _TURNS_BEFORE * (starts[1] - starts[0]))
            # The last turn takes about as long as the one before it.
            behind = min(int(first[high]) if high < len(here) else end, starts[-1] + 5 * (starts[-1] - starts[-2]) // 4)
            found.append(_Search(thread, starts, before, behind, _grown(tree, joins[here[low:high]])))
    return found


def _grown(tree: Tree, joins: Ints) -> set[Shape]:
    """Shapes before and behind the concatenations."""
    shapes: set[Shape] = set()
    for code in distinct(tree.dims(joins)).tolist():
        old, new = tree.shapes.operands(code)[:2]
        longer = tuple(one + other if one != other else one for one, other in zip(old, new, strict=True))
        shapes |= {old, longer}
    return shapes


def _candidates(tree: Tree, picks: Ints, searched: _Search) -> dict[Shape, list[int]]:
    """Picks of all rows of a tensor that is no growing cache, by its shape: as many indices as rows, as the caches have."""
    host = tree.host
    here = (host.thread[picks] == searched.thread) & (host.start[picks] >= searched.before)
    picks = picks[here & (host.start[picks] < searched.behind)]
    beams = {shape[0] for shape in searched.grown}
    found: dict[Shape, list[int]] = {}
    for node, code in zip(picks.tolist(), tree.dims(picks).tolist(), strict=True):
        operands = tree.shapes.operands(code)
        shape = next(iter(operands), ())
        indices = [other for other in operands[1:] if other]
        whole = all(other in ((shape[0],), shape) for other in indices) if shape else False
        if len(shape) in CACHE_RANKS and whole and shape[0] in beams and shape[0] > 1:
            found.setdefault(shape, []).append(node)
    return found


def _every_turn(tree: Tree, nodes: Ints, searched: _Search) -> Ints:
    """Return the picks where each turn has equally many, of a line; none where that holds for too few turns.

    A turn in which a growing cache has just that shape tells nothing, and is left out.
    """
    starts = tree.host.start[nodes]
    turn = np.searchsorted(searched.starts, starts, side="right") - 1
    counts = np.bincount(turn[turn >= 0], minlength=len(searched.starts))
    usual = int(np.median(counts))
    # The last turn may end before its caches are reordered: the search is over.
    told = counts[:-1] == usual
    if usual < 1 or len(told) < LEAST_TURNS - 1:
        return nodes[:0]
    shape = tree.shapes.operands(int(tree.dims(nodes[:1])[0]))[0]
    if not told.all() and (shape not in searched.grown or (~told).sum() > 2):
        return nodes[:0]
    plain = np.append(told, counts[-1] == usual)
    kept: Ints = nodes[np.where(turn >= 0, plain[np.maximum(turn, 0)], True)]
    return kept


def _only_read(tree: Tree, nodes: Ints, shape: Shape) -> bool:
    """Tell whether nothing but views and attention takes a tensor of that size between the picks, and nothing makes one."""
    host, size = tree.host, size_of(shape)
    tops = tree.outermost
    low, high = int(host.start[nodes].min()), int(host.end[nodes].max())
    tops = tops[(host.thread[tops] == host.thread[nodes[0]]) & (host.start[tops] >= low) & (host.start[tops] < high)]
    tops = tops[~np.isin(tops, nodes)]
    codes = tree.dims(tops)
    known: dict[tuple[int, int], int] = {}
    reads, readers = 0, [nodes]
    for node, name, code in zip(tops.tolist(), host.name[tops].tolist(), codes.tolist(), strict=True):
        if (name, code) not in known:
            known[name, code] = _use(tree.context.names[name], tree.shapes.operands(code), size)
        use = known[name, code]
        if use < 0:
            return False
        reads += use == _READ
        if use:
            readers.append(np.array([node], np.int64))
    # Attention reads two of them in one call; what follows the last picks is not looked at.
    return reads * 4 >= len(nodes) and not _made_elsewhere(tree, nodes, np.concatenate(readers), (low, high))


_NONE, _VIEW, _READ, _OTHER = 0, 1, 2, -1


def _use(name: str, operands: Operands, size: int) -> int:
    """Use of tensors of that size by a call: not at all, as a view, read by attention, or any other, which may change them."""
    sizes = [size_of(shape) for shape in operands]
    if size not in sizes:
        return _NONE
    if _VIEWS.match(name):
        return _VIEW
    if _ATTENTION.match(name):
        return _READ if sizes[0] != size else _OTHER
    if name not in _PRODUCTS or len(operands) < _PRODUCTS[name] + 2:
        return _OTHER
    first, second = operands[_PRODUCTS[name] : _PRODUCTS[name] + 2]
    if len(first) < 2 or len(second) < 2:
        return _OTHER
    return _READ if size_of((*max(first[:-2], second[:-2], key=len), first[-2], second[-1])) != size else _OTHER


def _made_elsewhere(tree: Tree, nodes: Ints, readers: Ints, span: tuple[int, int]) -> bool:
    """Tell whether memory of a pick's size is given outside of picks and what reads them; False where none was recorded.

    A tensor that is computed again in each turn takes such memory; one that goes from pick to pick takes it in the picks alone.
    """
    host, events = tree.host, tree.context.once(instants)
    given = np.flatnonzero((events["bytes"] > 0) & (events["start_ns"] >= span[0]) & (events["start_ns"] < span[1]))
    readers = readers[np.argsort(host.start[readers], kind="stable")]
    at = np.searchsorted(host.start[readers], events["start_ns"][given], side="right") - 1
    inside = (at >= 0) & (events["start_ns"][given] < fetch(host.end, readers[np.maximum(at, 0)]))
    picked = inside & np.isin(readers[np.maximum(at, 0)], nodes)
    if not picked.any():
        return False
    largest = int(events["bytes"][given[picked]].max())
    return bool((events["bytes"][given[~inside]] == largest).any())

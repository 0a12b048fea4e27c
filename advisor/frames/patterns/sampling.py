"""The next token chosen on the CPU: the scores of the whole vocabulary are copied to the host, and sorted or drawn from there."""

from __future__ import annotations

import numpy as np

from advisor.frames.patterns.transfer import copies_of, senders
from advisor.frames.patterns.tree import Occurrences, Pairs, Tree, spread
from advisor.intervals import Ints, distinct

_CHOOSES = frozenset(
    f"aten::{name}"
    for name in ("argmax", "multinomial", "topk", "sort", "argsort", "softmax", "log_softmax", "max", "exponential_", "cumsum")
)  # fmt: skip
_PICKS = frozenset({"aten::argmax", "aten::multinomial", "aten::topk", "aten::sort", "aten::max", "aten::exponential_"})
_LEAST_VOCABULARY = 1000
_NEAR = 40
"""Operators behind the copy among which the choice is."""


def sampled_on_host(tree: Tree) -> Occurrences | None:
    """One row per copy of scores to the host on which operators there choose: from the copy to the last of them."""
    picks = tree.codes_of(_PICKS.__contains__)
    if not picks.any():
        return None
    copies, sends = senders(tree, copies_of(tree, "DtoH"))
    vocabulary = tree.shapes.column(tree.dims(sends), _width)
    wide = vocabulary >= _LEAST_VOCABULARY
    copies, sends, vocabulary = copies[wide], sends[wide], vocabulary[wide]
    chosen = _choosing(tree, sends, vocabulary)
    picked = np.bincount(chosen.row, picks[tree.host.name[chosen.index]], len(sends)) > 0
    rows, last, names = np.flatnonzero(picked).tolist(), [], []
    for row in rows:
        nodes = chosen.index[slice(*np.searchsorted(chosen.row, [row, row + 1]))]
        last.append(int(nodes[-1]))
        words = [tree.context.names[code].removeprefix("aten::") for code in tree.host.name[nodes].tolist()]
        names.append(", ".join(dict.fromkeys(words)))
    if not rows:
        return None
    sends, copied = sends[rows], copies[rows]
    own = Pairs(np.arange(len(rows)), copied)
    return Occurrences(
        kind="host-sampling",
        node=sends,
        begin=tree.host.start[sends],
        end=tree.host.end[last],
        inside=own,
        own=own,
        idle=True,
        figures={
            "bytes": tree.context.tables["copy"]["bytes"][tree.work.row[copied]].astype(np.int64),
            "dims": tree.dims(sends),
        },
        details=names,
    )


def _width(operands: tuple[tuple[int, ...], ...]) -> int:
    """Columns of what is copied; 0 where it is no table."""
    return operands[0][-1] if operands and len(operands[0]) >= 2 else 0


def _choosing(tree: Tree, sends: Ints, vocabulary: Ints) -> Pairs:
    """Operators right behind each copy that choose among as many columns, up to the next that launches something."""
    items = tree.outermost
    at = np.searchsorted(items, tree.after(sends))
    near = spread(at, np.minimum(at + _NEAR, len(items)))
    near = near.where(tree.host.thread[items[near.index]] == tree.host.thread[sends[near.row]])
    asked = distinct(near.index)
    launches = np.zeros(len(items) + 1, np.bool_)
    launches[asked[distinct(tree.launched_below(items[asked]).row)]] = True
    so_far = np.cumsum(launches[near.index])
    before = np.append(0, so_far)[np.searchsorted(near.row, near.row)]
    near = near.where(so_far == before)
    near = Pairs(near.row, items[near.index])
    named = tree.codes_of(_CHOOSES.__contains__)[tree.host.name[near.index]]
    wide = tree.shapes.column(
        tree.dims(near.index), lambda operands: operands[0][-1] if operands and operands[0] else 0
    )
    return near.where(named & (wide == vocabulary[near.row]))

"""The next token chosen on the CPU: the scores of the whole vocabulary are copied to the host, and sorted or drawn from there."""

from __future__ import annotations

import numpy as np

from advisor.frames.patterns.transfer import copies_of, senders
from advisor.frames.patterns.tree import Occurrences, Pairs, Tree
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
    rows, last, names = [], [], []
    for row, send in enumerate(sends.tolist()):
        operands = tree.shapes.operands(int(tree.dims(np.array([send]))[0]))
        vocabulary = operands[0][-1] if operands and len(operands[0]) >= 2 else 0
        if vocabulary < _LEAST_VOCABULARY:
            continue
        chosen = _choosing(tree, send, vocabulary)
        if len(chosen) and picks[tree.host.name[chosen]].any():
            rows.append(row)
            last.append(int(chosen[-1]))
            words = [tree.context.names[code].removeprefix("aten::") for code in tree.host.name[chosen].tolist()]
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


def _choosing(tree: Tree, send: int, vocabulary: int) -> Ints:
    """Operators right behind a copy that choose among as many columns, up to the next that launches something."""
    items = tree.outermost
    at = int(np.searchsorted(items, tree.after(np.array([send]))[0]))
    near: Ints = items[at : at + _NEAR]
    near = near[tree.host.thread[near] == tree.host.thread[send]]
    launching = distinct(tree.launched_below(near).row)
    near = near[: int(launching[0])] if len(launching) else near
    named = tree.codes_of(_CHOOSES.__contains__)[tree.host.name[near]]
    wide = tree.shapes.column(
        tree.dims(near), lambda operands: int(bool(operands) and operands[0][-1:] == (vocabulary,))
    )
    chosen: Ints = near[named & (wide == 1)]
    return chosen

"""Forward work that the backward pass does again: activation checkpointing."""

from __future__ import annotations

import numpy as np

from advisor.frames.patterns.tree import HIGHEST, NOTHING, Occurrences, Pairs, Tree, spread
from advisor.intervals import Bools, Ints, distinct
from advisor.regex import regex
from advisor.timeline.calls import BACKWARD

# The derivative of no operator calls these: inside a node of the autograd graph they are a forward pass run again.
# (A backward pass that is itself to be differentiated, create_graph=True, runs others: mm, mul, threshold_backward …)
_FORWARD_ONLY = regex(
    r"^aten::(?:linear|conv[123]d|batch_norm|layer_norm|group_norm|rms_norm|softmax|log_softmax|dropout|gelu|silu|relu_?"
    r"|scaled_dot_product_attention|embedding|max_pool2d|adaptive_avg_pool2d)$"
)
_CHECKPOINT = "CheckpointFunctionBackward"


def _whole(tree: Tree, begin: Ints, end: Ints) -> Pairs:
    """All segments of the ledger in each span, in a program on the CPU.

    The Python there, that between the operators and what prepares them (random state, hooks), is inside a node of the backward
    pass, and is that node's in the ledger.
    """
    if not tree.context.cpu_program:
        return NOTHING
    ledger = tree.context.ledger
    first, last = (
        np.searchsorted(ledger.start_ns, begin, side="left"),
        np.searchsorted(ledger.end_ns, end, side="right"),
    )
    return spread(first, last)


def _called_at(tree: Tree, again: Ints) -> Ints:
    """Places that called what runs again, -1 where the stacks do not tell: the stack says only where the backward pass began.

    The forward pass runs the same lines, called by the checkpointed call instead of by the backward pass.
    """
    host = tree.host
    ops = host.node_of.get("op", again[:0])
    return host.parting(ops[host.attributes.phase[ops] != BACKWARD], again)


def _new(groups: Ints) -> Bools:
    """Flag the first of each group of equal neighbours."""
    return np.append(True, groups[1:] != groups[:-1])


def _runs(tree: Tree, nodes: Ints, around: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Rows of what runs again (*nodes*, inside of *around*): the row of each node; the node around each row; its range of nodes.

    What an autograd function differentiates in its backward (an adjoint solver, step by step) is none of the forward pass that
    runs again: it divides the rest, which is all of the row before it.
    """
    inside = np.zeros(tree.host.size, np.bool_)
    inside[around] = True
    engine = np.flatnonzero(tree.engine & ~inside)
    engine = engine[tree.host.above(engine, inside, HIGHEST) >= 0]
    turns = np.searchsorted(engine, nodes)
    row = np.cumsum(_new(around) | _new(turns)) - 1
    heads = np.flatnonzero(_new(row))
    which, first = around[heads], nodes[heads].copy()
    last = np.zeros(len(which), np.int64)
    np.maximum.at(last, row, tree.after(nodes))
    # Between two runs of one node lie the graph's nodes: a run begins behind those before it, and ends where the next begin.
    later = np.flatnonzero(~_new(which))
    if len(later):
        reach = np.maximum.accumulate(tree.after(engine))
        first[later] = np.minimum(first[later], reach[turns[heads[later]] - 1])
        last[later - 1] = np.maximum(last[later - 1], engine[turns[heads[later - 1]]])
    return row, which, first, last


def recompute(tree: Tree) -> Occurrences | None:
    """One row per run of forward operators inside a backward node.

    ``torch.utils.checkpoint`` does so inside ``CheckpointFunctionBackward`` (reentrant), or inside whichever node asks
    first for a tensor that was not kept. What runs again makes autograd nodes, so it bears numbers of its own.
    """
    codes = tree.codes_of(lambda name: _FORWARD_ONLY.match(name) is not None)
    candidates = tree.ops(codes)
    phase = tree.host.attributes.phase
    named = tree.codes_of(lambda name: _CHECKPOINT in name)
    if not (phase[candidates] == BACKWARD).any() and not len(tree.ops(named)):
        return None
    again = (tree.sequence >= 0) & ~tree.engine & (phase == BACKWARD)
    nodes = np.flatnonzero(again)
    around = tree.host.above(nodes, tree.engine, HIGHEST)
    nodes, around = nodes[around >= 0], around[around >= 0]
    proven = distinct(around[codes[tree.host.name[nodes]] | named[tree.host.name[around]]])
    keep = np.isin(around, proven)
    nodes, around = nodes[keep], around[keep]
    if not len(nodes):
        return None
    row, which, first, last = _runs(tree, nodes, around)
    own = tree.launched(first, last)
    # The place is that of the first operator that only a forward pass calls; what saves the random state comes before it.
    place = nodes[_new(row)].copy()
    telling = np.flatnonzero(codes[tree.host.name[nodes]])
    rows, at = np.unique(row[telling], return_index=True)
    place[rows] = nodes[telling[at]]
    finish = tree.host.start[first].copy()
    np.maximum.at(finish, row, tree.host.end[nodes])
    followed = np.append(~_new(which)[1:], False)
    finish[followed] = tree.host.start[last[followed]]
    return Occurrences(
        kind="recompute",
        node=place,
        begin=tree.host.start[first],
        end=finish,
        inside=own,
        own=own,
        idle=True,
        python=_whole(tree, tree.host.start[np.where(_new(which), which, first)], finish),
        user=_called_at(tree, place),
        figures={"length": np.bincount(row), "dims": tree.dims(place)},
        details=[tree.context.names[code].rpartition(" ")[2] for code in tree.host.name[which].tolist()],
    )

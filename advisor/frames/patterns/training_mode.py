"""Layers in training mode in a program that only infers: dropout at work, batch norms on the batch's own statistics."""

from __future__ import annotations

import numpy as np

from advisor.frames.patterns.tree import NOTHING, Occurrences, Tree
from advisor.timeline.program import active_layers, idle_dropouts, program_of


def training_mode(tree: Tree) -> Occurrences | None:
    """One row per call that works, each with the number of dropouts that do not, as their rate is 0.

    A fix spares all of a dropout's work, and the kernels that take the statistics of a batch norm.
    """
    context, host = tree.context, tree.host
    if not context.once(program_of).train_mode:
        return None
    nodes = context.once(active_layers)
    dropout = np.array(["dropout" in name for name in context.names], np.bool_)[host.name[nodes]]
    statistics = np.array(["batch_norm_collect_statistics" in name for name in context.names], np.bool_)
    idle = len(context.once(idle_dropouts)) or -1
    inside = tree.launched_below(nodes)
    ops = tree.ops_below(nodes) if context.cpu_program else NOTHING
    return Occurrences(
        kind="train-mode",
        node=nodes,
        begin=host.start[nodes],
        end=host.end[nodes],
        inside=inside,
        own=inside.where(dropout[inside.row] | statistics[tree.work.name[inside.index]]),
        ops=ops.where(dropout[ops.row]),
        figures={"dims": tree.dims(nodes), "repeats": np.full(len(nodes), idle)},
        details=["dropout" if is_dropout else "batch norm" for is_dropout in dropout.tolist()],
    )

"""Operators of DistributedDataParallel's reducer: it scales each gradient into a bucket, and copies it back."""

from __future__ import annotations

import numpy as np

from advisor.frames.patterns.tree import NOTHING, Occurrences, Tree
from advisor.regex import regex
from advisor.timeline.calls import OP

_REDUCER = regex(r"(?:^|::|\.)reducer::")


def reducers(tree: Tree) -> Occurrences | None:
    """One row per call. Without the wrapper none of it is run."""
    context, host = tree.context, tree.host
    named = np.array([_REDUCER.search(name) is not None for name in context.names], np.bool_)
    if not named.any():
        return None
    nodes = np.flatnonzero(named[host.name] & (host.group == OP))
    inside = tree.launched_below(nodes)
    return Occurrences(
        kind="reducer",
        node=nodes,
        begin=host.start[nodes],
        end=host.end[nodes],
        inside=inside,
        own=inside,
        ops=tree.ops_below(nodes) if context.cpu_program else NOTHING,
    )

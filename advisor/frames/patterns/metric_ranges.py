"""Metrics of a model that are updated or computed inside of a step, beside its work: by the range or the library's function."""

from __future__ import annotations

import re

import numpy as np

from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, spread
from advisor.intervals import Bools, Ints
from advisor.regex import regex
from advisor.timeline.calls import ANNOTATION, BACKWARD, OP, PYTHON
from advisor.timeline.context import Context

# `metrics update`, `RecMetricModule:compute`, `recmetrics_update`; not symmetric, parametric or geometric.
_RANGE = regex(r"(?:(?<![A-Za-z])|[Rr]ec)[Mm]etrics?(?![a-z])|(?<=[A-Za-z])Metrics?(?![a-z])")
_OTHER = regex(r"loss|learn|distance|::", re.IGNORECASE)
"""Metric learning, and distances by a metric, are of the model."""
_FUNCTION = regex(
    r"^(?:torchmetrics|torcheval/metrics|torchrec/metrics|ignite/metrics|sklearn/metrics)/[\w/]+\.py\(\d+\): (?!__init__|reset)"
)
_MARKS = "# "


def metric_ranges(tree: Tree) -> Occurrences | None:
    """One row per range, outermost of its kind, in which a program on a GPU updates or computes metrics.

    It owns the GPU's work that is launched in it, and the idle time that the host causes in it.
    """
    host, names = tree.host, tree.context.names
    if tree.context.cpu_program:
        return None
    nodes = tree.context.once(outermost)
    nodes = nodes[host.attributes.phase[nodes] != BACKWARD]
    if not len(nodes):
        return None
    work = tree.launched_below(nodes)
    return Occurrences(
        kind="metrics",
        node=nodes,
        begin=host.start[nodes],
        end=host.end[nodes],
        inside=work,
        own=work,
        python=_idle(tree, nodes),
        details=[_called(names[code]) for code in host.name[nodes].tolist()],
    )


def outermost(context: Context) -> Ints:
    """Return the ranges and functions of metrics, by their forest nodes: the outermost of each."""
    host, names = context.recording.host, context.names
    ranges, functions = (np.zeros(max(len(names), 1), np.bool_) for _ in range(2))
    for code, name in enumerate(names):
        if "etric" in name:
            ranges[code] = _RANGE.search(name) is not None and not _OTHER.search(name)
            functions[code] = _FUNCTION.match(name) is not None
    if not (ranges.any() or functions.any()):
        return np.zeros(0, np.int64)
    chosen: Bools = ranges[host.name] & np.isin(host.group, (ANNOTATION, OP))
    chosen |= functions[host.name] & (host.group == PYTHON)
    nodes = np.flatnonzero(chosen)
    return nodes[host.above(nodes, chosen) < 0]


def _idle(tree: Tree, nodes: Ints) -> Pairs:
    """Segments of the ledger inside each range in which the GPU idles for what the host does there, or reads back."""
    context, ledger = tree.context, tree.context.ledger
    if not context.idle_trusted or context.device < 0:
        return NOTHING
    host = tree.host
    first = np.searchsorted(ledger.start_ns, host.start[nodes], side="left")
    last = np.searchsorted(ledger.end_ns, host.end[nodes], side="right")
    meanwhile = spread(first, np.maximum(last, first))
    meanwhile = meanwhile.where(ledger.through("host", "operator", "sync", "blocking_copy")[meanwhile.index])
    # A range on another thread holds up no launches.
    return meanwhile.where((host.thread[nodes] == host.launching_thread())[meanwhile.row])


def _called(name: str) -> str:
    """The range or function without torchrec's marks and without a line."""
    return re.sub(r"\(\d+\)", "", name.strip(_MARKS))

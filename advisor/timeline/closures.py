"""Closures of optimizers: forward and backward passes that run inside of ``Optimizer.step``, as Lightning and LBFGS have them.

What a closure does is no work of the optimizer: its step begins behind the last backward pass in it, and behind what the
program does with the gradients there (norms that are logged, clipping).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from advisor.intervals import Bools, Ints
from advisor.regex import regex

# What optimizers run over all parameters at once, in place: the first of them behind the closure is the optimizer's.
_UPDATE = regex(r"aten::_(foreach|fused)_\w+_")


class Nodes(Protocol):
    """Times, threads and names of a forest's nodes."""

    @property
    def start(self) -> Ints:
        """Start of each."""

    @property
    def end(self) -> Ints:
        """End of each."""

    @property
    def thread(self) -> Ints:
        """Thread of each."""

    @property
    def name(self) -> Ints:
        """Code of each one's name."""


def begun(host: Nodes, steps: Ints, backward: Bools, names: Sequence[str]) -> Ints:
    """Return when the optimizer's own work begins in each of some nodes, given the nodes of the backward pass, of any thread."""
    nodes = np.flatnonzero(backward)
    start: Ints = host.start[steps].copy()
    if not len(nodes) or not len(steps):
        return start
    nodes = nodes[np.argsort(host.start[nodes], kind="stable")]
    reach = np.maximum.accumulate(host.end[nodes])
    # The last backward node that begins inside, where the first of them does as well.
    last = np.searchsorted(host.start[nodes], host.end[steps], side="left") - 1
    inside = (last >= 0) & (host.start[nodes[np.maximum(last, 0)]] >= start)
    start = np.where(inside, np.clip(reach[np.maximum(last, 0)], start, host.end[steps]), start)
    return _behind_hooks(host, steps, start, inside, names) if inside.any() else start


def _behind_hooks(host: Nodes, steps: Ints, begin: Ints, inside: Bools, names: Sequence[str]) -> Ints:
    """Return *begin*, and behind the operators between it and the first of the update where the node has a closure."""
    updates = np.array([_UPDATE.fullmatch(name) is not None for name in names], np.bool_)
    ops = np.flatnonzero(np.array([name.startswith("aten::") for name in names], np.bool_)[host.name])
    ops = ops[np.argsort(host.start[ops], kind="stable")]
    later = begin.copy()
    for row in np.flatnonzero(inside).tolist():
        low, high = np.searchsorted(host.start[ops], (begin[row], host.end[steps[row]])).tolist()
        mine = ops[low:high]
        mine = mine[host.thread[mine] == host.thread[steps[row]]]
        first = np.flatnonzero(updates[host.name[mine]])
        if len(first) and first[0]:
            later[row] = min(int(host.end[mine[: first[0]]].max()), int(host.start[mine[first[0]]]))
    return later

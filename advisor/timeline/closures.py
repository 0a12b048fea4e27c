"""Closures of optimizers: forward and backward passes that run inside of ``Optimizer.step``, as Lightning and LBFGS have them.

What a closure does is no work of the optimizer: its step begins behind the last backward pass in it.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from advisor.intervals import Bools, Ints


class Nodes(Protocol):
    """Times of a forest's nodes."""

    @property
    def start(self) -> Ints:
        """Start of each."""

    @property
    def end(self) -> Ints:
        """End of each."""


def begun(host: Nodes, steps: Ints, backward: Bools) -> Ints:
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
    return np.where(inside, np.clip(reach[np.maximum(last, 0)], start, host.end[steps]), start)

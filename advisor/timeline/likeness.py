"""Calls beside their like: what is far above the usual time of equal cheap calls is a thread that was not running."""

from __future__ import annotations

import numpy as np

from advisor.intervals import Ints

LEAST_NS = 1_000_000
"""So long takes no cheap call: it is some hundred times the price of a launch, and a scheduler's time slice or more."""
TIMES = 20
"""Times the usual time of its like that a call takes which was held up."""
CHEAP_NS = 200_000
"""A call whose like take longer is not cheap: its time may depend on what it is given."""
_ENOUGH = 5


def medians(kind: Ints, ns: Ints) -> tuple[Ints, Ints]:
    """Return kinds in order, and the median of each, at least 1; 0 of a kind with too few to know."""
    order = np.lexsort((ns, kind))
    kinds, first, count = np.unique(kind[order], return_index=True, return_counts=True)
    return kinds, np.where(count >= _ENOUGH, np.maximum(ns[order][first + count // 2], 1), 0)

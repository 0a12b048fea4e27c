"""Ranges on the host: what torch marks by itself (steps, an optimizer's step, a loader's fetch), and what the program does."""

from __future__ import annotations

import numpy as np

from advisor.intervals import Bools, Ints, fetch
from advisor.timeline.calls import ANNOTATION, MARKS, OP, STEP
from advisor.timeline.context import Context
from advisor.timeline.cpu import main_thread


def marks(context: Context) -> Bools:
    """Flag the names of what torch marks, which traces of 2021 hold as operators."""
    return np.array([name.startswith(MARKS) for name in context.names], np.bool_)


def steps(context: Context) -> Bools:
    """Flag the names of steps."""
    return np.array([name.startswith(STEP) for name in context.names], np.bool_)


def outermost_ranges(context: Context) -> Ints:
    """Return the outermost ranges of the main thread that the program marked."""
    host = context.recording.host
    ranges = _ranges(context, context.once(marks))
    nodes = np.flatnonzero(ranges & (host.thread == main_thread(context.recording)))
    return nodes[host.above(nodes, ranges) < 0]


def outermost_range(context: Context, nodes: Ints, without: Bools) -> Ints:
    """Return the outermost range around each node, -1 for none; those of names *without* are none."""
    return context.recording.host.outermost(nodes, _ranges(context, without))


def innermost_operator(context: Context, nodes: Ints) -> Ints:
    """Return the operator that each node is or lies in, with no range between; -1 for none."""
    host = context.recording.host
    found = fetch(host.attributes.op, nodes)
    return np.where(fetch(host.group, found) == OP, found, -1)


def _ranges(context: Context, without: Bools) -> Bools:
    host = context.recording.host
    flags: Bools = (host.group == ANNOTATION) & ~without[host.name]
    return flags

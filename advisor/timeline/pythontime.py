"""When a thread runs Python itself, rather than an operator or a call of the runtime."""

from __future__ import annotations

import re

import numpy as np

from advisor.intervals import Ints, covered, subtract, union
from advisor.timeline.calls import OP, PYTHON, RUNTIME
from advisor.timeline.context import Context

_PROFILER = re.compile(r"torch/profiler/\w+\.py\(")


def python_outside_operators(context: Context, thread: int, start: Ints, end: Ints) -> Ints:
    """For each span, the ns in which *thread* was in Python and in no operator or runtime call; -1 without Python calls.

    What runs inside an operator counts as the operator's: a custom autograd function, the wrapper of compiled code. The
    profiler's own Python is nobody's.
    """
    host = context.recording.host
    here = host.thread == thread
    calls = np.flatnonzero(here & (host.group == PYTHON))
    if not len(calls):
        return np.full(len(start), -1, np.int64)
    profiler = np.array([_PROFILER.search(name) is not None for name in context.names], np.bool_)[host.name]
    operators = np.flatnonzero(here & ((host.group == OP) | (host.group == RUNTIME) | profiler))
    python = union(host.start[calls], host.end[calls])
    return covered(subtract(python, union(host.start[operators], host.end[operators])), start, end)

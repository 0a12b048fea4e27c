"""Recordings of a few short kernels: nothing in them tells first calls from steady work."""

from __future__ import annotations

import numpy as np

from advisor.results.few_kernels import FewKernels
from advisor.timeline.calls import OP
from advisor.timeline.context import Context
from advisor.timeline.recording import KERNEL

_MOST, _LEAST_WORK_NS = 10, 1_000_000
"""So few kernels are no program, unless they work for so long."""


def few_kernels(context: Context) -> FewKernels | None:
    """Count the kernels of a recording; None where they are many or long, and where there is none."""
    work, host = context.recording.work, context.recording.host
    count, worked = int((work.kind == KERNEL).sum()), int((work.end - work.start).sum())
    if not 0 < count <= _MOST or worked >= _LEAST_WORK_NS:
        return None
    operators = np.flatnonzero(host.group == OP)
    outer = operators[host.above(operators, host.group == OP) < 0]
    again = bool(np.bincount(host.name[outer]).max() > 1) if len(outer) else None
    return FewKernels(count=count, ms=worked / 1e6, again=again)

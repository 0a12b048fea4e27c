"""Tasks: operators that compute on the CPU while a program uses a device. They move data, take long, and launch nothing."""

from __future__ import annotations

import numpy as np

from advisor.intervals import Ints, distinct
from advisor.regex import regex
from advisor.timeline.calls import OP, RUNTIME
from advisor.timeline.operator_names import moves_no_data
from advisor.timeline.recording import Recording

# A GPU operator costs the host 5 to 50 us, and launches; one that computes on the CPU takes this at least.
LEAST_NS = 100_000
_COMPUTES = regex(r"^(?!autograd::|torch::|_?c10d|nccl|gloo|mpi|ucc|profiler::)\w+::\w")


def find(recording: Recording) -> Ints:
    """Forest nodes of operators that compute on the CPU, on threads that launch, in order of start.

    An operator counts that takes 100 us or more, and in which no runtime call is made; of nested ones each. Not one in which the
    device begins work that names no launch: it has the device move data, as accelerators do that record no call for it.
    """
    host, names = recording.host, recording.names
    if not host.size:
        return np.zeros(0, np.int64)
    long = host.lasting(host.group == OP, LEAST_NS)
    if not len(long):
        return long
    codes = distinct(host.name[long]).tolist()
    named = [code for code in codes if _COMPUTES.match(names[code]) and not moves_no_data(names[code])]
    ops = long[np.isin(host.name[long], named)]
    work = recording.work
    unnamed = work.start[work.correlation <= 0]
    ops = ops[np.searchsorted(unnamed, host.end[ops]) == np.searchsorted(unnamed, host.start[ops])]
    chosen = []
    for thread in distinct(host.thread[ops]).tolist():
        calls = np.sort(host.start[(host.group == RUNTIME) & (host.thread == thread)])
        if not len(calls):
            continue  # what a thread without launches does delays none
        here = ops[host.thread[ops] == thread]
        launches = np.searchsorted(calls, host.end[here]) > np.searchsorted(calls, host.start[here])
        chosen.append(here[~launches])
    found = np.concatenate(chosen) if chosen else ops[:0]
    return found[np.argsort(host.start[found], kind="stable")]

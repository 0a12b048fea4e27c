"""Tasks: operators that compute on the CPU while a program uses a device. They move data, take long, and launch nothing."""

from __future__ import annotations

import numpy as np

from advisor.intervals import Bools, Ints, coded, distinct
from advisor.regex import regex
from advisor.timeline import likeness
from advisor.timeline.calls import OP, RUNTIME
from advisor.timeline.operator_names import moves_no_data
from advisor.timeline.recording import Recording

# A GPU operator costs the host 5 to 50 us, and launches; one that computes on the CPU takes this at least.
LEAST_NS = 100_000
_COMPUTES = regex(r"^(?!autograd::|torch::|_?c10d|nccl|gloo|mpi|ucc|profiler::)\w+::\w")

_TENSOR = regex(rb"\d")


def find(recording: Recording) -> Ints:
    """Forest nodes of operators that compute on the CPU, on threads that launch, in order of start.

    An operator counts that takes 100 us or more, and in which no runtime call is made; of nested ones each. Not one in which the
    device begins work that names no launch: it has the device move data, as accelerators do that record no call for it. Nor one
    in which the thread was stopped.
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
    # What a thread without launches does delays none.
    found = ops[np.isin(host.thread[ops], distinct(host.thread[host.group == RUNTIME])) & ~_launching(recording, ops)]
    found = found[~_held_up(recording, found)]
    in_order: Ints = found[np.argsort(host.start[found], kind="stable")]
    return in_order


def _held_up(recording: Recording, ops: Ints) -> Bools:
    """Flag operators that take a millisecond and more where equal ones, on the same shapes, take microseconds and launch nothing.

    So many elements are no more work now than then: the thread was stopped.
    """
    host, table = recording.host, recording.tables.get("op")
    flags = np.zeros(len(ops), np.bool_)
    long = np.flatnonzero(host.ns(ops) >= likeness.LEAST_NS)
    if not len(long) or table is None or "dims" not in table:
        return flags
    like = np.flatnonzero((host.group == OP) & np.isin(host.name, distinct(host.name[ops[long]])))
    like = like[~_launching(recording, like)]
    dims = table["dims"][host.row[like]].astype(np.int64)
    # What makes a tensor of its own says by a number, which is no shape, how much it makes.
    raws = recording.recorded.raws
    shaped = [code for code in distinct(dims).tolist() if code >= 0 and _TENSOR.search(raws[code]) is not None]
    kind = coded(host.name[like].astype(np.int64) * (int(dims.max(initial=0)) + 2) + dims + 1)[1]
    length = host.ns(like)
    usual = likeness.medians(kind, length)[1][kind]
    far = np.isin(dims, shaped) & (usual > 0) & (usual <= likeness.CHEAP_NS) & (length >= likeness.TIMES * usual)
    flags[long] = np.isin(ops[long], like[far])
    return flags


def _launching(recording: Recording, ops: Ints) -> Bools:
    """Flag operators in which their thread makes a runtime call."""
    host = recording.host
    flags = np.zeros(len(ops), np.bool_)
    for thread in distinct(host.thread[ops]).tolist():
        calls = np.sort(host.start[(host.group == RUNTIME) & (host.thread == thread)])
        here = host.thread[ops] == thread
        flags[here] = np.searchsorted(calls, host.end[ops[here]]) > np.searchsorted(calls, host.start[ops[here]])
    return flags

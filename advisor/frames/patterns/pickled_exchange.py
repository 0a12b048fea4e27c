"""Python objects that ranks exchange: each is pickled, sent as bytes, and unpickled by every rank that gets it.

``dist.all_gather_object`` and its like are for settings and names. Where they carry tensors (logits for a metric, embeddings),
each rank serializes its own, sends all of its bytes, and reads those of all others, while the step waits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, size_of, spread
from advisor.intervals import Ints, distinct
from advisor.timeline.cpu import main_thread

_FILE = "torch/distributed/distributed_c10d.py"
_GATHERS = frozenset({"all_gather_object", "gather_object"})
_CALLS = _GATHERS | {"broadcast_object_list", "scatter_object_list", "send_object_list", "recv_object_list"}
"""Functions for objects. Of those that one rank gives to others (parameters, settings, parts of a data set) nothing is a metric."""
_PACKS, _UNPACKS = "_object_to_tensor", "_tensor_to_object"
LEAST_BYTES = 1 << 16
"""Bytes of an object from which on it is no setting: numbers of a metric take some kilobytes at most."""


def pickled_exchanges(tree: Tree) -> Occurrences | None:
    """One row per gathering of objects of 64 kB or more on the CPU, with the Python and the waiting inside of it.

    ``bytes`` are those of the largest object, ``detail`` the function of torch's.
    """
    context, host = tree.context, tree.host
    if not context.cpu_program:
        return None
    functions = np.array([place.function if place.file.endswith(_FILE) else "" for place in host.places] + [""], object)
    ours = np.isin(functions, [*_CALLS, _PACKS, _UNPACKS])
    rows = context.op_rows[host.thread[context.op_rows] == main_thread(context.recording)]
    library, user = host.attributes.library[rows], host.attributes.user[rows]
    inside = np.flatnonzero(ours[library] & (user >= 0))
    if not len(inside):
        return None
    step = context.recording.host_step_of(host.start[rows])
    # Of one line in one step, from the packing of one object to that of the next.
    packs = functions[library] == _PACKS
    first: list[int] = []
    last: list[int] = []
    for before, at in zip([-1, *inside[:-1].tolist()], inside.tolist(), strict=True):
        same = before >= 0 and user[at] == user[before] and step[at] == step[before]
        if not same or (packs[at] and not packs[before]):
            first.append(at)
            last.append(at)
        last[-1] = at
    low, high = np.array(first, np.int64), np.array(last, np.int64)
    sizes = np.array([_bytes(tree, rows[one : other + 1]) for one, other in zip(low, high, strict=True)], np.int64)
    called = [_called(functions[library[one : other + 1]]) for one, other in zip(low, high, strict=True)]
    gathers = np.array([len(names) == 1 and names <= _GATHERS for names in called], np.bool_)
    kept = np.flatnonzero((sizes >= LEAST_BYTES) & gathers)
    if not len(kept):
        return None
    low, high, sizes = low[kept], high[kept], sizes[kept]
    ends = host.end[rows]
    begin = np.array([ends[:one].max() if one else host.start[rows[0]] for one in low.tolist()], np.int64)
    end = host.end[rows[high]]
    ops = spread(low, high + 1)
    place_of = np.full(host.size, -1, np.int64)
    place_of[context.op_rows] = np.arange(len(context.op_rows))
    return Occurrences(
        kind="pickled-exchange",
        node=rows[low],
        begin=begin,
        end=end,
        inside=NOTHING,
        own=NOTHING,
        ops=Pairs(ops.row, place_of[rows[ops.index]]),
        python=_waits(tree, begin, end),
        figures={"bytes": sizes, "dims": tree.dims(rows[low])},
        details=[name for row in kept.tolist() for name in called[row]],
    )


def _called(functions: npt.NDArray[np.object_]) -> set[str]:
    """Functions for objects that are on the stack of an exchange's operators."""
    return {name for name in functions.tolist() if name in _CALLS}


def _bytes(tree: Tree, nodes: Ints) -> int:
    """The largest operand of an exchange: its tensors are of bytes."""
    codes = distinct(tree.dims(nodes)).tolist()
    return max((size_of(shape) for code in codes for shape in tree.shapes.operands(code)), default=0)


def _waits(tree: Tree, begin: Ints, end: Ints) -> Pairs:
    """Segments of Python, and of waiting for the other ranks, inside of each exchange."""
    ledger = tree.context.ledger
    first = np.searchsorted(ledger.start_ns, begin, side="left")
    between = spread(first, np.maximum(np.searchsorted(ledger.end_ns, end, side="right"), first))
    return between.where(~ledger.through("compute")[between.index])

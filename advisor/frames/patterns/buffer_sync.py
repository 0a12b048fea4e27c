"""Buffers that DistributedDataParallel broadcasts from rank 0 before each forward, in a program on the CPU.

DDP copies all buffers of the model to flat tensors, broadcasts these, and copies the result back, before the module runs: running
statistics of batch norms, but also tables, windows and filters, which are the same on all ranks and never change.
"""

from __future__ import annotations

import numpy as np

from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, size_of, spread
from advisor.intervals import Ints
from advisor.regex import regex
from advisor.roofline.types import SIZES, parse_type
from advisor.timeline.calls import ANNOTATION, OP
from advisor.timeline.cpu import main_thread

_FORWARD = "DistributedDataParallel.forward"
_FLATTEN, _UNFLATTEN = "aten::flatten_dense_tensors", "aten::unflatten_dense_tensors"
_BROADCAST = regex(r"^(?:c10d::_?broadcast|(?:gloo|mpi|ucc):broadcast)")
_COPY = "aten::copy_"


def buffer_syncs(tree: Tree) -> Occurrences | None:
    """One row per forward of DDP that begins with a broadcast of buffers, with the Python and the waiting inside of it.

    The operators are told by their order: flat tensors are made, broadcast, taken apart and copied back, before any other
    operator of the forward. ``bytes`` are those of the flat tensors; -1 where not recorded.
    """
    context, host = tree.context, tree.host
    if not context.cpu_program:
        return None
    codes = np.array([name == _FORWARD for name in context.names], np.bool_)
    forwards = np.flatnonzero(codes[host.name] & np.isin(host.group, (ANNOTATION, OP)))
    main = main_thread(context.recording)
    forwards = forwards[host.thread[forwards] == main]
    rows = context.op_rows
    place = np.flatnonzero(context.top(rows) & (host.thread[rows] == main))
    place = place[np.argsort(host.start[rows[place]], kind="stable")]
    first = [(at, node) for node in forwards.tolist() if (at := _first(tree, place, node)) >= 0]
    found = [(at, *_read(tree, place, at, node)) for at, node in first]
    found = [one for one in found if one[2] != 0]
    if not found:
        return None
    low = np.array([one for one, _, _ in found], np.int64)
    last = np.array([high - 1 for _, high, _ in found], np.int64)
    begin, end = host.start[rows[place[low]]], host.end[rows[place[last]]]
    nodes = rows[place[low]]
    # All operators between, those that Python calls and those inside of these.
    order = np.argsort(host.start[rows], kind="stable")
    inside = spread(
        np.searchsorted(host.start[rows[order]], begin, side="left"),
        np.searchsorted(host.start[rows[order]], end, side="left"),
    )
    ops = Pairs(inside.row, order[inside.index])
    return Occurrences(
        kind="buffer-sync",
        node=nodes,
        begin=begin,
        end=end,
        inside=NOTHING,
        own=NOTHING,
        ops=ops.where(host.thread[rows[ops.index]] == main),
        python=_waits(tree, begin, end),
        figures={"bytes": np.array([sent for _, _, sent in found], np.int64), "dims": tree.dims(nodes)},
    )


def _first(tree: Tree, place: Ints, node: int) -> int:
    """Return the first operator of a forward that makes a flat tensor, if nothing but that is before it; -1 without one."""
    host, rows, names = tree.host, tree.context.op_rows, tree.context.names
    at = int(np.searchsorted(host.start[rows[place]], host.start[node], side="left"))
    here = at < len(place) and host.end[rows[place[at]]] <= host.end[node]
    return at if here and names[host.name[rows[place[at]]]] == _FLATTEN else -1


def _read(tree: Tree, place: Ints, low: int, node: int) -> tuple[int, int]:
    """Return where the exchange ends that begins at *low*, and the bytes that it sends: 0 without a broadcast, -1 if unknown."""
    host, rows, names = tree.host, tree.context.op_rows, tree.context.names
    sizes: list[int] = []
    broadcasts, at = 0, low
    while at < len(place) and host.end[rows[place[at]]] <= host.end[node]:
        row = int(rows[place[at]])
        name = names[host.name[row]]
        if name == _UNFLATTEN:
            sizes.append(_bytes(tree, row))
        elif _BROADCAST.match(name):
            broadcasts += 1
        elif name != _FLATTEN and (name != _COPY or not sizes):
            break
        at += 1
    sent = sum(sizes) if sizes and min(sizes) > 0 else -1
    return at, sent if broadcasts else 0


def _bytes(tree: Tree, node: int) -> int:
    """Bytes of a flat tensor that is taken apart; -1 where not recorded."""
    one = np.array([node])
    operands = tree.shapes.operands(int(tree.dims(one)[0]))
    words = tree.words(int(tree.context.op_column(one, "types")[0])) or [""]
    width = SIZES.get(parse_type(words[0]) or "")
    return size_of(operands[0]) * width if operands and width else -1


def _waits(tree: Tree, begin: Ints, end: Ints) -> Pairs:
    """Segments of Python, and of waiting for the broadcast, inside of each exchange."""
    ledger = tree.context.ledger
    first = np.searchsorted(ledger.start_ns, begin, side="left")
    between = spread(first, np.maximum(np.searchsorted(ledger.end_ns, end, side="right"), first))
    return between.where(~ledger.through("compute")[between.index])

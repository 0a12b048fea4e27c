"""Operators on the CPU that write into memory which the system has just given, page by page.

The C library's allocator takes each large tensor from the system anew, and gives it back when the tensor is freed. Every page of it
is then mapped and zeroed when an operator first writes there, and unmapped at the end.
"""

from __future__ import annotations

import numpy as np

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree
from advisor.intervals import Ints, distinct, fetch, summed
from advisor.regex import regex
from advisor.timeline.calls import OP
from advisor.timeline.ledger import OWNED
from advisor.timeline.memory import LARGE_BYTES, NS_A_BYTE, behind_frees, instants, lifetimes

_ALLOCATES = regex(r"^aten::(?:new_)?empty(?:_like|_strided|_quantized|_permuted)?$|^aten::resize_(?:as_)?$")
"""Operators that give memory and write none: the operator around them does."""
_PAGE, _BEHIND = 4096, 64
"""The library puts what it takes from the system behind a header of its own, and torch asks for multiples of 64 bytes: such a
tensor begins 64 bytes behind the start of a page. In memory that is kept it begins anywhere, in that of jemalloc and tcmalloc with
a page."""
_MAPPED = 0.9
"""Part of the large tensors that begin there, from which on none of it is chance."""
_LEAST = 3
_USUAL = 0.05
"""ns a byte that giving memory back takes, where too few frees tell: the median of a model's pass on a server."""
_LEAST_NS = 0.03
_SHORTEST, _LONGER = 0.25, 2.0
_LONGEST = 6
"""Times as long as alone that giving memory back takes at most, on cores that other programs use as well."""
_FIRST_WRITE = {None: 2.1, 1: 12.0, 2: 3.5, 3: 2.5, 4: 2.0}
"""Times as long as its return to the system that the first write to a page takes at most, by the threads that share the writing;
the rule's cautious figure is less than half. One thread: 4.3 to 5.5 times alone (256 MiB on an EPYC in a virtual machine); in
nine programs up to twelve, as caches and the processor's tables of pages lose what they held, and the shortest frees tell. Many
threads: 0.97 times, by additions of 256 MiB beside divisions in place of as much, in a model's pass on a server."""
_MANY_THREADS = 1.5
_MOST = 0.9
"""Of an operator's time: it computes as well."""


def fresh_memory(tree: Tree) -> Occurrences | None:
    """One row per operator that makes or frees a large tensor, with the time behind it in which large tensors are freed.

    ``part`` is what it takes less at most where the memory was there before, ``bytes`` what it is given anew.
    """
    context, host = tree.context, tree.host
    if not context.cpu_program:
        return None
    events = context.once(instants)
    large = np.flatnonzero((events["device"] < 0) & (events["bytes"] >= LARGE_BYTES))
    if not _mapped(tree, large):
        return None
    # What lives on (weights that are loaded, an optimizer's state) would be mapped once by any allocator.
    large = large[lifetimes(context)["freed_ns"][large] >= 0]
    freed, rate = _given_back(tree)
    writer = _operator(tree, large, writes=True)
    gone = np.flatnonzero((events["device"] < 0) & (events["bytes"] <= -LARGE_BYTES))
    last = _operator(tree, gone, writes=False)
    node = distinct(np.concatenate([writer[writer >= 0], last[last >= 0]]))
    if (writer < 0).all():
        return None

    def total(operators: Ints, rows: Ints) -> Ints:
        known = operators >= 0
        return summed(np.searchsorted(node, operators[known]), np.abs(events["bytes"][rows[known]]), len(node))

    given, inside = total(writer, large), total(last, gone)
    own = np.full(host.size, -1, np.int64)
    own[node] = np.arange(len(node))
    rows_of = host.flow(own)[context.op_rows]
    index = np.flatnonzero(rows_of >= 0)
    order = np.argsort(rows_of[index], kind="stable")
    ops = Pairs(rows_of[index][order], index[order])
    # What is freed behind an operator is given back there: the operator before has a row, or none before has one.
    starts = host.start[node]
    order = np.argsort(starts, kind="stable")  # nodes stand in the order of threads
    place = np.searchsorted(starts[order], context.ledger.start_ns[freed], side="right") - 1
    back = Pairs(order[np.maximum(place, 0)], freed).each_once()
    took = ops.total(context.ledger.cost(len(context.op_rows), *OWNED), len(node))
    behind = back.total(context.ledger.dur_ns, len(node))
    recorded = context.metadata.recorded
    threads = recorded.threads if recorded is not None else None
    slower = _FIRST_WRITE.get(threads, _MANY_THREADS)
    writing = np.minimum((given * slower + inside) * rate, _MOST * took)
    return Occurrences(
        kind="fresh-memory",
        node=node,
        begin=starts,
        end=host.end[node],
        inside=NOTHING,
        own=NOTHING,
        ops=ops,
        python=back,
        freed=True,
        figures={
            "bytes": given,
            "part": np.rint((writing + behind) / np.maximum(took + behind, 1) * MILLION).astype(np.int64),
            "dims": tree.dims(node),
        },
    )


def _mapped(tree: Tree, large: Ints) -> bool:
    """Tell whether large tensors lie in memory of their own from the system."""
    address = tree.context.once(instants)["address"][large]
    return len(large) >= _LEAST and float((address % _PAGE == _BEHIND).mean()) >= _MAPPED


def _given_back(tree: Tree) -> tuple[Ints, float]:
    """Segments of the ledger outside operators, most of which lies behind the free of a large tensor, and the ns a byte that
    giving memory back takes.

    Python that follows a free looks the same: the quarter of the shortest tells, and of frees behind one kind of operator alone
    no more is believed than the system takes for itself.
    """
    context, ledger, host = tree.context, tree.context.ledger, tree.host
    segments = np.flatnonzero(ledger.through("host"))
    behind, freed = behind_frees(context, ledger.start_ns[segments], ledger.end_ns[segments])
    segments, behind, freed = segments[freed > 0], behind[freed > 0], freed[freed > 0]
    busier = _busier(tree)
    rate = _USUAL * busier
    if len(segments) >= _LEAST:
        before = context.op_rows[np.searchsorted(host.start[context.op_rows], ledger.start_ns[segments]) - 1]
        most = NS_A_BYTE * (busier if len(distinct(host.name[before])) == 1 else _LONGEST)
        rate = min(max(float(np.quantile(behind / freed, _SHORTEST)), _LEAST_NS), most)
    owned = np.minimum(behind, _LONGER * rate * freed)
    return segments[2 * owned >= ledger.dur_ns[segments]], rate


def _busier(tree: Tree) -> float:
    """Times as long as alone that the program takes, where `advisor record` saw how long its threads waited for a core; else 1."""
    recorded = tree.context.metadata.recorded
    waited = recorded.waited_share if recorded is not None else None
    return min(1 / max(1 - (waited or 0.0), 1 / _LONGEST), _LONGEST)


def _operator(tree: Tree, rows: Ints, *, writes: bool) -> Ints:
    """Node of the operator in which memory is given or freed, by rows of the allocator's events, -1 for none; of what only
    gives memory, where *writes*, the one around it."""
    context, host = tree.context, tree.host
    events = context.once(instants)
    thread, when = events["thread"][rows], events["start_ns"][rows]
    node = np.full(len(rows), -1, np.int64)
    for one in distinct(thread).tolist():
        here = thread == one
        node[here] = host.innermost(one, when[here])

    def operator(nodes: Ints) -> Ints:
        op = fetch(host.attributes.op, nodes)
        return np.where((op >= 0) & (fetch(host.group, op) == OP), op, -1)

    op = operator(node)
    allocates = tree.codes_of(lambda name: _ALLOCATES.match(name) is not None)
    for _ in range(len(host.levels) if writes else 0):
        up = (op >= 0) & allocates[host.name[np.maximum(op, 0)]]
        if not up.any():
            break
        op[up] = operator(host.parent[op[up]])
    return op

"""Start-up: time of the host in what happens once, told by what the runtime and the operators show.

Loading of the context, of libraries and kernels; selection of an algorithm; specialization by TorchScript; compilation and
graph capture before the steady part; first allocations; first calls far above their like. Nothing here is judged as the
program's steady work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from advisor.intervals import Bools, Ints, Spans, complement, covered, fetch, inside, union
from advisor.timeline import waits as w
from advisor.timeline.calls import OP, PYTHON, RUNTIME
from advisor.timeline.recording import Recording

KINDS = ("loading", "selection", "specialization", "compilation", "capture", "allocation", "first call")
LOADING, SELECTION, SPECIALIZATION, COMPILATION, CAPTURE, ALLOCATION, FIRST_CALL = range(len(KINDS))

# A call that takes so long sets something up, whatever it is called.
_LONG_NS = 2_000_000
# A first call counts from here on, where it takes so many times as long as its like.
_LEAST_NS, _TIMES = 500_000, 10
# Calls that load code, and do so once.
_LOADS = re.compile(
    r"(?:Module|Library|Libraries|FatBinary)\w*(?:Load|Create)|(?:Library|Module)Get(?:Kernel|Function)"
    r"|GetFuncBySymbol|FuncGetAttributes|^(?:cuda|hip)Occupancy"
)
_LOADS_NS = 100_000
# These never set anything up. Where one takes long, the thread was not running, or the driver's queue was full.
_STEADY = re.compile(
    r"Event(?:Record|Query)|StreamWaitEvent|StreamQuery|StreamIsCapturing|GetCaptureInfo|FuncSet(?:Attribute|CacheConfig)"
    r"|(?:Get|Peek(?:At)?)LastError|Memcpy|GraphLaunch"
)
_LAUNCH = re.compile(r"Launch|Memset")
_LAZY = re.compile(r"Lazy Function Loading|Module Load|Library Load", re.IGNORECASE)
# Operators that choose among libraries' algorithms: the first call of a shape may search or plan.
_SELECTS = re.compile(
    r"convolution|conv[123]d|(?:::|_)(?:mm|bmm|baddbmm|addmm|addmv|linear|matmul)$|scaled_mm|attention|_rnn|miopen|cudnn"
)
_ALLOCATES = re.compile(r"^aten::(?:empty|new_empty)(?:_\w+)?$")
_GENERATED = re.compile(r"^(?:fused_|triton_|fallback_function$|prim::|TensorExpr|CudaFusionGroup)")
_REGIONS = ("Torch-Compiled Region", "## Call CompiledFxGraph")
_BEGIN_CAPTURE = re.compile(r"^(?:cuda|hip|cu)StreamBeginCapture")
_END_CAPTURE = re.compile(r"^(?:cuda|hip|cu)StreamEndCapture")
_INSTANTIATE = re.compile(r"^(?:cuda|hip|cu)Graph(?:Instantiate|Upload|ExecUpdate)")
# What loads lazily loads at most of its first calls: of one or two slow ones among many, a thread was held up.
_COLD_CALLS, _COLD_SHARE, _SURELY_NS = 3, 0.1, 30_000_000
_API = re.compile(r"^(?:cuda|cu[A-Z]|hip|ze[A-Z]|mu[A-Z]|musa)")
# A search runs so many times the kernels of its like.
_SEARCH_TIMES = 3
_LATER = 3


@dataclass
class Startup(w.Waits):
    """Spans of start-up by the node that shows each (-1 for overhead events), with its kind (an index into ``KINDS``)."""

    kind: Ints

    def part(self, kind: int) -> Spans:
        """Time of one kind."""
        rows = self.kind == kind
        return union(self.start[rows], self.end[rows])


class _Rows:
    """Spans in the making."""

    def __init__(self) -> None:
        self.node: list[Ints] = []
        self.start: list[Ints] = []
        self.end: list[Ints] = []
        self.kind: list[Ints] = []

    def add(self, kind: int, node: Ints, start: Ints, end: Ints) -> None:
        self.node.append(node)
        self.start.append(start)
        self.end.append(end)
        self.kind.append(np.full(len(node), kind, np.int64))

    def table(self) -> Startup:
        node, start, end, kind = (
            np.concatenate([np.zeros(0, np.int64), *parts]) for parts in (self.node, self.start, self.end, self.kind)
        )
        order = np.argsort(start, kind="stable")
        return Startup(node[order], start[order], end[order], kind[order])


def find(recording: Recording, syncs: w.Syncs, compiles: w.Waits) -> Startup:
    """Return the start-up of a program on a GPU or another accelerator; none of one on the CPU alone."""
    rows, host = _Rows(), recording.host
    if not host.size:
        return rows.table()
    _overheads(recording, rows)
    _captures(recording, rows)
    if len(recording.work):
        _first_copies(recording, syncs, rows)
    _compilations(recording, compiles, rows)
    dur = host.end - host.start
    long = np.flatnonzero((dur >= _LOADS_NS) & (host.group != PYTHON))
    calls = long[host.group[long] == RUNTIME]
    ops = long[(host.group[long] == OP) & (dur[long] >= _LEAST_NS)]
    first = _first_launches(recording) if len(calls) or len(ops) else calls[:0]
    _calls(recording, np.setdiff1d(calls, syncs.node), first, rows)
    _operators(recording, ops, first, rows)
    _holes(recording, rows)
    table = rows.table()
    return _without_stalls(recording, table, first)


def _without_stalls(recording: Recording, table: Startup, first: Ints) -> Startup:
    """Leave out single first calls that are slow where others are not: the thread was not running."""
    dur = table.end - table.start
    doubtful = np.isin(table.kind, (LOADING, SELECTION, FIRST_CALL)) & (table.node >= 0)
    slow = len(np.unique(table.node[doubtful]))
    distinct = max(len(np.unique(first)), 1)
    if slow >= _COLD_CALLS and slow >= _COLD_SHARE * distinct:
        return table
    if distinct < _COLD_CALLS / _COLD_SHARE and slow >= _COLD_SHARE * distinct:
        return table  # too few kernels to tell
    keep = ~doubtful | (dur >= _SURELY_NS)
    return Startup(table.node[keep], table.start[keep], table.end[keep], table.kind[keep])


def _match(recording: Recording, pattern: re.Pattern[str]) -> Bools:
    return np.array([pattern.search(name) is not None for name in recording.names], np.bool_)


def _overheads(recording: Recording, rows: _Rows) -> None:
    table = recording.tables.get("overhead")
    if table is None:
        return
    keep = _match(recording, _LAZY)[table["name"]]
    start = table["ts"][keep] - recording.zero_ns
    rows.add(LOADING, np.full(int(keep.sum()), -1, np.int64), start, start + np.maximum(table["dur"][keep], 0))


def _captures(recording: Recording, rows: _Rows) -> None:
    """From the call that begins a capture to the one that ends it on the same thread; and the making of the graph."""
    host = recording.host
    begins = w.nodes_by_name(recording, _BEGIN_CAPTURE, (RUNTIME,))
    ends = w.nodes_by_name(recording, _END_CAPTURE, (RUNTIME,))
    made = w.nodes_by_name(recording, _INSTANTIATE, (RUNTIME,))
    rows.add(CAPTURE, made, host.start[made], host.end[made])
    if not len(ends):
        return
    low = int(host.start.min())
    for node in ends.tolist():
        earlier = begins[(host.thread[begins] == host.thread[node]) & (host.start[begins] < host.start[node])]
        others = ends[(host.thread[ends] == host.thread[node]) & (host.start[ends] < host.start[node])]
        since = int(host.end[others].max()) if len(others) else low
        opened = earlier[host.start[earlier] >= since]
        # A capture that the recording began in the middle of has been going on since its first event.
        start = int(host.start[opened].min()) if len(opened) else since
        rows.add(CAPTURE, np.array([node]), np.array([start]), host.end[node : node + 1])


def _first_copies(recording: Recording, syncs: w.Syncs, rows: _Rows) -> None:
    """From the call to the start of its copy, where the first copy waited for is held far longer than its like.

    It sets up what later ones find ready: that says nothing of how copies should be made.
    """
    at = np.flatnonzero((syncs.kind == w.COPY_SYNC) & (syncs.copy >= 0))
    if len(at) < 3:
        return
    began = recording.work.start[syncs.copy[at]]
    lead = began - syncs.begin[at]
    if lead[0] > _LONG_NS and lead[0] > 3 * np.median(lead):
        rows.add(FIRST_CALL, syncs.node[at[:1]], syncs.begin[at[:1]], began[:1])


def _compilations(recording: Recording, compiles: w.Waits, rows: _Rows) -> None:
    """Compilations before the steady part: in or before the first of several steps; without steps, the first ones.

    What is compiled later is compiled again and again, and stays a cause of its own.
    """
    if not len(compiles.start):
        return
    if len(recording.steps) >= 2:
        until = recording.steps[1].start
        chosen = compiles.start < until
    else:
        # One iteration, or none known: what comes before nearly all of the GPU's work sets it up.
        work, launched = recording.work, recording.work.launch
        linked = np.sort(recording.host.start[launched[launched >= 0]]) if len(work) else launched
        chosen = np.searchsorted(linked, compiles.start) <= len(linked) // 10
    node = compiles.node[chosen]
    rows.add(COMPILATION, node, compiles.start[chosen], compiles.end[chosen])


def _first_launches(recording: Recording) -> Ints:
    """Forest nodes of the calls that launched a kernel (or a memset) of some name for the first time."""
    work, host = recording.work, recording.host
    if not len(work):
        return np.zeros(0, np.int64)
    linked = work.launch >= 0
    # Work without a launch in the trace was launched before it.
    began = fetch(host.start, work.launch)
    first = np.full(len(recording.names), np.iinfo(np.int64).max)
    np.minimum.at(first, work.name, began)
    launches: Ints = work.launch[linked & (began == first[work.name])]
    return launches


def _calls(recording: Recording, calls: Ints, first: Ints, rows: _Rows) -> None:
    """Add single runtime calls that set something up. Not waits and copies.

    A launch is one only if it is the first of its kernel: a later one that takes as long found its kernel loaded, so the
    thread was not running, or the queue was full. Nor is a call while the device works, but for a search.
    """
    host, names = recording.host, recording.names
    calls = calls[~_match(recording, _STEADY)[host.name[calls]]]
    dur = host.end[calls] - host.start[calls]
    launch = _match(recording, _LAUNCH)[host.name[calls]]
    loads = _match(recording, _LOADS)[host.name[calls]]
    allocates = np.array([w.ALLOCATOR_CALL.search(name) is not None for name in names], np.bool_)[host.name[calls]]
    like = _medians(recording)[host.name[calls]]
    new = np.isin(calls, first)
    loading = (launch & new & (dur >= np.maximum(_LEAST_NS, _TIMES * like))) | (loads & (dur >= _LOADS_NS))
    runtime = _match(recording, _API)[host.name[calls]]
    loading |= runtime & ~launch & ~loads & ~allocates & (dur >= np.maximum(_LONG_NS, _TIMES * like))
    busy = recording.busy(recording.devices[0]) if recording.devices else union(calls[:0], calls[:0])
    loading &= 2 * covered(busy, host.start[calls], host.end[calls]) < dur
    chosen = calls[loading]
    rows.add(LOADING, chosen, host.start[chosen], host.end[chosen])
    early = calls[allocates & (dur >= _LONG_NS) & _is_early(recording, host.start[calls])]
    rows.add(ALLOCATION, early, host.start[early], host.end[early])


def _is_early(recording: Recording, start: Ints) -> Bools:
    """Flag times in the first of several steps; without, in the first quarter of the launches."""
    if len(recording.steps) >= 2:
        early: Bools = start < recording.steps[1].start
        return early
    launch = recording.work.launch
    starts = np.sort(recording.host.start[launch[launch >= 0]])
    quarter: Bools = np.searchsorted(starts, start) <= len(starts) // 4
    return quarter


def _medians(recording: Recording) -> Ints:
    """Median duration of the runtime's calls of each name, by name code; 0 for a name that was called less than three times."""
    host = recording.host
    calls = np.flatnonzero(host.group == RUNTIME)
    out = np.zeros(len(recording.names), np.int64)
    if not len(calls):
        return out
    dur = host.end[calls] - host.start[calls]
    order = np.lexsort((dur, host.name[calls]))
    names, begin, count = np.unique(host.name[calls][order], return_index=True, return_counts=True)
    middle = dur[order][begin + count // 2]
    out[names[count >= _LATER]] = middle[count >= _LATER]
    return out


def _operators(recording: Recording, ops: Ints, first: Ints, rows: _Rows) -> None:
    """Add operators whose own time, outside the calls in them, only a first call takes."""
    host = recording.host
    if not len(ops):
        return
    children = host.children_ns()
    own = (host.end - host.start)[ops] - children[ops]
    ops, own = ops[own >= _LEAST_NS], own[own >= _LEAST_NS]
    if not len(ops):
        return
    compiled = _compiled(recording)
    selects, allocates = _match(recording, _SELECTS), _match(recording, _ALLOCATES)
    launching = _around(recording, np.unique(recording.work.launch[recording.work.launch >= 0]))
    new = _around(recording, first)
    kinds = _shapes(recording)
    for code in np.unique(host.name[ops]).tolist():
        nodes = np.flatnonzero((host.name == code) & (host.group == OP))
        nodes = nodes[np.argsort(host.start[nodes], kind="stable")]
        all_own = (host.end - host.start)[nodes] - children[nodes]
        here = np.isin(nodes, ops)
        # An operator that calls itself is one call.
        order = np.cumsum(host.name[np.maximum(host.parent[nodes], 0)] != code) - 1
        middle = int(np.median(all_own))
        far = here & (all_own >= _TIMES * middle) if len(nodes) > _LATER else here
        if compiled[nodes].any():
            far &= compiled[nodes] & (all_own >= _LONG_NS)
            if len(nodes) <= _LATER:
                far &= np.arange(len(nodes)) < 2  # TorchScript profiles a first run or two, then specializes
            _own_time(recording, SPECIALIZATION, nodes[far], rows)
            continue
        fresh = new[nodes] | _first_of(kinds[nodes])
        if allocates[code]:
            chosen = far & (order == 0) & (all_own >= 2 * _LEAST_NS)
        elif launching[nodes].any():
            chosen = far & fresh & (len(nodes) > _LATER)
        else:
            # On the CPU a longer call may have more to do: only what its like of the same shapes shows.
            like_first = int((kinds[nodes] == kinds[nodes[0]]).sum()) > _LATER
            chosen = far & (order == 0) & like_first & (all_own >= 2 * _LEAST_NS)
        if selects[code] and launching[nodes].any():
            _searches(recording, nodes, nodes[chosen | (here & fresh)], rows)
        _own_time(recording, SELECTION if selects[code] else FIRST_CALL, nodes[chosen], rows)


def _holes(recording: Recording, rows: _Rows) -> None:
    """Add time in which a thread is in nothing at all right before a first run of a TorchScript function: it specializes.

    The function's own event begins behind that.
    """
    host = recording.host
    generated = np.array([_GENERATED.match(name) is not None for name in recording.names], np.bool_)
    inner = np.flatnonzero((host.group == OP) & generated[host.name])
    if not len(inner):
        return
    outer = inner.astype(np.int64)
    for _ in range(len(host.levels)):
        above = host.parent[outer]
        outer = np.where(above >= 0, above, outer)
    outer = np.unique(outer[(host.group[outer] == OP)])
    for code in np.unique(host.name[outer]).tolist():
        calls = np.flatnonzero((host.name == code) & (host.group == OP) & (host.parent < 0))
        calls = calls[np.argsort(host.start[calls], kind="stable")][:2]
        for node in np.intersect1d(calls, outer).tolist():
            before = np.flatnonzero((host.thread == host.thread[node]) & (host.start < host.start[node]))
            end = int(host.end[before].max()) if len(before) else int(host.start[node])
            if int(host.start[node]) - end >= _LONG_NS:
                rows.add(SPECIALIZATION, np.array([node]), np.array([end]), host.start[node : node + 1])


def _searches(recording: Recording, nodes: Ints, chosen: Ints, rows: _Rows) -> None:
    """Add whole operators that ran many times the kernels of their like: they tried the algorithms."""
    host, work = recording.host, recording.work
    if not len(chosen) or len(nodes) <= _LATER:
        return
    starts = np.sort(host.start[work.launch[work.launch >= 0]])
    count = np.searchsorted(starts, host.end) - np.searchsorted(starts, host.start)
    like = max(int(np.median(count[nodes])), 1)
    found = chosen[count[chosen] > _SEARCH_TIMES * like]
    found = found[(host.end - host.start)[found] >= _TIMES * np.median((host.end - host.start)[nodes])]
    rows.add(SELECTION, found, host.start[found], host.end[found])


def _own_time(recording: Recording, kind: int, nodes: Ints, rows: _Rows) -> None:
    """Add the stretches of operators in which nothing that they call runs."""
    host = recording.host
    for node in nodes.tolist():
        children = np.flatnonzero(host.parent == node)
        holes = complement(union(host.start[children], host.end[children]), int(host.start[node]), int(host.end[node]))
        rows.add(kind, np.full(len(holes.start), node, np.int64), holes.start, holes.end)


def _around(recording: Recording, nodes: Ints) -> Bools:
    """Flag the nodes and all that are around them."""
    host = recording.host
    flags = np.zeros(host.size, np.bool_)
    around = np.unique(nodes)
    while len(around := around[around >= 0]):
        fresh = around[~flags[around]]
        flags[fresh] = True
        around = np.unique(host.parent[fresh]).astype(np.int64)
    return flags


def _compiled(recording: Recording) -> Bools:
    """Flag operators that are compiled just in time: TorchScript functions around generated code, and compiled regions."""
    host, names = recording.host, recording.names
    generated = np.array([_GENERATED.match(name) is not None for name in names], np.bool_)
    regions = np.array([name.startswith(_REGIONS) for name in names], np.bool_)
    flags = _around(recording, host.parent[(host.group == OP) & generated[host.name]].astype(np.int64))
    return flags | regions[host.name]


def _shapes(recording: Recording) -> Ints:
    """Code of the recorded shapes of each node's operator; -1 where there are none."""
    host = recording.host
    out = np.full(host.size, -1, np.int64)
    table = recording.tables.get("op")
    if table is not None and "op" in host.node_of and "dims" in table:
        out[host.node_of["op"]] = table["dims"]
    return out


def _first_of(kinds: Ints) -> Bools:
    """Flag the first entry of each value."""
    flags = np.zeros(len(kinds), np.bool_)
    flags[np.unique(kinds, return_index=True)[1]] = True
    return flags


def early_work(recording: Recording, table: Startup) -> Bools:
    """Flag GPU work that was launched inside start-up: a search's kernels are no steady work."""
    work = recording.work
    spans = table.spans()
    linked = work.launch >= 0
    called = fetch(recording.host.start, work.launch)
    ended = fetch(recording.host.end, work.launch)
    # A long first launch is start-up; the kernel that it launched is the program's.
    begun = inside(spans, called) & inside(spans, ended)
    own = np.isin(work.launch, table.node)
    flags: Bools = linked & begun & ~own
    return flags

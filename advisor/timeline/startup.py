"""Start-up: time of the host in what happens once, told by what the runtime and the operators show.

Loading of the context, of libraries and kernels; selection of an algorithm; specialization by TorchScript; compilation and
graph capture before the steady part; first allocations; first calls far above their like. Nothing here is judged as the
program's steady work.
"""

from __future__ import annotations

import re

import numpy as np

from advisor.intervals import EMPTY, Bools, Ints, covered, distinct, fetch, inside, union, without
from advisor.regex import regex
from advisor.timeline import firsts, overheads
from advisor.timeline import specialization as torchscript
from advisor.timeline import waits as w
from advisor.timeline.calls import OP, PYTHON, RUNTIME
from advisor.timeline.first_iteration import passes, with_first_iteration
from advisor.timeline.recording import COPY, KERNEL, Recording
from advisor.timeline.startup_table import (
    ALLOCATION,
    CAPTURE,
    COMPILATION,
    CONTEXT,
    FEW,
    FIRST_CALL,
    FIRST_ITERATION,
    INITIALIZATION,
    LEAST_NS,
    LOADING,
    LONG_NS,
    SELECTION,
    TIMES,
    Rows,
    Startup,
)
from advisor.timeline.variants import Variants

# Calls that load code, and do so once.
_LOADS = regex(
    r"(?:Module|Library|Libraries|FatBinary)\w*(?:Load|Create)|(?:Library|Module)Get(?:Kernel|Function)"
    r"|GetFuncBySymbol|FuncGetAttributes|^(?:cuda|hip)Occupancy"
)
_LOADS_NS = 100_000
# These never set anything up. Where one takes long, the thread was not running, or the driver's queue was full.
_STEADY = regex(
    r"Event(?:Record|Query)|StreamWaitEvent|StreamQuery|StreamIsCapturing|GetCaptureInfo|FuncSet(?:Attribute|CacheConfig)"
    r"|(?:Get|Peek(?:At)?)LastError|Memcpy|GraphLaunch"
)
_LAUNCH = regex(r"Launch|Memset")
_USES = regex(rf"{_LAUNCH.pattern}|Memcpy|{w.ALLOCATOR_CALL.pattern}")
_FREES = regex(r"^(?:cuda|hip)Free$")
# Calls that do next to nothing themselves: the first of a process waits until the device's context is made.
_GIVES_BACK = regex(r"Free|Unmap|Release|Unregister")
_ASKS = regex(r"^(?:cuda|hip)(?:Get|Set|DeviceGet|CtxGet)|^cu(?:Ctx|DevicePrimaryCtx|Init)")
_LAZY = regex(r"Lazy Function Loading|Module Load|Library Load", re.IGNORECASE)
_BEGIN_CAPTURE = regex(r"^(?:cuda|hip|cu)StreamBeginCapture")
_END_CAPTURE = regex(r"^(?:cuda|hip|cu)StreamEndCapture")
_INSTANTIATE = regex(r"^(?:cuda|hip|cu)Graph(?:Instantiate|Upload|ExecUpdate)")
_API = regex(r"^(?:cuda|cu[A-Z]|hip|ze[A-Z]|mu[A-Z]|musa)")
# What loads lazily loads at most of its first calls: of one or two slow ones among many, a thread was held up.
_COLD_CALLS, _COLD_SHARE, _SURELY_NS = 3, 0.1, 30_000_000
_STEADY_STEP, _LATER = 2, 3
# The second step of a recording selects for one new shape as the later ones do, give or take a tenth, or for many first ones.
_ALIKE = 1.1
# A model is moved parameter by parameter, before anything runs on it.
_PARAMETERS, _MODEL_BYTES, _MOSTLY = 5, 10_000_000, 0.8
_KERNEL_LAUNCH, _COPIES = regex(r"Launch(?!HostFunc)"), regex(r"Memcpy")
_DRAWS = regex(r"^aten::(?:uniform|normal|random|bernoulli|exponential)_$")
# Allocations are start-up where they are so many times as dense early as later.
_DENSER = 2


def find(recording: Recording, syncs: w.Syncs, compiles: w.Waits) -> Startup:
    """Return the start-up of a program on a GPU or another accelerator, and what on the CPU only a first call takes."""
    rows, host = Rows(), recording.host
    if not host.size:
        return rows.table()
    _overheads(recording, rows)
    _captures(recording, rows)
    set_up = _first_copies(recording, syncs, rows)
    _initialization(recording, rows)
    _compilations(recording, compiles, rows)
    dur = host.end - host.start
    long = np.flatnonzero((dur >= _LOADS_NS) & (host.group != PYTHON))
    # A wait is none, not even the first: it waits for what was done before.
    calls = without(long[host.group[long] == RUNTIME], syncs.node)
    ops = without(long[(host.group[long] == OP) & (dur[long] >= LEAST_NS)], syncs.node)
    first = _first_launches(recording) if len(calls) or len(ops) else calls[:0]
    _calls(recording, calls, first, rows)
    _allocating_operators(recording, without(ops, calls), rows)
    functions = torchscript.find(recording, rows)
    firsts.find(recording, without(ops, functions), first, rows)
    table = _without_profiler(recording, _without_stalls(recording, rows.table(), first, set_up))
    return with_first_iteration(recording, table)


def recurring_selection(recording: Recording, table: Startup) -> Bools:
    """Flag selections that go on in the steady part: behind the first two steps, in several steps.

    A program with a few shapes selects for each once, and is done. Where shapes vary it never is: that is no start-up, and the
    second step's is none either, unless it takes longer than each that follows.
    """
    step, dur = recording.host_step_of(table.start), table.end - table.start
    later = (table.kind == SELECTION) & (step >= _STEADY_STEP)
    steps = distinct(step[later])
    second = (table.kind == SELECTION) & (step == _STEADY_STEP - 1)
    longest = max((int(dur[later & (step == number)].sum()) for number in steps.tolist()), default=0)
    flags: Bools = (later | (second & (dur[second].sum() <= _ALIKE * longest))) & (len(steps) >= _LATER)
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
    first = table.end[table.kind == FIRST_ITERATION]
    flags: Bools = linked & ((begun & ~own) | (called < int(first.max(initial=0))))
    return flags


def _without_profiler(recording: Recording, table: Startup) -> Startup:
    """Leave out first calls, loading and searches of which the profiler's own requests and flushes take half or more."""
    own = overheads.find(recording).spans()
    if not own.length:
        return table
    single = np.isin(table.kind, (CONTEXT, LOADING, SELECTION, FIRST_CALL)) & (table.node >= 0)
    keep = ~single | (2 * covered(own, table.start, table.end) < table.end - table.start)
    return Startup(table.node[keep], table.start[keep], table.end[keep], table.kind[keep])


def _without_stalls(recording: Recording, table: Startup, first: Ints, set_up: Ints) -> Startup:
    """Leave out single first calls that are slow where others are not: the thread was not running. Not those of *set_up*."""
    dur = table.end - table.start
    doubtful = np.isin(table.kind, (CONTEXT, LOADING, SELECTION, FIRST_CALL)) & (table.node >= 0)
    slow = len(distinct(table.node[doubtful]))
    calls = max(len(distinct(first)), 1)
    if slow >= _COLD_CALLS and slow >= _COLD_SHARE * calls:
        return table
    # Whose steps are numbered from 2 on has run steps before the recording, and found its code then. One step is not enough:
    # gradients are added to others for the first time in the second.
    warm = bool(recording.marked) and recording.marked[0].number > 1 and calls >= _COLD_CALLS
    if not warm and slow and calls < _COLD_CALLS / _COLD_SHARE:
        return table  # too few kernels to tell
    # An allocation before all launches makes the context.
    opens = _match(recording, firsts.ALLOCATES, fetch(recording.host.name, table.node)) & (table.node >= 0)
    opens &= table.start < (int(recording.host.start[first].min()) if len(first) else 0)
    keep = ~doubtful | opens | ((dur >= _SURELY_NS) & (not warm)) | np.isin(table.node, set_up)
    return Startup(table.node[keep], table.start[keep], table.end[keep], table.kind[keep])


def _match(recording: Recording, pattern: re.Pattern[str], codes: Ints) -> Bools:
    """Flag the name codes whose names match; only names that occur are looked at."""
    flags = np.zeros(len(recording.names), np.bool_)
    for code in distinct(codes).tolist():
        flags[code] = pattern.search(recording.names[code]) is not None
    return flags[codes]


def _overheads(recording: Recording, rows: Rows) -> None:
    loaded = overheads.loading(recording)
    rows.add(LOADING, loaded.node, loaded.start, loaded.end)
    table = recording.tables.get("overhead")
    if table is None:
        return
    keep = _match(recording, _LAZY, table["name"])
    start = table["ts"][keep] - recording.zero_ns
    rows.add(LOADING, np.full(int(keep.sum()), -1, np.int64), start, start + np.maximum(table["dur"][keep], 0))


def _captures(recording: Recording, rows: Rows) -> None:
    """From the call that begins a capture to the one that ends it on the same thread; and the making of the graph."""
    host = recording.host
    begins = w.nodes_by_name(recording, _BEGIN_CAPTURE, (RUNTIME,))
    ends = w.nodes_by_name(recording, _END_CAPTURE, (RUNTIME,))
    made = w.nodes_by_name(recording, _INSTANTIATE, (RUNTIME,))
    rows.add(CAPTURE, made, host.start[made], host.end[made])
    for node in ends.tolist():
        thread, end = host.thread[node], host.start[node]
        earlier = ends[(host.thread[ends] == thread) & (host.start[ends] < end)]
        since = int(host.end[earlier].max()) if len(earlier) else int(host.start.min())
        opened = host.start[begins[(host.thread[begins] == thread) & (host.start[begins] < end)]]
        opened = opened[opened >= since]
        if len(opened):
            start = int(opened.min())
        else:
            # A first one that the recording began in the middle of has been going on since its first event.
            start = int(end) if len(earlier) else since
        rows.add(CAPTURE, np.array([node]), np.array([start]), host.end[node : node + 1])


def _first_copies(recording: Recording, syncs: w.Syncs, rows: Rows) -> Ints:
    """From the call to the start of its copy, where the first copy waited for is held far longer than its like.

    It sets up what later ones find ready: that says nothing of how copies should be made. Not where the device works
    meanwhile: it waits for that. Return the call where it is far above every later one: in a program that has run before, the
    profiler's first activity of the kind takes as long.
    """
    at = np.flatnonzero((syncs.kind == w.COPY_SYNC) & (syncs.copy >= 0))
    nothing = syncs.node[:0]
    if len(at) < FEW:
        return nothing
    began = recording.work.start[syncs.copy[at]]
    lead = began - syncs.begin[at]
    working = covered(recording.busy(recording.devices[0]), syncs.begin[at[:1]], began[:1])[0]
    if lead[0] > LONG_NS and lead[0] > FEW * np.median(lead) and 2 * working < lead[0]:
        rows.add(FIRST_CALL, syncs.node[at[:1]], syncs.begin[at[:1]], began[:1])
        return syncs.node[at[:1]] if lead[0] > TIMES * int(lead[1:].max()) else nothing
    return nothing


def _initialization(recording: Recording, rows: Rows) -> None:
    """Add what comes before the first kernel where a model is built there and moved to the device, copy by copy.

    Only where the host's span is what is judged: a recording that begins with the GPU's work has left that behind.
    """
    work, host = recording.work, recording.host
    if not len(work):
        _unrecorded_initialization(recording, rows)
    if recording.extent == recording.window or not len(work):
        return
    kernels = work.launch[(work.kind == KERNEL) & (work.launch >= 0)]
    copies = np.flatnonzero((work.kind == COPY) & (work.launch >= 0))
    if not len(kernels) or len(copies) < _PARAMETERS:
        return
    first = int(host.start[kernels].min())
    size = np.maximum(recording.tables["copy"]["bytes"][work.row[copies]], 0)
    early = host.start[work.launch[copies]] < first
    moved, total = int(size[early].sum()), int(size.sum())
    if int(early.sum()) < _PARAMETERS or moved < _MODEL_BYTES or moved < _MOSTLY * total:
        return
    low = recording.extent[0]
    rows.add(INITIALIZATION, work.launch[copies[early]][:1].astype(np.int64), np.array([low]), np.array([first]))


def _unrecorded_initialization(recording: Recording, rows: Rows) -> None:
    """Add the same where nothing of the device was recorded: parameters are drawn at random, then copied.

    The sizes of copies are unknown there: what is drawn in place before them, and nothing launched, tells a model from a batch.
    """
    host = recording.host
    calls = np.flatnonzero(host.group == RUNTIME)
    names = host.name[calls]
    launches = calls[_match(recording, _KERNEL_LAUNCH, names)]
    copies = np.sort(calls[_match(recording, _COPIES, names)])
    if recording.marked or not len(launches) or len(copies) < _PARAMETERS:
        return
    first = int(host.start[launches].min())
    early = copies[host.start[copies] < first]
    if len(early) < max(_PARAMETERS, _MOSTLY * len(copies)):
        return
    begins = int(host.start[early].min())
    ops = np.flatnonzero((host.group == OP) & (host.end <= begins))
    drawn = ops[_match(recording, _DRAWS, host.name[ops])]
    if len(drawn) >= _PARAMETERS:
        low = recording.extent[0]
        rows.add(INITIALIZATION, early[:1].astype(np.int64), np.array([low]), np.array([first]))


def _compilations(recording: Recording, compiles: w.Waits, rows: Rows) -> None:
    """Compilations before the steady part: in or before the first of several steps; without steps, the first ones.

    What is compiled later is compiled again and again, and stays a cause of its own, but for what ends by itself.
    """
    if not len(compiles.start):
        return
    if len(recording.steps) >= 2:
        starts = np.array([step.start for step in recording.steps], np.int64)
        at = np.searchsorted(starts, compiles.start, side="right") - 1
        again = len(distinct(at[at > 0]))  # what step after step compiles is no start-up, not even in the first
        chosen = (at <= 0) & (2 * again < len(starts) - 1)
        chosen |= Variants(recording, compiles).bounded
    else:
        # One iteration, or none known: what comes before nearly all of the GPU's work, or all operators, sets it up.
        work, host = recording.work, recording.host
        acts = work.launch[work.launch >= 0] if len(work) else np.flatnonzero(host.group == OP)
        begun = np.sort(host.start[acts])
        if not len(work):
            begun = begun[~inside(union(compiles.start, compiles.end), begun)]
        chosen = np.searchsorted(begun, compiles.start) <= len(begun) // 10
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


def _calls(recording: Recording, calls: Ints, first: Ints, rows: Rows) -> None:
    """Add single runtime calls that set something up. Not waits and copies.

    A launch is one only if it is the first of its kernel: a later one that takes as long found its kernel loaded, so the
    thread was not running, or the queue was full. Nor is a call while the device works, but for a search.
    """
    host = recording.host
    if not len(calls):
        return
    calls = calls[~_match(recording, _STEADY, host.name[calls])]
    names, dur = host.name[calls], host.end[calls] - host.start[calls]
    launch, loads = _match(recording, _LAUNCH, names), _match(recording, _LOADS, names)
    allocates = _match(recording, w.ALLOCATOR_CALL, names)
    like = TIMES * _medians(recording)[names]
    rare = _match(recording, _API, names) & ~launch & ~loads & ~allocates
    loading = launch & np.isin(calls, first) & (dur >= np.maximum(LEAST_NS, like))
    loading |= loads & (dur >= _LOADS_NS)
    loading |= rare & (dur >= np.maximum(LONG_NS, like))
    busy = recording.busy(recording.devices[0]) if recording.devices else EMPTY
    idle = 2 * covered(busy, host.start[calls], host.end[calls]) < dur
    loading &= idle
    behind = _held_behind(recording, calls, np.flatnonzero(loading & launch))
    loading[behind] = False
    first_use = int(host.start[_device_calls(recording)].min(initial=np.iinfo(np.int64).max))
    opens = loading & rare & _match(recording, _ASKS, names) & (host.start[calls] < first_use)
    # Nothing says what the first launch of all does behind its kernel: it does so once.
    held = calls[behind]
    began = held[host.start[held] == _launched(recording).min(initial=np.iinfo(np.int64).max)]
    for kind, chosen in ((CONTEXT, calls[opens]), (LOADING, calls[loading & ~opens]), (FIRST_CALL, began)):
        rows.add(kind, chosen, host.start[chosen], host.end[chosen])
    long = allocates & (dur >= LONG_NS)
    frees = long & idle & (dur >= _SURELY_NS) & _match(recording, _FREES, names) & _in_libraries(recording, calls)
    _add_denser(recording, LOADING, calls[frees], _launched(recording), rows)
    grown = _growth(recording, calls[allocates & ~long])
    rows.add(ALLOCATION, grown, host.start[grown], host.end[grown])
    _add_denser(recording, ALLOCATION, calls[long & ~frees], _launched(recording), rows)


def _growth(recording: Recording, calls: Ints) -> Ints:
    """Return the allocations, of *calls*, of an allocator that takes memory and gives none back, in a recording of no steps.

    It keeps what it has, and asks for no block twice: that is a first iteration, however short each call is. Where steps or passes
    that repeat tell what recurs, those behind the first are none.
    """
    nodes = w.nodes_by_name(recording, w.ALLOCATOR_CALL, (RUNTIME,))
    frees = _match(recording, _GIVES_BACK, recording.host.name[nodes])
    if recording.steps or len(nodes) < FEW or frees.any():
        return calls[:0]
    repeated = passes(recording)
    return calls if repeated is None else calls[recording.host.start[calls] < repeated.end[0]]


def _held_behind(recording: Recording, calls: Ints, among: Ints) -> Ints:
    """Return those of *among*, places of launches in *calls*, that take most of their time behind the end of their kernel.

    That was loaded by then.
    """
    work, host = recording.work, recording.host
    rows = np.flatnonzero(np.isin(work.launch, calls[among]))
    places = np.searchsorted(calls[among], work.launch[rows])
    done = host.end[calls[among]].copy()
    np.minimum.at(done, places, work.end[rows])
    start, end = host.start[calls[among]], host.end[calls[among]]
    held: Ints = among[2 * (end - done) > end - start]
    return held


def _device_calls(recording: Recording) -> Ints:
    """Forest nodes of the calls that give the device work or memory."""
    calls = np.flatnonzero(recording.host.group == RUNTIME)
    return calls[_match(recording, _USES, recording.host.name[calls])]


def _in_libraries(recording: Recording, calls: Ints) -> Bools:
    """Flag the calls that an operator makes which computes with a library, as cuDNN and cuBLAS.

    Where a free in it takes long beside an idle device, the library starts: to give memory back takes far less.
    """
    host = recording.host
    above = fetch(host.attributes.op, calls)
    return (above >= 0) & _match(recording, firsts.SELECTS, fetch(host.name, above))


def _launched(recording: Recording) -> Ints:
    """Times of all launches."""
    launch = recording.work.launch
    return recording.host.start[launch[launch >= 0]]


def _add_denser(recording: Recording, kind: int, calls: Ints, among: Ints, rows: Rows) -> None:
    """Add early calls as start-up of *kind* where they are denser than later ones: what every step does is none.

    *among* holds the times that say how far the program is.
    """
    host = recording.host
    if not len(calls):
        return
    early, times = _early(recording, host.start[calls], among)
    dur = host.end[calls] - host.start[calls]
    if dur[early].sum() * times > _DENSER * dur[~early].sum():
        rows.add(kind, calls[early], host.start[calls[early]], host.end[calls[early]])


def _allocating_operators(recording: Recording, ops: Ints, rows: Rows) -> None:
    """Add early allocations of a recording without runtime calls: there the allocator's own show only in the operators.

    Not the first alone: the allocator asks the driver again until the first iteration has had its memory.
    """
    host = recording.host
    if "runtime" in recording.tables:
        return
    all_ops = np.flatnonzero(host.group == OP)
    allocating = all_ops[_match(recording, firsts.ALLOCATES, host.name[all_ops])]
    if len(allocating) <= FEW:
        return
    dur = host.end - host.start
    usual = int(np.median(dur[allocating]))
    long = np.intersect1d(allocating, ops)
    long = long[dur[long] >= max(LONG_NS, TIMES * usual)]
    _add_denser(recording, ALLOCATION, long, host.start[all_ops], rows)


def _early(recording: Recording, start: Ints, among: Ints) -> tuple[Bools, int]:
    """Flag times in the first of several steps, without in the first quarter of *among*; and how much longer the rest is."""
    if len(recording.steps) >= 2:
        return start < recording.steps[1].start, len(recording.steps) - 1
    quarter: Bools = np.searchsorted(np.sort(among), start) <= len(among) // 4
    return quarter, 3


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
    out[names[count >= FEW]] = middle[count >= FEW]
    return out

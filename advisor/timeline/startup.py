"""Start-up: time of the host in what only first calls take so long for: loading kernels, choosing algorithms, allocating."""

from __future__ import annotations

import re

import numpy as np

from advisor.intervals import EMPTY, Ints, Spans, covered, fetch, union
from advisor.timeline.calls import OP, RUNTIME
from advisor.timeline.context import Context

# A launch, allocation or load that takes so long belongs to the first call of something, not to steady work.
_LONG_NS = 2_000_000
# These never set anything up. Where one takes long, the thread was not running, or the driver's queue was full.
_STEADY = re.compile(
    r"Event(?:Record|Query)|StreamWaitEvent|StreamQuery|StreamIsCapturing|GetCaptureInfo|FuncSet(?:Attribute|CacheConfig)"
    r"|(?:Get|Peek(?:At)?)LastError"
)
_LAUNCH = re.compile(r"Launch|Memset")
_GENERATED = re.compile(r"^(?:fused_|triton_)")
_REGIONS = ("Torch-Compiled Region", "## Call CompiledFxGraph")
# Less start-up than this changes no figure that is shown; profile/no-warmup has the same limit.
_NOTABLE_SHARE = 0.01
# What is left without start-up must be enough to speak of steady work.
_LEAST_WARM_SHARE, _LEAST_WARM_NS = 0.10, 10_000_000


def startup(context: Context) -> Spans:
    """Single runtime calls of over 2 ms that set something up, and regions compiled just in time with as much own time.

    Not waits and copies. A launch is one only if it is the first of its kernel in the trace: a later one that takes as
    long found its kernel loaded, so the thread was not running, or the queue was full.
    """
    host, names = context.recording.host, context.names
    if context.device < 0 or not host.size:
        return EMPTY
    dur = host.end - host.start
    long = np.flatnonzero((host.group == RUNTIME) & (dur > _LONG_NS))
    long = long[~np.isin(long, context.waits.syncs.node)]
    never = np.array(["Memcpy" in name or _STEADY.search(name) is not None for name in names], np.bool_)
    long = long[~never[host.name[long]]]
    launches = np.array([_LAUNCH.search(name) is not None for name in names], np.bool_)[host.name[long]]
    long = long[~launches | np.isin(long, _first_launches(context) if launches.any() else long[:0])]
    generated = np.array([_GENERATED.match(name) is not None for name in names], np.bool_)
    regions = np.array([name.startswith(_REGIONS) for name in names], np.bool_)
    compiled = regions[host.name]
    around = host.parent[(host.group == OP) & generated[host.name]]
    while len(around := np.unique(around[around >= 0])):
        compiled[around] = True
        around = host.parent[around]
    slow = np.flatnonzero(compiled & (host.group == OP) & (dur - host.children_ns() > _LONG_NS))
    nodes = np.concatenate([long, slow])
    return union(host.start[nodes], host.end[nodes])


def _first_launches(context: Context) -> Ints:
    """Forest nodes of the calls that launched a kernel (or a memset) of some name for the first time."""
    work, host = context.recording.work, context.recording.host
    linked = work.launch >= 0
    # Work without a launch in the trace was launched before it.
    began = fetch(host.start, work.launch)
    first = np.full(len(context.names), np.iinfo(np.int64).max)
    np.minimum.at(first, work.name, began)
    launches: Ints = work.launch[linked & (began == first[work.name])]
    return launches


def is_warm(startup_ns: int, idle_ns: int) -> bool:
    """Tell whether idle time is what steady work leaves idle: at most a tenth of it is start-up."""
    return startup_ns <= 0.1 * max(idle_ns, 1)


def warm_ns(context: Context) -> Ints | None:
    """ns of each segment of the ledger outside start-up, where that changes what is judged; else None.

    Of idle segments only: the device's work counts, whatever the host did meanwhile. None too where next to nothing is
    left without start-up, which would make much of very little.
    """
    spans = context.once(startup)
    if not spans.length:
        return None
    ledger = context.ledger
    early = np.where(ledger.idle, covered(spans, ledger.start_ns, ledger.end_ns), 0)
    if is_warm(int(early.sum()), int(ledger.dur_ns[ledger.idle].sum())):
        return None
    counted_ns, early_ns = ledger.counted_ns, int(early[ledger.counted].sum())
    if early_ns < _NOTABLE_SHARE * counted_ns or counted_ns - early_ns < max(
        _LEAST_WARM_SHARE * counted_ns, _LEAST_WARM_NS
    ):
        return None
    return ledger.dur_ns - early

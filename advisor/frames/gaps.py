"""`gaps`: one row per stretch in which the device idles for one cause, and what the launching thread did meanwhile."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from advisor.frames.frame import COUNT, IN_PYTHON, TIME, Frame, Rows
from advisor.frames.schema import COMMON, Schema, flag, integer, text
from advisor.intervals import Bools, Ints, covered, fetch, starts_run, subtract, summed, union
from advisor.timeline.calls import OP, PYTHON, RUNTIME
from advisor.timeline.context import Context
from advisor.timeline.ledger import CAUSES, IDLE
from advisor.timeline.startup import startup

SCHEMA = Schema(
    "gaps",
    "a stretch inside one step where the whole device idles for one cause",
    (
        *COMMON,
        text("cause", "why: " + ", ".join(IDLE)),
        integer("gap_id", "", "the idle stretch of the device that it is part of"),
        integer("gap_ns", "ns", "length of that whole stretch"),
        text("position", "first (before any work of the window), last, or inner"),
        text("next_op", "operator that launched the work which ends the stretch"),
        integer("next_work_ns", "ns", "length of the GPU work that ends the stretch; NULL where there is none"),
        text("phase", "phase that the launching thread was in: forward, backward, optimizer, zero_grad or other"),
        flag("startup", "most of it lies under what only first calls take so long for: lazy loading, algorithm search"),
        integer("call_ns", "ns", "length of the one runtime call that the launching thread was in at its middle; 0 if in none"),
        integer("python_ns", "ns", "what of it the launching thread spent in Python outside any operator; NULL without "
                "its calls"),
        integer("cpu_work_ns", "ns", "what of it the launching thread spent in operators that compute on the CPU: of "
                "100 us or more, launching nothing"),
    ),
)  # fmt: skip
# Operators that move no data: a thread that seems to be in one for long was held up, and computes nothing.
_NO_DATA = re.compile(
    r"::_?(?:empty|new_empty|view|unsafe_view|reshape|as_strided|expand|transpose|permute|movedim|t$|select|slice|narrow"
    r"|unsqueeze|squeeze"
    r"|detach|alias|resize|set_|to$|contiguous|item|local_scalar_dense|is_nonzero|result_type|lift|size|stride|unsafe_split"
    r"|split|chunk"
    r"|unbind|unfold|record_stream|is_pinned|pin_memory|numpy_T|data_ptr|conj|real|imag|requires_grad|flatten|broadcast_to|swap)"
)
_COMPUTES = re.compile(r"^(?:aten|torchvision|torchaudio|mkldnn|quantized)::")
_LEAST_NS = 100_000
_PROFILER = re.compile(r"torch/profiler/\w+\.py\(")


def _segments(context: Context) -> tuple[Ints, Ints]:
    """Segments of the ledger that are idle, and the row that each belongs to."""
    ledger = context.ledger
    segments = np.flatnonzero(ledger.idle)
    adjacent = segments - np.arange(len(segments))
    fresh = starts_run(adjacent, ledger.cause[segments], ledger.step[segments], ledger.row[segments])
    return segments, np.cumsum(fresh) - 1


def build(context: Context) -> pd.DataFrame:
    """The frame of the busiest device; without a device, of the host's window."""
    ledger, host = context.ledger, context.recording.host
    segments, row = context.once(_segments)
    count = int(row[-1]) + 1 if len(row) else 0
    head = segments[np.searchsorted(row, np.arange(count))]
    start, gap = ledger.start_ns[head], ledger.gap[head]
    dur = summed(row, ledger.dur_ns[segments], count)
    stretches = int(gap.max()) + 1 if count else 0
    length = summed(ledger.gap[segments], ledger.dur_ns[segments], stretches)
    following = _launch_behind(context, start + dur)
    node, python, computing = _meanwhile(context, following, start, dur)
    in_call = fetch(host.group, node) == RUNTIME
    frame = context.common(start=start, dur=dur, cost=dur.copy(), node=node, device=ledger.device)
    frame |= {
        "cause": context.labels(ledger.cause[head], CAUSES),
        "gap_id": gap,
        "gap_ns": length[gap],
        "position": context.labels(_position(context, start, start + dur, gap, stretches), ["first", "last", "inner"]),
        "next_op": context.labels(fetch(host.name, fetch(host.attributes.op, following)), context.names),
        "next_work_ns": context.known(_next_work(context, start + dur)),
        "phase": context.phase(node),
        "startup": 2 * covered(context.once(startup), start, start + dur) > dur,
        "call_ns": np.where(in_call, fetch(host.end - host.start, node), 0),
        "python_ns": context.known(python),
        "cpu_work_ns": computing,
    }
    return pd.DataFrame(frame)


def _launch_behind(context: Context, end: Ints) -> Ints:
    """Forest node that launched the work which ends each stretch, -1 where there is none."""
    if not context.recording.has_host:
        return np.full(len(end), -1, np.int64)
    work = context.recording.work
    rows = np.flatnonzero(work.device == context.ledger.device)
    return np.append(work.launch[rows], -1)[np.searchsorted(work.start[rows], end, side="left")]


def _next_work(context: Context, end: Ints) -> Ints:
    """Length of the GPU work that ends each stretch, -1 where there is none."""
    work = context.recording.work
    rows = np.flatnonzero(work.device == context.ledger.device)
    length = np.append(work.end[rows] - work.start[rows], -1)
    return length[np.searchsorted(work.start[rows], end, side="left")]


def _meanwhile(context: Context, following: Ints, start: Ints, dur: Ints) -> tuple[Ints, Ints, Ints]:
    """The node that the launching thread was in at the middle of each stretch, and the ns of Python and CPU work in it."""
    host = context.recording.host
    node, python = np.full(len(start), -1, np.int64), np.full(len(start), -1, np.int64)
    computing = np.zeros(len(start), np.int64)
    threads = fetch(host.thread, following, host.launching_thread()) if context.recording.has_host else following[:0]
    for thread in np.unique(threads).tolist():
        here = threads == thread
        low, high = start[here], (start + dur)[here]
        node[here] = host.innermost(thread, low + dur[here] // 2)
        python[here] = python_outside_operators(context, thread, low, high)
        computing[here] = computing_on_cpu(context, thread, low, high)
    return node, python, computing


def _position(context: Context, start: Ints, end: Ints, gap: Ints, stretches: int) -> Ints:
    """0 for a stretch with which the window begins, 1 for one with which it ends, else 2."""
    low, high = context.recording.window
    first, last = np.full(stretches, high, np.int64), np.full(stretches, low, np.int64)
    np.minimum.at(first, gap, start)
    np.maximum.at(last, gap, end)
    return np.where(first[gap] == low, 0, np.where(last[gap] == high, 1, 2))


def computing_on_cpu(context: Context, thread: int, start: Ints, end: Ints) -> Ints:
    """For each span, the ns in which *thread* was in an operator that computes on the CPU.

    Such an operator takes 100 us at least, and neither it nor anything inside it calls the GPU's runtime: a GPU operator
    costs the host 5 to 50 us, and launches.
    """
    host = context.recording.host
    here = host.thread == thread
    named = np.array([_COMPUTES.match(n) is not None and _NO_DATA.search(n) is None for n in context.names], np.bool_)
    ops = np.flatnonzero(here & (host.group == OP) & named[host.name] & (host.end - host.start >= _LEAST_NS))
    calls = np.sort(host.start[here & (host.group == RUNTIME)])
    launches = np.searchsorted(calls, host.end[ops]) > np.searchsorted(calls, host.start[ops])
    ops = ops[~launches]
    return covered(union(host.start[ops], host.end[ops]), start, end)


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


def _claims(context: Context, mask: Bools) -> Ints:
    """The segments that the rows are."""
    segments, row = context.once(_segments)
    return segments[mask[row]]


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("cause", "op", "next_op", COUNT, *TIME),
    rows=Rows(segments=_claims),
    owns=_claims,
    no_op=IN_PYTHON,
)

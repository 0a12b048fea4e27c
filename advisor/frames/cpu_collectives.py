"""`cpu_collectives`: one row per collective of a program on the CPU, which its backend runs on a thread of its own."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from advisor.frames import uneven_batches
from advisor.frames.collectives import NAMES, kind
from advisor.frames.frame import COUNT, TIME, Frame, Rows, owns_parts
from advisor.frames.optimizers import accumulating
from advisor.frames.schema import COMMON, Schema, flag, integer, real, text
from advisor.intervals import Ints, summed, union
from advisor.timeline.calls import OP
from advisor.timeline.context import Context
from advisor.timeline.cpu import flying, main_thread
from advisor.timeline.waits import nodes_by_name

_CALL = re.compile(r"^c10d::\w+$")
_SIZES = re.compile(r"\[\[\[([\d,]+)\]\]")
"""Shape of the one tensor of a call, as `[[[32,3]],[],[]…`."""
_SMALL = 16_384
"""Elements of messages of which the time is that of a round of the ranks: 64 kB of floats take 0.05 ms at 10 Gbit/s."""
Floats = npt.NDArray[np.float64]

SCHEMA = Schema(
    "cpu_collectives",
    "a collective of a program on the CPU",
    (
        *COMMON,
        text("name", "its annotation, as gloo:all_reduce", "name"),
        text("kind", "all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send, recv, reduce, barrier or other"),
        text("backend", "gloo, mpi or ucc"),
        flag("accumulating", "begun behind a forward pass of DDP that another one follows before the optimizer steps"),
        integer("run", "", "collectives of its kind called from its line in its step; -1 where calls are not recorded one by one",
                "the operators of c10d"),
        real("round_share", "share", "of its time that a round of the ranks takes by itself, however little is sent: the median "
             "of the messages of its run that have 16,384 elements or less; all of such a message that follows at once on one of "
             "its run, as both ranks come from there; NULL like `run`, and without such messages", "the operators of c10d"),
        uneven_batches.COLUMN,
    ),
)  # fmt: skip


def nodes(context: Context) -> Ints:
    """Forest node of each row, in order of start; none where a GPU works."""
    if not context.cpu_program:
        return np.zeros(0, np.int64)
    found = flying(context.recording)
    return found[np.argsort(context.recording.host.start[found], kind="stable")]


def build(context: Context) -> pd.DataFrame:
    """The frame. Each moment that the main thread waits is the collective's that has been in flight the longest."""
    host, rows = context.recording.host, context.once(nodes)
    segments, row = context.once(parts)
    calls, run, share = context.once(_runs)
    cost = summed(row, context.ledger.dur_ns[segments], len(rows))
    called = [context.names[code] for code in host.name[rows].tolist()]
    frame = context.common(
        start=host.start[rows],
        dur=(host.end - host.start)[rows],
        cost=cost,
        node=np.where(calls >= 0, calls, rows),
    )
    codes = np.array([kind(name) for name in called], np.int64)
    frame |= {
        "name": context.labels(host.name[rows], context.names),
        "kind": context.labels(codes, [*NAMES, "other"]),
        "accumulating": accumulating(context, host.start[rows]),
        "backend": pd.Categorical([name.partition(":")[0] for name in called]),
        "run": run,
        "round_share": share,
        "uneven_share": uneven_batches.waited_share(
            context,
            uneven_batches.Stays(
                union(host.start[rows], host.end[rows]),
                np.asarray(frame["step"], np.int64),
                cost,
                np.isin(codes, [NAMES.index(name) for name in uneven_batches.OF_BATCHES]),
            ),
        ),
    }
    return pd.DataFrame({name: frame[name] for name in SCHEMA.names()})


def _runs(context: Context) -> tuple[Ints, Ints, Floats]:
    """The call of each row, -1 without one; the calls of its run; and the part of its time that a round takes.

    The backend takes calls in their order. Where there are as many of them as rows, and each row begins behind its call, they
    are those. A run are calls of one kind from one line in one step; where no lines are recorded, from one operator.
    """
    host, rows = context.recording.host, context.once(nodes)
    none = np.full(len(rows), -1, np.int64)
    calls = nodes_by_name(context.recording, _CALL, (OP,))
    calls = calls[host.thread[calls] == main_thread(context.recording)] if len(calls) else calls
    calls = calls[np.argsort(host.start[calls], kind="stable")]
    if not len(rows) or len(calls) != len(rows) or (host.start[calls] > host.start[rows]).any():
        return none, none, np.full(len(rows), np.nan)
    dur = (host.end - host.start)[rows]
    places = context.common(start=host.start[calls], dur=host.end[calls] - host.start[calls], cost=dur, node=calls)
    keys = pd.DataFrame({"name": host.name[rows], **{name: places[name] for name in ("step", "file", "line")}})
    run = keys.groupby(list(keys), sort=False, observed=True, dropna=False).ngroup().to_numpy().astype(np.int64)
    size = np.bincount(run)[run]
    small = _elements(context, calls) <= _SMALL
    least = np.full(len(size), np.nan)
    since = np.full(len(size), np.inf)  # from the end of the one before it in its run
    for one in range(int(run.max()) + 1):
        members = np.flatnonzero(run == one)
        since[members[1:]] = host.start[calls[members[1:]]] - host.end[rows[members[:-1]]]
        taken = dur[members[small[members]]]
        if len(taken):
            least[members] = np.median(taken)
    # What a rank computes longer than another is waited for in the first: the next begin where all ranks have come.
    share = np.where(small & (since <= least), 1.0, np.minimum(least / np.maximum(dur, 1), 1.0))
    return calls, size, np.where(np.isnan(least), np.nan, share)


def _elements(context: Context, calls: Ints) -> Floats:
    """Elements that each call sends; NaN where that is not recorded, or of several tensors."""
    codes = context.op_column(calls, "dims")
    texts = context.shape_texts
    known = {code: _SIZES.match(texts[code]) for code in set(codes.tolist()) if code >= 0}
    sizes = {
        code: float(np.prod([int(part) for part in found[1].split(",")])) for code, found in known.items() if found
    }
    return np.array([sizes.get(code, np.nan) for code in codes.tolist()])


def parts(context: Context) -> tuple[Ints, Ints]:
    """Segments in which the main thread waits for collectives, with the row of each."""
    host, ledger, rows = context.recording.host, context.ledger, context.once(nodes)
    segments = np.flatnonzero(ledger.through("communication"))
    owner = np.full(len(segments), -1, np.int64)
    first = np.searchsorted(ledger.start_ns[segments], host.start[rows], side="left")
    last = np.searchsorted(ledger.start_ns[segments], host.end[rows], side="left")
    for row in reversed(range(len(rows))):
        owner[first[row] : last[row]] = row
    return segments[owner >= 0], owner[owner >= 0]


def _owned(context: Context) -> tuple[Ints, Ints]:
    return context.once(parts)


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("name", COUNT, *TIME),
    rows=Rows(nodes=lambda context: context.once(nodes)),
    owns=owns_parts(_owned),
    parts=_owned,
)

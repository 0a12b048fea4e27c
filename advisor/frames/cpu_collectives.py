"""`cpu_collectives`: one row per collective of a program on the CPU, which its backend runs on a thread of its own."""

from __future__ import annotations

import numpy as np

from advisor.columns import Columns, Series
from advisor.frames import uneven_batches
from advisor.frames.collectives import NAMES, kind
from advisor.frames.cpu_messages import nodes, runs
from advisor.frames.cpu_reductions import reduced_again, reduced_parameters
from advisor.frames.frame import COUNT, TIME, Frame, Rows, owns_parts
from advisor.frames.schema import COMMON, Schema, flag, integer, real, text
from advisor.intervals import Ints, summed, union
from advisor.timeline.context import Context

SCHEMA = Schema(
    "cpu_collectives",
    "a collective of a program on the CPU",
    (
        *COMMON,
        text("name", "its annotation, as gloo:all_reduce", "name"),
        text("kind", "all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send, recv, reduce, barrier or other"),
        text("backend", "gloo, mpi or ucc"),
        flag("accumulating", "of a backward pass that another forward pass of DDP follows before the optimizer steps, and of which "
             "the next pass reduces a message of that size again"),
        flag("of_parameters", "begun behind an optimizer's step and before the next backward pass, in a run whose tensors have the "
             "shapes of parameters, a matrix among them, where backward passes are followed by reductions too"),
        integer("run", "", "collectives of its kind called from its line in its step; -1 where calls are not recorded one by one",
                "the operators of c10d"),
        real("round_share", "share", "of its time that a round of the ranks takes by itself, however little is sent: the median "
             "of the messages of its run that have 16,384 elements or less; all of such a message that follows at once on one of "
             "its run, as both ranks come from there; NULL like `run`, and without such messages", "the operators of c10d"),
        real("own_share", "share", "of its time that goes where it is left out and no rank waits in it: all of one that follows at "
             "once on one of its run, of others the median of those, if it is of that size; NULL like `run`",
             "the operators of c10d"),
        uneven_batches.COLUMN,
    ),
)  # fmt: skip


def build(context: Context) -> Columns:
    """The frame. Each moment that the main thread waits is the collective's that has been in flight the longest."""
    host, rows = context.recording.host, context.once(nodes)
    segments, row = context.once(parts)
    told = context.once(runs)
    cost = summed(row, context.ledger.dur_ns[segments], len(rows))
    called = [context.names[code] for code in host.name[rows].tolist()]
    frame = context.common(
        start=host.start[rows],
        dur=host.ns(rows),
        cost=cost,
        node=np.where(told.calls >= 0, told.calls, rows),
    )
    codes = np.array([kind(name) for name in called], np.int64)
    frame |= {
        "name": context.labels(host.name[rows], context.names),
        "kind": context.labels(codes, [*NAMES, "other"]),
        "accumulating": context.once(reduced_again),
        "of_parameters": context.once(reduced_parameters),
        "backend": Series.texts([name.partition(":")[0] for name in called]),
        "run": told.size,
        "round_share": told.round_share,
        "own_share": told.own_share,
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
    return Columns({name: frame[name] for name in SCHEMA.names()})


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

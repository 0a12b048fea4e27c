"""`collective_calls`: one row per collective as the host recorded it, also where no kernel of it is in the trace.

A group of one rank runs no kernel, gloo runs none, and recordings of the host alone hold none; what was sent is known all the same.
"""

from __future__ import annotations

import numpy as np

from advisor.columns import Columns, Series
from advisor.frames.collectives import NAMES, kind
from advisor.frames.frame import COUNT, MEGABYTES, Frame, Rows
from advisor.frames.message_sizes import group_sizes, messages
from advisor.frames.ops import launched_inside
from advisor.frames.schema import COMMON, Schema, integer, text
from advisor.intervals import Ints
from advisor.timeline.context import Context

SCHEMA = Schema(
    "collective_calls",
    "a collective as the host called it (record_param_comms), also where no kernel of it was recorded",
    (
        *COMMON,
        text("name", "as recorded: allreduce, _allgather_base, wait ...", "args.Collective name"),
        text("kind", "all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send, recv, reduce, barrier or other"),
        integer("bytes", "bytes", "size of the message sent in; NULL where unknown", "args.In msg nelems, dtype"),
        text("dtype", "number format of the message: Float, Half, BFloat16 ...", "args.dtype"),
        text("group_name", "process group", "args.Process Group Name"),
        text("group_ranks", "the ranks in it, as a list; NULL where unknown", "args.Process Group Ranks"),
        integer("group_size", "", "how many they are; NULL where unknown", "args.Group size"),
        integer("seq", "", "its number in the process group; NULL where unknown", "args.Seq"),
        integer("gpu_ns", "ns", "GPU time launched inside it, summed"),
        integer("kernel_count", "", "pieces of GPU work launched inside it"),
    ),
)  # fmt: skip


def nodes(context: Context) -> Ints:
    """Forest node of each row, in order of start: the operators that name a collective."""
    rows = context.op_rows
    blank = [code for code, word in enumerate(context.recording.recorded.texts) if not word]
    found = rows[~np.isin(context.op_column(rows, "collective"), [-1, *blank])]
    return found[np.argsort(context.recording.host.start[found], kind="stable")]


def build(context: Context) -> Columns:
    """The frame. Its rows cost nothing: the kernels of `collectives` own the device's time."""
    host, texts, rows = context.recording.host, context.recording.recorded.texts, context.once(nodes)
    called = context.op_column(rows, "collective")
    sent, dtype = messages(context, rows, rows)
    time, count = launched_inside(context)
    frame = context.common(start=host.start[rows], dur=host.ns(rows), cost=np.zeros(len(rows), np.int64), node=rows)
    frame |= {
        "name": context.labels(called, texts),
        "kind": context.labels(np.array([kind(texts[code]) for code in called.tolist()], np.int64), [*NAMES, "other"]),
        "bytes": context.known(sent),
        "dtype": Series.texts(dtype),
        "group_name": context.labels(context.op_column(rows, "group_name"), texts),
        "group_ranks": context.labels(context.op_column(rows, "group_ranks"), texts),
        "group_size": context.known(group_sizes(context, rows)),
        "seq": context.known(context.op_column(rows, "collective_seq")),
        "gpu_ns": time[rows],
        "kernel_count": count[rows].astype(np.int64),
    }
    return Columns(frame)


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("kind", "dtype", COUNT, MEGABYTES),
    rows=Rows(nodes=lambda context: context.once(nodes)),
    timeless=True,
)

"""`memsets`: one row per fill on a GPU."""

from __future__ import annotations

from advisor.columns import Columns
from advisor.frames.frame import COUNT, MEGABYTES, TIME, Frame, Rows, owns_work
from advisor.frames.schema import COMMON, Schema, integer, text
from advisor.intervals import Ints
from advisor.timeline.context import Context
from advisor.timeline.recording import MEMSET

SCHEMA = Schema(
    "memsets",
    "a fill on a GPU",
    (
        *COMMON,
        text("name", "as the profiler calls it", "name"),
        integer("bytes", "bytes", "size; NULL where unknown", "args.bytes"),
        text("phase", "forward, backward, optimizer, zero_grad or other"),
    ),
)


def fills(context: Context) -> Ints:
    """Piece of GPU work that each row is."""
    return context.recording.work.indices(MEMSET)


def build(context: Context) -> Columns:
    """The frame."""
    work, rows = context.recording.work, fills(context)
    frame = context.common_of_work(rows)
    frame |= {
        "name": context.labels(work.name[rows], context.names),
        "bytes": context.known(context.work_column("memset", "bytes", rows)),
        "phase": context.phase(work.launch[rows]),
    }
    return Columns(frame)


FRAME = Frame(SCHEMA, build, evidence=("op", COUNT, MEGABYTES, *TIME), rows=Rows(work=fills), owns=owns_work(fills))

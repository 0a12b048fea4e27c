"""`unchanged_calls`: one row per operator below lines that do in a step what steps before it did."""

from __future__ import annotations

import numpy as np

from advisor.columns import Columns
from advisor.frames.frame import COUNT, TIME, Frame, Rows, owns_parts
from advisor.frames.schema import COMMON, Schema, integer, real, text
from advisor.frames.watched import Watched
from advisor.timeline.context import Context

_BY = "`advisor record`"
SCHEMA = Schema(
    "unchanged_calls",
    "an operator below a line that does in each of three steps the same, as `advisor record` saw by the bytes that operators are "
    "given: the line is the outermost one of which nearly all repeats; no rows where it did not watch, and beside a GPU",
    (
        *COMMON,
        text("name", "the operator", "name"),
        text("work", "same: of the same tensors; samples: of samples alone, picked from memory that did not change; evaluated: of "
             "the same tensors through parameters that changed, without gradients", _BY),
        integer("calls", "", "operators below its line, in the last step, that did what the others did", _BY),
        real("unchanged_share", "share", "of the time of its line's operators: those", _BY),
    ),
)  # fmt: skip


_WATCHED = Watched(lambda recorded: recorded.unchanged, host_only=True)


def build(context: Context) -> Columns:
    """The frame."""
    frame = _WATCHED.columns(context) | {
        "work": _WATCHED.texts(context, lambda entry: entry.work),
        "unchanged_share": _WATCHED.each(context, lambda entry: entry.share, np.float64),
    }
    return Columns({name: frame[name] for name in SCHEMA.names()})


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("work", "name", "calls", COUNT, *TIME),
    rows=Rows(nodes=_WATCHED.nodes),
    owns=owns_parts(_WATCHED.parts),
    parts=_WATCHED.parts,
)

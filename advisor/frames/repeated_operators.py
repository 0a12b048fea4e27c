"""`repeated_operators`: one row per operator below lines that compute again what the same step has computed."""

from __future__ import annotations

import numpy as np

from advisor.columns import Columns
from advisor.frames import single_calls
from advisor.frames.frame import COUNT, TIME, Frame, Rows, owns_parts
from advisor.frames.schema import COMMON, Schema, integer, real, text
from advisor.frames.watched import Watched
from advisor.reading.program_settings import Again
from advisor.timeline.calls import BACKWARD
from advisor.timeline.context import Context

_BY = "`advisor record`"
SCHEMA = Schema(
    "repeated_operators",
    "an operator below a line that computes again what the same step has computed, or of the backward pass of that, as "
    "`advisor record` saw in one step by what operators are given: the line is the outermost one of which nearly all was computed "
    "before, in or below the call in which both run; no rows where it did not watch, and beside a GPU",
    (
        *COMMON,
        text("name", "the operator", "name"),
        integer("calls", "", "operators below its line, in the step that was watched, that computed again", _BY),
        integer("from_line", "", "line of the function in which both run, that this call leads from", _BY),
        integer("earlier_line", "", "line of the same function whose call had computed it; -1 where a library calls both", _BY),
        real("repeated_share", "share", "of the time of its line's operators: those; in a backward pass of that of the operators "
             "through which a gradient flows: those of which the step has another such", _BY),
        real("spared", "share", "of the operator's time that goes with them: as much, but in a backward pass through one of as "
             "many graphs, which another pass goes through as well: half of what goes where such passes can be one"),
        real("batched", "share", "of calls of a module that it runs inside, which one call for all their samples spares "
             "(`single_calls`); 0 where it runs inside none", _BY),
    ),
)  # fmt: skip


_LEAST_OTHER = 0.01
WATCHED = Watched(lambda recorded: recorded.again, lambda entry: entry.path, host_only=True)


def build(context: Context) -> Columns:
    """The frame."""
    share = WATCHED.each(context, lambda entry: entry.share, np.float64)
    backward = WATCHED.each(context, lambda entry: entry.backward, np.float64)
    again = np.where(context.phases(WATCHED.nodes(context)) == BACKWARD, backward, share)
    batched = single_calls.batched(context)
    frame = WATCHED.columns(context) | {
        "from_line": WATCHED.each(context, lambda entry: entry.path[0][1], np.int64),
        "earlier_line": WATCHED.each(context, lambda entry: entry.earlier or -1, np.int64),
        "repeated_share": again,
        "spared": np.minimum(again, WATCHED.goes(context, _graphs)),
        "batched": WATCHED.each(
            context, lambda entry: max((batched.get(place, 0.0) for place in entry.path), default=0.0), np.float64
        ),
    }
    return Columns({name: frame[name] for name in SCHEMA.names()})


def _graphs(entry: Again) -> float:
    """Graphs of which each computes the same: of four alike three compute again."""
    return 1 / max(1 - entry.share, _LEAST_OTHER)


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("name", "calls", COUNT, *TIME),
    rows=Rows(nodes=WATCHED.nodes),
    owns=owns_parts(WATCHED.parts),
    parts=WATCHED.parts,
)

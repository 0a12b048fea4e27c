"""`repeated_calls`: one row per operator of calls of modules that compute again what the same step has computed."""

from __future__ import annotations

import numpy as np
import pandas as pd

from advisor.frames.frame import COUNT, TIME, Frame, Rows, owns_parts
from advisor.frames.schema import COMMON, Schema, flag, integer, real, text
from advisor.frames.watched import Watched
from advisor.timeline.context import Context

_BY = "`advisor record`"
SCHEMA = Schema(
    "repeated_calls",
    "an operator inside calls of modules of which some computed again what the same step had computed, or rows of their batch that "
    "are the same as others of it, at the line of these calls; and in their backward pass, as `advisor record` watched one step; "
    "no rows where it did not. Beside a GPU it owns the time of what it launched, and short idle time before that",
    (
        *COMMON,
        text("name", "the operator", "name"),
        text("called", "the class of the modules", _BY),
        integer("calls", "", "calls of it at the place, in the step that was watched", _BY),
        integer(
            "repeats", "", "those of the same input, parameters and output as an earlier call, or with such rows", _BY
        ),
        flag("of_rows", "not whole calls repeat, but rows within a call's batch", _BY),
        real("repeated_share", "share", "of the time of all calls at the place: those, or such rows", _BY),
    ),
)


_WATCHED = Watched(lambda recorded: recorded.repeats)


def build(context: Context) -> pd.DataFrame:
    """The frame."""
    frame = _WATCHED.columns(context) | {
        "repeats": _WATCHED.each(context, lambda entry: entry.repeats, np.int64),
        "of_rows": _WATCHED.each(context, lambda entry: entry.rows, np.bool_),
        "repeated_share": _WATCHED.each(context, lambda entry: entry.share, np.float64),
    }
    return pd.DataFrame({name: frame[name] for name in SCHEMA.names()})


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("called", "calls", "repeats", COUNT, *TIME),
    rows=Rows(nodes=_WATCHED.nodes),
    owns=owns_parts(_WATCHED.parts),
    parts=_WATCHED.parts,
)

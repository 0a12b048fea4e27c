"""`repeated_operators`: one row per operator below lines that compute again what the same step has computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from advisor.frames import operator_calls
from advisor.frames.frame import COUNT, TIME, Frame, Rows, owns_parts
from advisor.frames.schema import COMMON, Schema, integer, real, text
from advisor.intervals import Ints, summed
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
    ),
)  # fmt: skip


def build(context: Context) -> pd.DataFrame:
    """The frame."""
    host, entries = context.recording.host, _entries(context)
    chosen, at, functions = context.once(_found)
    rows = context.op_rows[chosen]
    segments, row = _parts(context)
    cost = summed(row, context.ledger.dur_ns[segments], len(rows))
    frame = context.common(start=host.start[rows], dur=host.end[rows] - host.start[rows], cost=cost, node=rows)

    def each(value: Callable[[Again], float]) -> npt.NDArray[np.float64]:
        return np.array([value(entry) for entry in entries], np.float64)[at]

    backward = context.phases(rows) == BACKWARD
    frame |= {
        "file": context.labels(at, [entry.file for entry in entries]),
        "line": np.array([entry.line for entry in entries], np.int64)[at],
        "function": context.labels(at, functions),
        "name": context.labels(host.name[rows], context.names),
        "calls": np.array([entry.calls for entry in entries], np.int64)[at],
        "from_line": np.array([entry.path[0][1] for entry in entries], np.int64)[at],
        "earlier_line": np.array([entry.earlier or -1 for entry in entries], np.int64)[at],
        "repeated_share": np.where(backward, each(lambda entry: entry.backward), each(lambda entry: entry.share)),
    }
    return pd.DataFrame({name: frame[name] for name in SCHEMA.names()})


def _entries(context: Context) -> Sequence[Again]:
    recorded = context.metadata.recorded
    return () if recorded is None or not context.cpu_program else recorded.again or ()


def _found(context: Context) -> tuple[Ints, Ints, list[str]]:
    """Rows of ``operator_calls`` that the entries are about, the entry of each, and the functions of their lines."""
    return operator_calls.within_paths(context, [entry.path for entry in _entries(context)])


def _nodes(context: Context) -> Ints:
    return context.op_rows[context.once(_found)[0]]


def _parts(context: Context) -> tuple[Ints, Ints]:
    return operator_calls.parts_of(context, context.once(_found)[0])


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("name", "calls", COUNT, *TIME),
    rows=Rows(nodes=_nodes),
    owns=owns_parts(_parts),
    parts=_parts,
)

"""`repeated_calls`: one row per operator of calls of modules that compute again what the same step has computed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor.columns import Columns
from advisor.frames import repeated_operators, single_calls
from advisor.frames.filling import blocks_per_sm
from advisor.frames.frame import COUNT, TIME, Frame, Rows, owns_parts
from advisor.frames.patterns.find import find
from advisor.frames.schema import COMMON, Schema, flag, integer, real, text
from advisor.frames.watched import Watched
from advisor.intervals import Bools, Ints, distinct, summed
from advisor.timeline.context import Context

_BY = "`advisor record`"
SCHEMA = Schema(
    "repeated_calls",
    "an operator inside calls of modules of which some computed again what the same step had computed, or rows of their batch that "
    "are the same as others of it, at the line of these calls; and in their backward pass, as `advisor record` watched one step; "
    "no rows where it did not. Beside a GPU it owns the time of what it launched, and, but for rows, short idle time before that",
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
        real(
            "spared",
            "share",
            "of the operator's time that goes with them: as much, but for rows beside a GPU of a kernel "
            "what is beyond its start, where its blocks fill half of the GPU",
        ),
        flag("led_to", "another line that computes again (`repeated_operators`) leads to most of what repeats here: that one is "
             "to be changed"),
        flag("gathered", "its line runs a layer on gathered rows, which is the same fault (`patterns`)"),
        real("batched", "share", "of the time of the calls at the place that one call for all their samples spares "
             "(`single_calls`); 0 where they could not be one", _BY),
    ),
)  # fmt: skip


_MOSTLY = 0.75
"""Part of what repeats at a place that another line leads to, from which on that line is the one to change."""
_START_NS = 5_000
"""A kernel that takes no longer takes as long on fewer rows."""
_FILLED = 0.5
"""Blocks for each multiprocessor under which fewer blocks take as long."""
_WATCHED = Watched(lambda recorded: recorded.repeats)


def build(context: Context) -> Columns:
    """The frame."""
    frame = _WATCHED.columns(context) | {
        "called": _WATCHED.texts(context, lambda entry: entry.module),
        "repeats": _WATCHED.each(context, lambda entry: entry.repeats, np.int64),
        "of_rows": _WATCHED.each(context, lambda entry: entry.rows, np.bool_),
        "repeated_share": _WATCHED.each(context, lambda entry: entry.share, np.float64),
    }
    segments, row = _parts(context)
    cost = summed(row, context.ledger.dur_ns[segments], len(_WATCHED.at(context)))
    batched = single_calls.batched(context)
    frame |= {
        "led_to": _led_to(context, cost),
        "gathered": _gathered(context),
        "cost_ns": cost,
        "spared": _spared(context, cost),
        "batched": _WATCHED.each(context, lambda entry: batched.get((entry.file, entry.line), 0.0), np.float64),
    }
    return Columns({name: frame[name] for name in SCHEMA.names()})


def _parts(context: Context) -> tuple[Ints, Ints]:
    """Segments that the rows own: with fewer rows as many operators are called, so beside a GPU what it waits is not theirs."""
    segments, row = _WATCHED.parts(context)
    if not len(segments):
        return segments, row
    if context.cpu_program:
        return segments, row
    of_rows = _WATCHED.each(context, lambda entry: entry.rows, np.bool_)
    kept = ~of_rows[row] | context.ledger.busy[segments]
    return segments[kept], row[kept]


def _led_to(context: Context, cost: Ints) -> Bools:
    """Flag rows of entries whose repeated part is mostly below one line that computes again and is another one."""
    nodes, at = _WATCHED.nodes(context), _WATCHED.at(context)
    entries, lines = _WATCHED.entries(context), repeated_operators.WATCHED.entries(context)
    flags = np.zeros(len(nodes), np.bool_)
    if not len(nodes) or not lines:
        return flags
    line_of = np.full(context.recording.host.size, -1, np.int64)
    line_of[repeated_operators.WATCHED.nodes(context)] = repeated_operators.WATCHED.at(context)
    below = line_of[nodes]
    for one in distinct(at).tolist():
        rows = np.flatnonzero((at == one) & (below >= 0))
        shares = np.bincount(below[rows], cost[rows], len(lines)) / max(int(cost[at == one].sum()), 1)
        most = int(shares.argmax())
        apart = (lines[most].file, lines[most].line) != (entries[one].file, entries[one].line)
        flags[at == one] = apart and shares[most] * lines[most].share >= _MOSTLY * entries[one].share
    return flags


def _gathered(context: Context) -> Bools:
    """Flag rows of entries whose line runs a layer on gathered rows."""
    found = [occurrences for occurrences in context.once(find).kinds if occurrences.kind == "gathered"]
    if not found or not len(_WATCHED.at(context)):
        return np.zeros(len(_WATCHED.at(context)), np.bool_)
    host = context.recording.host
    codes = distinct(host.attributes.user[np.concatenate([one.node for one in found])]).tolist()
    lines = {(host.places[code].file, host.places[code].line) for code in codes if code >= 0}
    return _WATCHED.each(context, lambda entry: (entry.file, entry.line) in lines, np.bool_)


def _spared(context: Context, cost: Ints) -> npt.NDArray[np.float64]:
    """Return the part of operators' time that goes without the calls, or the rows."""
    whole = _WATCHED.each(context, lambda entry: entry.share, np.float64)
    share: npt.NDArray[np.float64] = np.minimum(whole, _WATCHED.goes(context, lambda entry: entry.calls))
    of_rows = _WATCHED.each(context, lambda entry: entry.rows, np.bool_)
    if context.cpu_program or not of_rows.any():
        return share
    ledger, (segments, row) = context.ledger, _parts(context)
    busy = ledger.busy[segments]
    segments, row = segments[busy], row[busy]
    work = ledger.row[segments]
    took = context.recording.work.end[work] - context.recording.work.start[work]
    goes = 1 - np.minimum(_START_NS / np.maximum(took, 1), 1)
    goes[blocks_per_sm(context)[work] < _FILLED] = 0
    part = np.bincount(row, weights=ledger.dur_ns[segments] * goes, minlength=len(share)) / np.maximum(cost, 1)
    return np.where(of_rows, share * part, share)


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("called", "calls", "repeats", COUNT, *TIME),
    rows=Rows(nodes=_WATCHED.nodes),
    owns=owns_parts(_parts),
    parts=_parts,
)

"""Reasons for which the limits of kernels are not known: what the recording lacks, or what nobody can tell from it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from advisor.intervals import Bools, Ints, distinct, fetch
from advisor.roofline.limits import limits, modelled_work, rates_of
from advisor.timeline.calls import OP
from advisor.timeline.context import Context

_REASONS = (
    "no rates of this device (--device, --peak)",
    "replayed graphs record no shapes",
    "launched by no operator",
    "no shapes recorded",
    "no formula for the operator",
    "no rate known for the number format",
)
_DEVICE, _REPLAYED, _UNLAUNCHED, _UNSHAPED, _UNTOLD, _FORMAT = range(len(_REASONS))
_UNRECORDED = frozenset((b"", b"null"))


class Reasons(NamedTuple):
    """Of each row of ``kernels``, why its limit is not known."""

    texts: list[str]
    code: Ints
    """An index into ``texts``; -1 where the limit is known, and for communication, which has none."""


def reasons(context: Context) -> Reasons:
    """The reasons of all kernels. Of several that hold the one that alone would keep the limit unknown is named."""
    found, known = context.once(limits), context.once(modelled_work)
    work, host = context.recording.work, context.recording.host
    missing = [f"the trace lacks {one.missing}" if one and one.missing and not one.known else "" for one in known.works]
    texts = [*_REASONS, *dict.fromkeys(text for text in missing if text)]
    code = np.full(len(context.kernel_rows), -1, np.int64)
    rows = np.flatnonzero(~found.known & ~work.communication[context.kernel_rows])
    if not len(rows):
        return Reasons(texts, code)
    work_rows = context.kernel_rows[rows]
    out, launch = np.full(len(rows), _UNLAUNCHED, np.int64), work.launch[work_rows]
    if host.size:
        operator = fetch(host.attributes.op, launch)
        launched = (operator >= 0) & (fetch(host.group, operator) == OP)
        out[launched] = np.where(_shaped(context)[operator[launched]], _UNTOLD, _UNSHAPED)
        numbers = np.array([texts.index(text) if text else -1 for text in missing] + [-1], np.int64)
        # An operator whose formula says what it lacks may launch through others, of which nothing is known.
        says = host.nearest(launch, (numbers >= 0)[known.form])
        lacking = np.where(says >= 0, numbers[known.form[says]], -1)
        out[launched] = np.where(lacking >= 0, lacking, out)[launched]
    out[found.owner[rows] >= 0] = _FORMAT
    out[np.isin(launch, context.graph_nodes)] = _REPLAYED
    devices = work.device[work_rows]
    for device in distinct(devices).tolist():
        if rates_of(context, device) is None:
            out[devices == device] = _DEVICE
    code[rows] = out
    return Reasons(texts, code)


def _shaped(context: Context) -> Bools:
    """Flag the forest's operators whose operands' shapes were recorded."""
    host, table = context.recording.host, context.recording.tables.get("op")
    flags = np.zeros(host.size, np.bool_)
    if table is not None:
        shaped = np.array([raw.strip() not in _UNRECORDED for raw in context.recording.recorded.raws], np.bool_)
        flags[host.node_of["op"]] = shaped[table["dims"]]
    return flags

"""Stretches in which files are written: from the calls of Python in the trace, or as the recorder noted it before operators."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from advisor.intervals import Ints, distinct, fetch
from advisor.regex import regex
from advisor.timeline.calls import OP, PYTHON
from advisor.timeline.context import Context
from advisor.timeline.source import parse_frame
from advisor.timeline.writes import find, label

Floats = npt.NDArray[np.float64]
_LEAST_ENDS, _BESIDE_NS = 2, 1_000_000
"""Steps whose ends tell how the last one ends; how far from a boundary the writing may end."""
_NOTE = regex(r"(?P<share>[01]\.\d+) of (?P<ns>\d{1,18}) ns in (?P<label>[^;]*)")


class Spans(Struct, frozen=True):
    """Stretches of one thread in which files were written for a part of the time, in order and apart."""

    start: Ints
    end: Ints
    share: Floats
    user: Ints
    library: Ints
    label: Ints

    def written(self, start: Ints, end: Ints) -> Ints:
        """ns of each span that wrote files."""
        edges = np.stack([self.start, self.end], axis=1).ravel()
        sums = np.cumsum(self.share * (self.end - self.start))
        values = np.stack([np.r_[0.0, sums[:-1]], sums], axis=1).ravel()
        out: Ints = (np.interp(end, edges, values) - np.interp(start, edges, values)).round().astype(np.int64)
        return out

    def most(self, start: Ints, end: Ints) -> Ints:
        """Index of the stretch that most of each span's writing lies in, -1 for none."""
        low = np.searchsorted(self.end, start, side="right")
        high = np.searchsorted(self.start, end, side="left")
        out = np.where(high > low, low, -1)
        for at in np.flatnonzero(high - low > 1).tolist():
            here = slice(int(low[at]), int(high[at]))
            inside = np.minimum(self.end[here], end[at]) - np.maximum(self.start[here], start[at])
            out[at] = int(low[at]) + int(np.argmax(inside * self.share[here]))
        return out


class Written(Struct, frozen=True):
    """By thread, the stretches in which it wrote files; and the calls that their labels stand for."""

    of: dict[int, Spans]
    labels: list[str]


def written(context: Context) -> Written | None:
    """Find who wrote files, by the Python that the trace holds, else as the recorder noted it; None where neither says a word."""
    host, names = context.recording.host, context.names
    labels: dict[str, int] = {}
    attributes = host.attributes
    if (host.group == PYTHON).any():
        own = np.zeros(max(len(names), 1), np.bool_)
        for code in distinct(host.name[host.group == PYTHON]).tolist():
            place = parse_frame(names[code], host.libraries)
            own[code] = place is not None and place.user
        node = find(host, names, own).node
        code_of = {
            code: labels.setdefault(label(names[code]), len(labels)) for code in distinct(host.name[node]).tolist()
        }
        label_of = np.array([code_of[code] for code in host.name[node].tolist()], np.int64)
        rows = (host.start[node], host.end[node], np.ones(len(node)), attributes.user[node], attributes.library[node])
        return Written(_by_thread(host.thread[node], *rows, label_of), list(labels))
    node, texts, user, library = host.notes_of_writes()
    notes = [_NOTE.match(text) for text in texts]
    known = np.array([found is not None for found in notes], np.bool_)
    read = [found for found in notes if found is not None]
    if not read:
        return None
    share = np.minimum(np.array([float(found["share"]) for found in read], np.float64), 1.0)
    ns = np.array([int(found["ns"]) for found in read], np.int64)
    label_of = np.array([labels.setdefault(found["label"], len(labels)) for found in read], np.int64)
    node, end = node[known], host.start[node[known]]
    spans = _by_thread(host.thread[node], end - ns, end, share, user[known], library[known], label_of)
    return Written({thread: _with_last(context, thread, one) for thread, one in spans.items()}, list(labels))


def _by_thread(
    thread: Ints, start: Ints, end: Ints, share: Floats, user: Ints, library: Ints, label_of: Ints
) -> dict[int, Spans]:
    out = {}
    for tid in distinct(thread).tolist():
        here = np.flatnonzero(thread == tid)
        here = here[np.argsort(end[here], kind="stable")]
        begin = np.maximum(start[here], np.r_[np.iinfo(np.int64).min, end[here][:-1]])
        out[tid] = Spans(begin, end[here], share[here], user[here], library[here], label_of[here])
    return out


def _with_last(context: Context, thread: int, spans: Spans) -> Spans:
    """Add the end of the last step, behind which no operator has a note, where all steps before it end with writing."""
    host, bounds = context.recording.host, context.recording.bounds
    inner, last = bounds[1:-1], int(bounds[-1])
    at = np.searchsorted(spans.start, inner, side="right") - 1
    if len(inner) < _LEAST_ENDS or (at < 0).any() or (inner - spans.end[at] > _BESIDE_NS).any():
        return spans
    ops = np.flatnonzero((host.group == OP) & (host.thread == thread) & (host.start < last))
    begin = max(int(host.end[ops].max(initial=0)), int(spans.end[-1]))
    if not 0 < begin < last:
        return spans
    model = at[-1]
    share = np.r_[spans.share, np.median(spans.share[at])]
    start, end = np.r_[spans.start, begin], np.r_[spans.end, last]
    return Spans(start, end, share, *(np.r_[one, one[model]] for one in (spans.user, spans.library, spans.label)))


class Files(Struct, frozen=True):
    """Time in each stretch that passed in calls that write files, and the places and the name of the call with most of it."""

    ns: Ints
    user: Ints
    library: Ints
    label: Ints
    labels: list[str]

    @classmethod
    def of(cls, context: Context, size: int) -> Files:
        """Of *size* stretches nothing yet: 0 ns where it can be known, else -1."""
        found = context.once(written) if context.recording.has_host else None
        none = np.full((3, size), -1, np.int64)
        ns = np.full(size, -1 if found is None else 0, np.int64)
        return cls(ns, none[0], none[1], none[2], [] if found is None else found.labels)

    def fill(self, context: Context, thread: int, rows: Ints, start: Ints, end: Ints) -> None:
        """Put in what *thread* wrote in the stretches of *rows*."""
        found = context.once(written)
        spans = found.of.get(thread) if found is not None else None
        if spans is None:
            return
        self.ns[rows] = spans.written(start, end)
        most = np.where(self.ns[rows] > 0, spans.most(start, end), -1)
        for column, values in ((self.user, spans.user), (self.library, spans.library), (self.label, spans.label)):
            column[rows] = fetch(values, most)

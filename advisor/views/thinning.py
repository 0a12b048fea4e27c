"""Few enough spans to draw, and no time lost: what is too short is drawn together, as long as it was altogether."""

from __future__ import annotations

import numpy as np
from msgspec import Struct, field
from msgspec.structs import fields

from advisor.intervals import Bools, Ints

_FINEST = 4000
_WIDER = 1.4


class Spans(Struct):
    """Spans to draw, as columns. Times are ns; ``name`` and ``category`` are codes, ``finding`` a rule's index or -1.

    ``event`` is what the recording calls it: the index of a piece of GPU work, or a node of the host's forest; -1 for neither.
    """

    track: Ints
    row: Ints
    start: Ints
    dur: Ints
    name: Ints
    category: Ints
    finding: Ints
    count: Ints
    event: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        if len(self.event) != len(self.start):
            self.event = np.full(len(self.start), -1, np.int64)

    def __len__(self) -> int:
        return len(self.start)

    def take(self, index: Ints) -> Spans:
        """Some of the spans, or all in another order."""
        return Spans(*(getattr(self, column.name)[index] for column in fields(self)))

    @staticmethod
    def join(parts: list[Spans]) -> Spans:
        """All spans of several."""
        return Spans(*(np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(Spans)))


def fit(spans: Spans, most: int, length: int) -> Spans:
    """At most about *most* spans of a picture that is *length* ns long, sorted by track and start.

    Spans of one row and category that are shorter than a pixel's worth and begin in the same one become one: its start
    is the first's, its length theirs together, its name and event the longest's. Longer spans stay as they are. The pixel grows
    from 1/4000 of the picture until what is left fits.
    """
    if len(spans) <= most:
        return spans.take(np.lexsort((spans.dur, spans.start, spans.row, spans.track))) if len(spans) else spans
    lane = np.zeros(len(spans), np.int64)
    for key in (spans.track, spans.row, spans.category, spans.finding + 1):
        lane = lane * (int(key.max()) + 1) + key
    order = np.lexsort((spans.start, lane))
    spans, lane = spans.take(order), lane[order]
    width = max(length // _FINEST, 1)
    while True:
        alone = spans.dur >= width
        fresh = np.ones(len(spans), np.bool_)
        fresh[1:] = (lane[1:] != lane[:-1]) | (np.diff(spans.start // width) != 0) | alone[1:] | alone[:-1]
        if int(fresh.sum()) <= most or width > length:
            return _lay_out(_merge(spans, fresh))
        width = int(width * _WIDER) + 1


def _merge(spans: Spans, fresh: Bools) -> Spans:
    """One span for each run that *fresh* begins."""
    first = np.flatnonzero(fresh)
    run = np.cumsum(fresh) - 1
    longest = np.lexsort((spans.dur, run))[np.append(first[1:], len(spans)) - 1]
    out = spans.take(first)
    out.dur = np.add.reduceat(spans.dur, first)
    out.count = np.add.reduceat(spans.count, first)
    out.name, out.event = spans.name[longest], spans.event[longest]
    return out


def _lay_out(spans: Spans) -> Spans:
    """Sorted by track, row and start, and each begins where the one before it on its row has ended.

    What was merged lay scattered over a pixel; drawn as one it may reach into its neighbour, which gives way. As the
    spans of a row never overlapped, none is pushed beyond where the last of its pixel ended.
    """
    spans = spans.take(np.lexsort((spans.start, spans.row, spans.track)))
    start = spans.start.copy()
    edges = np.flatnonzero((np.diff(spans.track) != 0) | (np.diff(spans.row) != 0)) + 1
    for low, high in zip([0, *edges.tolist()], [*edges.tolist(), len(spans)], strict=True):
        dur = spans.dur[low:high]
        if (spans.count[low:high] == 1).all():
            continue
        before = np.cumsum(dur) - dur
        pushed = before + np.maximum.accumulate(start[low:high] - before)
        if pushed[-1] + dur[-1] <= (start[low:high] + dur).max() + dur.max():
            start[low:high] = pushed
    spans.start = start
    return spans

"""Evidence on the timeline: for events of the shown step, the finding that they belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from advisor.frames import FRAMES
from advisor.frames.frame import Rows
from advisor.intervals import Bools, Ints, distinct
from advisor.views.steps import Extent

if TYPE_CHECKING:
    from advisor.engine.claims import Claim
    from advisor.trace import Trace


class _Evidence(Struct):
    """Events of the shown step that a rule matched: one array of indices for GPU work, host nodes and segments of the ledger."""

    rule: int
    parts: tuple[Ints, Ints, Ints]

    @property
    def size(self) -> int:
        return sum(len(part) for part in self.parts)


class Marks:
    """For each piece of GPU work, node of the host's forest and segment of the ledger the finding it is evidence of, or -1.

    An event can show one finding only: the rarer one, so that none is hidden by another that matches half of the step.
    """

    def __init__(self, trace: Trace, extent: Extent, matches: Mapping[str, Claim], order: Sequence[str]) -> None:
        self.rules = list(order)
        self._trace = trace
        recording = trace.context.recording
        host, work, ledger = recording.host, recording.work, trace.ledger
        low, high = extent.low, extent.high
        self._inside = (
            within(work.start, work.end, low, high) & (work.device == trace.device),
            within(host.start, host.end, low, high),
            within(ledger.start_ns, ledger.end_ns, low, high),
        )
        self.work, self.node, self.segment = self._all = tuple(
            np.full(len(inside), -1, np.int64) for inside in self._inside
        )
        items = [self._evidence(number, matches[rule]) for number, rule in enumerate(order) if rule in matches]
        for evidence in sorted(items, key=lambda evidence: -evidence.size):
            for marks, part in zip(self._all, evidence.parts, strict=True):
                marks[part] = evidence.rule
        for evidence in items:
            if evidence.size and not any((marks == evidence.rule).any() for marks in self._all):
                self._share(evidence)

    def _share(self, evidence: _Evidence) -> None:
        """Give a rule all of whose events show others every second of what it shares with them."""
        for marks, part in zip(self._all, evidence.parts, strict=True):
            for other in distinct(marks[part]).tolist():
                shared = part[marks[part] == other]
                if sum(int((column == other).sum()) for column in self._all) > 1:
                    marks[shared[1::2] if len(shared) > 1 else shared] = evidence.rule

    def _evidence(self, number: int, claim: Claim) -> _Evidence:
        name, context = claim.rule.match.frame, self._trace.context
        rows = FRAMES[name].rows
        work, nodes = self._events_of(name, rows, claim.rows)
        # Rows that are segments themselves are evidence in steps that the figures leave out, too.
        segments = claim.segments[context.ledger.idle[claim.segments]]
        if rows.segments is not None:
            segments = rows.segments(context, claim.rows)
        parts = (work, nodes, segments.astype(np.int64))
        shown = [part[inside[part]] for part, inside in zip(parts, self._inside, strict=True)]
        return _Evidence(number, (shown[0], shown[1], shown[2]))

    def _events_of(self, name: str, rows: Rows, mask: Bools) -> tuple[Ints, Ints]:
        """GPU work and host nodes that the chosen rows of a frame are."""
        context, nothing = self._trace.context, np.zeros(0, np.int64)
        if rows.events is not None:
            return rows.events(context, mask)
        if rows.work is not None:
            return rows.work(context)[mask], nothing
        nodes = rows.nodes(context)[mask] if rows.nodes is not None else self._at_times(name, mask)
        return nothing, nodes[nodes >= 0]

    def _at_times(self, frame: str, mask: Bools) -> Ints:
        """Host nodes on the thread and at the time of the chosen rows, for frames that tell both."""
        table, host = self._trace.columns(frame), self._trace.context.recording.host
        if not {"thread", "start_ns", "dur_ns"} <= set(table) or not host.size:
            return np.zeros(0, np.int64)
        chosen = np.stack([table[name].to_numpy(np.int64)[mask] for name in ("thread", "start_ns", "dur_ns")], axis=1)
        nodes = np.flatnonzero(np.isin(host.start, chosen[:, 1]) & np.isin(host.thread, chosen[:, 0]))
        known = set(map(tuple, chosen.tolist()))
        spans = zip(host.thread[nodes].tolist(), host.start[nodes].tolist(), host.end[nodes].tolist(), strict=True)
        hits = [
            node
            for node, (thread, start, end) in zip(nodes.tolist(), spans, strict=True)
            if (thread, start, end - start) in known
        ]
        return np.array(hits, np.int64)


def within(start: Ints, end: Ints, low: int, high: int) -> Bools:
    """Flag the spans that show in ``[low, high)``; those without length by their instant."""
    inside: Bools = (start < high) & ((end > low) | ((end == start) & (start >= low)))
    return inside

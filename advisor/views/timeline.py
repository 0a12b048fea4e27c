"""The timeline: one step, event by event, on the device and on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from advisor.counting import counted
from advisor.intervals import Ints, coded, fetch, starts_run
from advisor.results.views import Timeline, Track
from advisor.timeline.ledger import CAUSES, CODE
from advisor.timeline.recording import COPY, MEMSET
from advisor.views.grid import short
from advisor.views.lanes import HOST_CATEGORIES, host_lanes, rows_of
from advisor.views.marks import Marks
from advisor.views.origins import launches, origins
from advisor.views.steps import Extent
from advisor.views.thinning import Spans, fit

if TYPE_CHECKING:
    from advisor.trace import Trace

MOST_EVENTS = 4600
MOST_CAUSES = 1400
# Of each further step: all of them together stay as small as the first.
MOST_EVENTS_OF_OTHERS = 800
MOST_CAUSES_OF_OTHERS = 250
_MOST_STREAMS = 12
_LONGEST_NAME = 160
CATEGORIES = (*CAUSES, *HOST_CATEGORIES)


def timeline(
    trace: Trace, extent: Extent, marks: Marks, most_events: int = MOST_EVENTS, most_causes: int = MOST_CAUSES
) -> Timeline | None:
    """A step event by event, of which about so many are drawn apart; None where it has no length."""
    low, high = extent.low, extent.high
    if high <= low:
        return None
    names = list(trace.context.names)
    base = len(names)
    names += CAUSES
    tracks: list[Track] = []
    left_out: list[str] = []
    causes = _causes(trace, extent, marks, base)
    tracks.append(Track(label=_owner(trace), kind="cause", depth=1))
    parts = _streams(trace, extent, marks, tracks, left_out)
    others = len(trace.context.recording.devices) - 1
    if others > 0:
        left_out.append(counted(others, "other GPU"))
    lanes = host_lanes(trace, extent, marks, len(tracks))
    parts += lanes.parts
    tracks += lanes.tracks
    left_out += lanes.left_out
    for label, text in lanes.labels.items():
        names[label] = text
    events = Spans.join(parts) if parts else causes.take(np.zeros(0, np.int64))
    total = int(events.count.sum())
    length = high - low
    items = fit(events, most_events, length)
    merged = int(items.count[items.count > 1].sum())
    spans = Spans.join([fit(causes, most_causes, length), items])
    spans = spans.take(np.lexsort((spans.row, spans.start, spans.track)))
    used, code = coded(spans.name)
    kinds, kind = coded(spans.category)
    node, launch = _sources(trace, spans, tracks)
    found, origin = origins(trace.context, np.where(spans.count == 1, node, -1))
    title = f"{extent.name}, {length / 1e6:,.1f} ms"
    if extent.role:
        title += f", of {trace.step_count} steps the {'one ' * extent.role.startswith('nearest')}{extent.role}"
    if left_out:
        title += f". Left out: {'; '.join(left_out)}"
    return Timeline(
        title=title,
        step=extent.step,
        role=extent.role,
        start_ms=low / 1e6,
        dur_ns=length,
        events=total,
        merged=merged,
        tracks=tracks,
        names=[short(names[at], _LONGEST_NAME) or "(no name)" for at in used.tolist()],
        categories=[CATEGORIES[at] for at in kinds.tolist()],
        rules=marks.rules,
        track=spans.track.tolist(),
        row=spans.row.tolist(),
        start=spans.start.tolist(),
        dur=spans.dur.tolist(),
        name=code.tolist(),
        category=kind.tolist(),
        count=spans.count.tolist(),
        finding=spans.finding.tolist(),
        origins=found,
        origin=origin.tolist(),
        launches=launches(trace.context, lanes, launch, low),
    )


def _sources(trace: Trace, spans: Spans, tracks: Sequence[Track]) -> tuple[Ints, Ints]:
    """Forest node that each span belongs to, and that of the call which launched it; -1 for none."""
    work = trace.context.recording.work
    kinds = np.array([("cause", "stream", "thread").index(track.kind) for track in tracks], np.int64)[spans.track]
    launch = fetch(work.launch, np.where(kinds == 1, spans.event, -1))
    return np.where(kinds == 2, spans.event, launch), launch


def _owner(trace: Trace) -> str:
    return f"GPU {trace.device}: what its time goes to" if trace.device >= 0 else "what the time goes to"


def _causes(trace: Trace, extent: Extent, marks: Marks, base: int) -> Spans:
    """The device's time by cause, without holes; what follows on itself is one span."""
    ledger = trace.ledger
    start = np.clip(ledger.start_ns, extent.low, extent.high)
    dur = np.clip(ledger.end_ns, extent.low, extent.high) - start
    segments = np.flatnonzero(dur > 0)
    cause, finding = ledger.cause[segments], marks.segment[segments]
    first = np.flatnonzero(starts_run(cause, finding))
    zeros = np.zeros(len(first), np.int64)
    return Spans(
        track=zeros,
        row=zeros,
        start=start[segments][first] - extent.low,
        dur=np.add.reduceat(dur[segments], first) if len(first) else zeros,
        name=base + cause[first],
        category=cause[first],
        finding=finding[first],
        count=np.ones(len(first), np.int64),
    )


def _streams(trace: Trace, extent: Extent, marks: Marks, tracks: list[Track], left_out: list[str]) -> list[Spans]:
    """The busiest device's streams, those with evidence and the busiest first; adds to *tracks* and *left_out*."""
    work = trace.context.recording.work
    low, high = extent.low, extent.high
    events = np.flatnonzero((work.device == trace.device) & (work.start < high) & (work.end > low))
    if not len(events):
        return []
    start, end = np.clip(work.start[events], low, high), np.clip(work.end[events], low, high)
    streams, at = coded(work.stream[events])
    busy = np.bincount(at, end - start, len(streams))
    marked = np.bincount(at, marks.work[events] >= 0, len(streams)) > 0
    order = np.lexsort((streams, -busy, ~marked))
    shown = sorted(order[:_MOST_STREAMS].tolist(), key=lambda stream: -busy[stream])
    if len(order) > len(shown):
        count = int(np.isin(at, order[_MOST_STREAMS:]).sum())
        left_out.append(f"{counted(len(order) - len(shown), 'stream')} with {counted(count, 'event')}")
    category = np.select(
        [work.communication, work.kind == COPY, work.kind == MEMSET],
        [CODE["communication"], CODE["copy"], CODE["memset"]],
        CODE["compute"],
    )
    parts: list[Spans] = []
    for stream in shown:
        here = np.flatnonzero(at == stream)
        rows: Ints = events[here]
        row = rows_of(start[here], end[here])
        parts.append(
            Spans(
                track=np.full(len(here), len(tracks), np.int64),
                row=row,
                start=start[here] - low,
                dur=end[here] - start[here],
                name=work.name[rows],
                category=category[rows],
                finding=marks.work[rows],
                count=np.ones(len(here), np.int64),
                event=rows,
            )
        )
        label = f"GPU {trace.device}, stream {streams[stream]}"
        tracks.append(Track(label=label, kind="stream", depth=int(row.max()) + 1))
    return parts

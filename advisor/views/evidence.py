"""The evidence of the findings as a trace of its own: one step, annotated, small enough for Perfetto or chrome://tracing.

It is written from columns, not cut from the file: names are those that reach a report (no home directory, no environment),
and so is nothing else. Every event that is evidence says of which rule; a process "advisor" holds the findings as spans, and
the owner of every moment of the GPU.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.intervals import Ints
from advisor.results.encoding import inert
from advisor.timeline.calls import ANNOTATION, OP, PYTHON, RUNTIME
from advisor.timeline.ledger import CAUSES
from advisor.timeline.recording import COPY, KERNEL
from advisor.views.marks import Marks, within
from advisor.views.steps import representative

if TYPE_CHECKING:
    from advisor.engine.run import Outcome
    from advisor.results.analysis import Finding
    from advisor.trace import Trace

_GROUPS = {PYTHON: "python_function", ANNOTATION: "user_annotation", OP: "cpu_op", RUNTIME: "cuda_runtime"}
_OWN = 1 << 30
"""The process that the advisor's own tracks are in."""


def evidence(trace: Trace, outcome: Outcome, findings: Sequence[Finding]) -> Iterator[bytes]:
    """The bytes of the annotated trace, piece by piece: the representative step (the window where there are none).

    Times stay on the clock of the file that was read, in us.
    """
    extent = representative(trace)
    marks = Marks(trace, extent, outcome.matches, [finding.rule for finding in findings])
    head = {"schemaVersion": 1, "displayTimeUnit": "ms", "advisor": {"step": extent.name, "findings": marks.rules}}
    yield json.dumps(head)[:-1].encode() + b', "traceEvents": [\n'
    first = True
    for event in _events(trace, marks, findings, extent.low, extent.high):
        yield (b"" if first else b",\n") + inert(json.dumps(event)).encode()
        first = False
    yield b"\n]}\n"


def _events(trace: Trace, marks: Marks, findings: Sequence[Finding], low: int, high: int) -> Iterator[dict[str, Any]]:
    recording = trace.context.recording
    zero = recording.zero_ns

    def span(
        name: str, category: str, where: tuple[int, int], when: tuple[int, int], args: dict[str, Any]
    ) -> dict[str, Any]:
        ts, dur = (zero + when[0]) / 1000, (when[1] - when[0]) / 1000
        place = {"pid": where[0], "tid": where[1], "ts": ts, "dur": dur}
        return {"ph": "X", "cat": category, "name": name, **place, "args": args}

    def label(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
        return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}

    def rule_of(rule: int) -> dict[str, str]:
        return {"advisor": marks.rules[rule]} if rule >= 0 else {}

    yield label("process_name", _OWN, 0, "advisor: findings and causes")
    yield label("thread_name", _OWN, 0, "what the GPU's time goes to")
    ledger = trace.ledger
    inside = np.flatnonzero(within(ledger.start_ns, ledger.end_ns, low, high))
    for at in inside.tolist():
        start, end = int(ledger.start_ns[at]), int(ledger.end_ns[at])
        yield span(CAUSES[ledger.cause[at]], "advisor", (_OWN, 0), (start, end), rule_of(int(marks.segment[at])))
    work, host = recording.work, recording.host
    shown = np.flatnonzero(within(work.start, work.end, low, high))
    for number, finding in enumerate(findings, 1):
        yield label("thread_name", _OWN, number, f"{number}. {finding.rule}")
        pieces = shown[marks.work[shown] == number - 1]
        segments = inside[marks.segment[inside] == number - 1]
        starts = np.concatenate([work.start[pieces], ledger.start_ns[segments]])
        ends = np.concatenate([work.end[pieces], ledger.end_ns[segments]])
        for start, end in _join(starts, ends, (high - low) // 2000):
            yield span(
                finding.title,
                "advisor",
                (_OWN, number),
                (start, end),
                {"rule": finding.rule, "severity": finding.severity},
            )
    categories = {KERNEL: "kernel", COPY: "gpu_memcpy"}
    for at in shown.tolist():
        category = categories.get(int(work.kind[at]), "gpu_memset")
        where = int(work.device[at]), int(work.stream[at])
        args: dict[str, Any] = {"device": where[0], "stream": where[1], **rule_of(int(marks.work[at]))}
        if work.correlation[at] > 0:
            args["correlation"] = int(work.correlation[at])
        when = int(work.start[at]), int(work.end[at])
        yield span(recording.names[work.name[at]], category, where, when, args)
    if not host.size:
        return
    pid = _OWN - 1
    yield label("process_name", pid, 0, "host")
    linked = {
        int(node): int(work.correlation[at])
        for at, node in zip(shown.tolist(), work.launch[shown].tolist(), strict=True)
    }
    for at in np.flatnonzero(within(host.start, host.end, low, high)).tolist():
        args = dict(rule_of(int(marks.node[at])))
        if linked.get(at, 0) > 0:
            args["correlation"] = linked[at]
        name, group = recording.names[host.name[at]], _GROUPS[int(host.group[at])]
        yield span(name, group, (pid, int(host.thread[at])), (int(host.start[at]), int(host.end[at])), args)


def _join(start: Ints, end: Ints, near: int) -> Iterator[tuple[int, int]]:
    """Spans in order, those that lie within *near* of each other as one."""
    order = np.argsort(start, kind="stable")
    low = high = None
    for at in order.tolist():
        if high is not None and low is not None and start[at] <= high + near:
            high = max(high, int(end[at]))
            continue
        if low is not None and high is not None:
            yield low, high
        low, high = int(start[at]), int(end[at])
    if low is not None and high is not None:
        yield low, high

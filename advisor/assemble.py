"""The whole: a trace and a rulebook in, an :class:`Analysis` out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor import __version__, rulebook
from advisor.analysis import (
    SCHEMA_VERSION,
    Advisor,
    Analysis,
    DeviceInfo,
    Features,
    QualityNote,
    StepTimes,
    Summary,
    TraceInfo,
)
from advisor.engine import run

if TYPE_CHECKING:
    from advisor.rulebook import Rulebook
    from advisor.trace import Trace


def analyze(
    trace: Trace, rules: Rulebook | None = None, *, only: Sequence[str] = (), skip: Sequence[str] = ()
) -> Analysis:
    """Run every rule over a trace. Without *rules*, the built-in catalogue. *only* and *skip* are globs on rule ids.

    Raises RuleError if the catalogue is malformed; a rule that fails on this trace is a verdict, not an exception.
    """
    book = rules if rules is not None else rulebook.load([rulebook.builtin_rules_dir()])
    outcome = run(trace, book, only=only, skip=skip)
    notes = [QualityNote(code=note.code, message=note.message, advice=note.advice) for note in trace.quality]
    return Analysis(
        schema_version=SCHEMA_VERSION,
        advisor=Advisor(version=__version__, rules=len(book.rules)),
        trace=_trace_info(trace),
        quality=_distinct([*notes, *outcome.quality]),
        summary=_summary(trace),
        findings=outcome.findings,
        plan=[],
        verdicts=outcome.verdicts,
    )


def _distinct(notes: Sequence[QualityNote]) -> list[QualityNote]:
    """One note a fact: what reading said comes before what a rule says of the same; a cut-off stream is a cut-off file."""
    seen: dict[str, QualityNote] = {}
    for note in notes:
        if note.code == "truncated" and "gzip-truncated" in seen:
            continue
        seen.setdefault(note.code, note)
    return list(seen.values())


def _trace_info(trace: Trace) -> TraceInfo:
    devices = trace.frame("devices")
    features = trace.features
    return TraceInfo(
        path=trace.path.encode("utf-8", "replace").decode("utf-8"),
        events=trace.events,
        span_ms=trace.span_ns / 1e6,
        devices=[_device(row) for row in devices.to_dict("records")],
        features=Features(**{name: name in features for name in Features.__struct_fields__}),
        rank=trace.metadata.rank,
        world_size=trace.metadata.world_size,
        torch=trace.metadata.torch,
    )


def _device(row: dict[Any, Any]) -> DeviceInfo:
    capability = _number(row["capability"])
    return DeviceInfo(
        id=int(row["device"]),
        name=_text(row["name"]),
        vendor=str(row["vendor"]),
        capability=None if capability is None else f"{capability:.1f}",
        memory_bytes=_whole(row["memory_bytes"]),
    )


def _summary(trace: Trace) -> Summary:
    facts = trace.frame("trace").to_dict("records")[0]
    devices = trace.frame("devices").to_dict("records")
    first = devices[0] if devices else {}
    samples = trace.step_samples_ns / 1e6
    book = trace.ledger
    whole = book.counted_ns
    causes = {name: ns / whole for name, ns in book.by_cause().items() if ns} if whole else {}
    return Summary(
        steps=trace.steps_recorded,
        window_ms=trace.window_ns / 1e6,
        step_ms=StepTimes(
            median=float(np.median(samples)),
            p10=float(np.percentile(samples, 10)),
            p90=float(np.percentile(samples, 90)),
            samples=[float(sample) for sample in samples],
        )
        if len(samples)
        else None,
        device=trace.device if trace.device >= 0 else None,
        gpu_busy_share=_number(facts["busy_share"]),
        gpu_utilization={
            str(row["device"]): share for row in devices if (share := _number(row["utilization"])) is not None
        },
        sm_efficiency=_number(first.get("sm_efficiency")),
        achieved_occupancy=_number(first.get("achieved_occupancy")),
        tensor_core_share=_number(facts["tensor_core_share"]),
        peak_memory_bytes=_whole(first.get("peak_allocated_bytes")),
        memory_bytes=_whole(first.get("memory_bytes")),
        causes=causes,
    )


def _missing(value: Any) -> bool:
    # pandas' NA is not comparable, NaN is not itself.
    return value is None or str(value) in ("<NA>", "nan", "NaT")


def _number(value: Any) -> float | None:
    return None if _missing(value) else float(value)


def _whole(value: Any) -> int | None:
    return None if _missing(value) else int(value)


def _text(value: Any) -> str | None:
    return None if _missing(value) else str(value)

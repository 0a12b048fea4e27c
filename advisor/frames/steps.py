"""`steps`: one row per step, with the ns of each cause on the busiest device."""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.columns import Columns, Series
from advisor.frames.frame import Frame
from advisor.frames.schema import Schema, flag, integer, text
from advisor.intervals import summed
from advisor.timeline.context import Context
from advisor.timeline.ledger import OF_STEPS
from advisor.timeline.steps import Step

SCHEMA = Schema(
    "steps",
    "a step; without steps, the one window",
    (
        integer("step", "", "index, as in the other frames"),
        text("name", "ProfilerStep#N; NULL for the window", "name"),
        integer("number", "", "N; -1"),
        integer("host_start_ns", "ns", "start of the annotation on the host", "ts"),
        integer("host_dur_ns", "ns", "its duration there; misleading where the host runs ahead", "dur"),
        integer("start_ns", "ns", "start by the clock that divides the window (see Words in docs/frames.md)"),
        integer("dur_ns", "ns", "duration by that clock"),
        flag("sampled", "whether the median step time speaks of it: steps after the first, all where fewer than three"),
        *(integer(f"{cause}_ns", "ns", f"what {cause} owns of it") for cause in OF_STEPS),
        integer("steady_ns", "ns", "what of it is steady work: all but start-up"),
        integer("loader_waits", "", "waits for a batch that begin in it, by the host's clock"),
        flag("outlier", "longer than median + 3 * 1.4826 * MAD and than 1.5 medians"),
        integer("excess_ns", "ns", "what it exceeds the median by"),
        text("excess_cause", "the cause whose share of it exceeds that cause's median over the sampled steps the most"),
        integer("excess_cause_ns", "ns", "by how much"),
    ),
)  # fmt: skip


def build(context: Context) -> Columns:
    """The frame."""
    recording, ledger = context.recording, context.ledger
    bounds = recording.bounds
    count, dur = len(bounds) - 1, np.diff(bounds)
    steps = recording.steps[:count] or [Step("", -1, int(bounds[0]), int(bounds[-1]))]
    host_start = np.array([step.start for step in steps], np.int64)
    frame: dict[str, Any] = {
        "step": np.arange(count),
        "name": Series.texts([step.name or None for step in steps]),
        "number": np.array([step.number for step in steps], np.int64),
        "host_start_ns": host_start,
        "host_dur_ns": np.array([step.end for step in steps], np.int64) - host_start,
        "start_ns": bounds[:-1],
        "dur_ns": dur,
        "sampled": recording.sampled,
    }
    for cause in OF_STEPS:
        segments = ledger.through(cause) & (ledger.step >= 0)
        frame[f"{cause}_ns"] = summed(ledger.step[segments], ledger.dur_ns[segments], count)
    frame["steady_ns"] = ledger.step_ns(count)
    waits = recording.host_step_of(context.waits.loader.start)
    median = float(np.median(dur[recording.sampled])) if count else 0.0
    spread = 1.4826 * float(np.median(np.abs(dur[recording.sampled] - median))) if count else 0.0
    frame["loader_waits"] = np.bincount(waits[waits >= 0], minlength=count)[:count]
    frame["outlier"] = recording.sampled & (dur > median + 3 * spread) & (dur >= 1.5 * median) & (count >= 5)
    frame["excess_ns"] = np.maximum(dur - int(median), 0)
    frame |= _excess(context, frame)
    return Columns(frame)


def _excess(context: Context, frame: dict[str, Any]) -> dict[str, object]:
    """Columns on what each step has more of than the median step: the difference of their ledgers."""
    sampled = context.recording.sampled
    parts = np.stack([frame[f"{cause}_ns"] for cause in OF_STEPS], axis=1)
    over = parts - np.median(parts[sampled], axis=0).astype(np.int64) if sampled.any() else np.zeros_like(parts)
    most = over.argmax(axis=1)
    by = np.maximum(over[np.arange(len(over)), most], 0)
    return {
        "excess_cause": context.labels(np.where(by > 0, most, -1), OF_STEPS),
        "excess_cause_ns": by,
    }


FRAME = Frame(SCHEMA, build, evidence=("name", "round(dur_ns / 1e6, 3) AS step_ms"), timeless=True, excess="excess_ns")

"""The JSON Schema of ``-f json``, generated from the structs so that it cannot drift from them.

Renew it with ``python -m advisor.report.schema > docs/analysis.schema.json``; a test compares the two.
"""

from __future__ import annotations

from typing import Any

import msgspec

from advisor.results.analysis import Analysis
from advisor.results.several import Several

# What a name and a type do not say. Keys are `Struct.field`.
MEANINGS = {
    "Analysis.findings": "Ordered by saving times confidence: what is first is what to do first.",
    "Analysis.quality": "What the profile lacks or what was repaired, and what to do next time.",
    "Analysis.plan": "The fixes in order, each with the step time predicted after it.",
    "TraceInfo.path": "The path as it was given; its last part with --redact.",
    "TraceInfo.span_ms": "From the first event's start to the last event's end.",
    "TraceInfo.features": "What was recorded.",
    "Summary.steps": "Steps counted; 0 where the trace has none.",
    "Summary.window_ms": "First step's start (else the first GPU event) to the later of the last step's end and the "
    "last GPU event.",
    "Summary.step_ms": "Over the steps after the first, over all where there are fewer than three; null without steps.",
    "Summary.device": "The device that the summary speaks of, the busiest; null where no GPU work was recorded.",
    "Summary.gpu_busy_share": "Kernels, copies and memsets, of the window.",
    "Summary.gpu_utilization": "By device: kernels, of the window of the PyTorch TensorBoard plugin.",
    "Summary.sm_efficiency": "Estimated, by the definition of the PyTorch TensorBoard plugin.",
    "Summary.achieved_occupancy": "Estimated, a share from 0 to 1.",
    "Summary.tensor_core_share": "Of kernel time.",
    "Summary.peak_memory_bytes": "Peak of the memory allocated on the device.",
    "Summary.memory_bytes": "What the device has.",
    "Summary.causes": "The one owner of each ns of the window, as shares that add up to 1: compute, communication, "
    "copy, memset; while the device idles loader, sync, blocking_copy, allocator, compile, gc, host, profiler, "
    "unknown.",
    "Finding.cost_ms": "The time that the matched rows own, per step (per window without steps).",
    "Finding.cost_share": "The same as a share of the counted time.",
    "Finding.occurrences": "Rows that matched.",
    "Finding.saving": "null for a risk that costs no time by itself.",
    "Saving.basis": "How the two figures were got.",
    "Place.file": "The innermost frame that is the user's own.",
    "Place.line": "Where its function is defined, or was when the recording began; in traces of 2021 the line that ran.",
    "Place.library": "The innermost frame that is a library's: file:line function.",
    "Place.share": "Of the finding's cost.",
    "Finding.settings": "What the program was run with, where `advisor record` wrote it into the trace.",
    "Setting.of": "What it is a setting of: DataLoader, the class of an optimizer, torch.compile; null for the program.",
    "Setting.value": "As Python writes it.",
    "Setting.advice": "The value to set instead; null where none follows from the trace.",
    "Setting.because": "What the advice follows from, or what the value means.",
    "Setting.file": "Of the call that set it.",
    "NotRun.needs": "What the trace lacks.",
    "NotRun.how": "How to record it.",
    "PlanStep.step_ms_after": "Keys low and high.",
    "Several.traces": "In the order they were given; what could not be read is left out.",
    "Several.across": "What only many ranks together show; null where the traces are not of several ranks.",
    "RankRow.rank": "As the trace says, else as the name of the file says.",
    "RankRow.step_ms": "Its median step; null without steps.",
    "RankRow.gpu_busy_share": "Kernels, copies and memsets, of its window.",
    "RankRow.compute_share": "Of its steps: kernels that compute.",
    "RankRow.communication_share": "Of its steps: communication that nothing hides.",
    "RankRow.wait_ms": "Per step (per window without steps): exposed communication before the last rank has come to the "
    "collective; null where arrivals cannot be compared.",
    "RankRow.wait_share": "The same as a share of its steps.",
    "RankRow.late_share": "Of the collectives whose order of arrival the clocks decide: those to which it came last.",
    "RankRow.caused_ms": "Per step: what the ranks wait for it, on average over them all.",
    "RankRow.clock_offset_ms": "How far its clock is ahead of the one that the others are compared with.",
    "RankRow.clock_residual_ms": "How far its ends of collectives scatter around that, as a robust standard deviation.",
    "RankRow.trace": "Place of its analysis in `traces`, from 0.",
    "RankRow.loader_share": "Of its steps: idle, waiting for a DataLoader; null where none was seen.",
    "RankRow.peak_memory_bytes": "Most that was allocated at once; null without memory events.",
    "Spread.figure": "step_ms, compute_ms, communication_ms (exposed), wait_ms (of it, for late ranks), loader_ms, host_ms "
    "(idle), peak_memory_bytes; times are per step.",
    "Spread.ranks": "Ranks whose traces tell it.",
    "Traffic.group": "Name and ranks of the process group; stream-N where the traces do not name it.",
    "Traffic.bytes": "Size of the message sent in; null where unknown.",
    "Traffic.ranks": "Ranks that run such collectives; the figures are means over them.",
    "Traffic.count": "Per step.",
    "Traffic.exposed_ms": "Per step: what no computation hides.",
    "Traffic.wait_ms": "Of that, before the last rank has come; null where arrivals cannot be compared.",
    "Lag.collective": "Number of the collective, as in the frame `arrivals`.",
    "Lag.step": "Number of the ProfilerStep; null outside the steps.",
    "Lag.start_ms": "When the last rank came, since the first event of all traces.",
    "Lag.late_by_ms": "How long after the median of the other ranks it came.",
    "Lag.late_cause": "What it did longer than the others since the collective before, as in `summary.causes`.",
    "Lag.wait_ms": "Exposed wait of a rank in this one collective, on average over the ranks that took part.",
    "Wait.wait_ms": "Per step.",
    "Difference.ranks": "Those that differ alike.",
    "Difference.what": "kernel: how often it runs; shapes: an operator's.",
    "Difference.ms": "GPU time per step there, above (or below) that of the usual rank.",
    "Across.spreads": "How the figures of the ranks spread.",
    "Across.traffic": "By group, kind and size, the longest exposed first; at most 20.",
    "Across.lags": "The collectives that were waited in longest; at most 10.",
    "Across.waits": "Who waits for whom, the longest first; at most 256 pairs.",
    "Across.differences": "Work in which some ranks differ from most, the heaviest first; at most 10.",
    "Clocks.collectives": "Collectives that several of the traces hold.",
    "Clocks.residual_ms": "The largest of the ranks'.",
    "Clocks.comparable": "Whether arrivals of different ranks can be compared.",
    "Clocks.because": "Why they cannot; null where they can.",
    "Across.world_size": "Ranks of the run; null where no trace says it.",
    "Across.step_ms": "Median of the ranks' median steps; null without steps.",
    "Across.findings": "Ordered as those of a trace; costs are means over the ranks.",
    "Across.quality": "What is missing or cannot be compared.",
}


def analysis_schema() -> dict[str, Any]:
    """The schema of what ``-f json`` prints: one analysis, or several under ``traces``."""
    references, components = msgspec.json.schema_components([Analysis, Several], ref_template="#/$defs/{name}")
    definitions = dict(sorted(components.items()))
    for key, meaning in MEANINGS.items():
        struct, field = key.split(".")
        definitions[struct]["properties"][field]["description"] = meaning
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Analysis of a torch.profiler trace",
        "description": "Times are milliseconds unless the name says otherwise, shares are 0 to 1, and null means that "
        "the trace does not hold it.",
        "anyOf": list(references),
        "$defs": definitions,
    }


def schema_text() -> str:
    """The schema as it lies in ``docs/``."""
    return msgspec.json.format(msgspec.json.encode(analysis_schema()), indent=2).decode() + "\n"


if __name__ == "__main__":
    import sys

    sys.stdout.write(schema_text())

"""Figures of an analysis that every report for people holds, in the same words: headline, prices, places, what was not run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from advisor.counting import counted, duration, part_of
from advisor.regex import regex
from advisor.report.blocks import Span, Text, joined
from advisor.report.causes import breakdown, meaning, on_cpu
from advisor.report.plain import clean, columns, in_one_unit, milliseconds, percent, percents, size
from advisor.results.analysis import (
    UNSTEADY,
    Analysis,
    Finding,
    Place,
    PlanStep,
    QualityNote,
    Saving,
    Setting,
    StartupPart,
    Summary,
    Verdicts,
)
from advisor.results.ranks import Across

# Below so many steps a spread says less than the steps themselves.
FEW = 5
# From so much on, as a share, two figures that a reader compares get a word on why they differ.
APART = 0.10
# A cause's own median is said where it differs from its part of the mean step by so much, and so much of the step.
_UNLIKE = 0.05
LEAST_MFU = 0.0005
"""Share that rounds to 0.0 %: matrix products are not what such a program is about."""
_TOLD_APART = 1.02
"""Times the MFU from which on the HFU is another figure."""
_MOSTLY = 0.5
# Of a recording: start-up of so much is said on one screen too.
_MUCH = 0.2
"""Share of the kernels' time whose work is known, from which on figures of it stand for the step."""
_NO_SHORTER = 0.98
"""Share of the step from which on one with faster kernels is no shorter."""
_HARDLY_WAITS, _AMONG_MOST, _MOST_LATE = 0.02, 0.5, 3
UNEVEN = 1.05
"""Times the mean of all stages that the slowest takes, from which on it is named."""
_FEW_CORES = "distributed/few-cores"
"""Share of the step, of the wait for the latest rank, and ranks: from which on, and up to which, late ranks are named."""
_NEARLY_ALL = 0.95
"""Share of the kernels' time from which on a figure speaks of the kernels."""
_DOUBTS = (
    (
        "Incomplete",
        "figures speak of what is left",
        {"truncated", "gzip-truncated", "gzip-damaged", "sqlite-damaged", "skipped", "metadata"},
    ),
    ("Doubtful", "record again on idle cores", {"busy-machine"}),
    ("Doubtful", "shares of the step say little", {"other-process"}),
)
"""Doubts that a reader in a hurry must see too: a word, what it means, and the codes of the quality notes that say it."""
TOLD = frozenset().union(*(codes for _, _, codes in _DOUBTS))
"""Codes of these notes."""


class Doubt(NamedTuple):
    """A reason to doubt all figures: a word, what it means, and the notes that say it."""

    name: str
    meaning: str
    notes: list[QualityNote]

    @property
    def messages(self) -> str:
        """The notes, one sentence after the other."""
        return ". ".join(note.message for note in self.notes)


def doubts(quality: Sequence[QualityNote]) -> list[Doubt]:
    """Return the reasons to doubt all figures of a recording."""
    found = [Doubt(name, says, [note for note in quality if note.code in codes]) for name, says, codes in _DOUBTS]
    return [doubt for doubt in found if doubt.notes]


class Figure(NamedTuple):
    """A headline figure. ``text`` is None where it was not recorded; ``key`` is where the JSON has it, "" for words."""

    name: str
    text: str | None
    hint: str
    key: str = ""


class Part(NamedTuple):
    """One cause of a step's time. The parts' ``percent`` add up as their shares do."""

    cause: str
    share: float
    ms: float
    percent: float
    meaning: str


class NotRunGroup(NamedTuple):
    """Rules that would need the same recording: ``how`` says how to make it."""

    how: str
    needs: list[str]
    rules: list[str]


def devices(analysis: Analysis) -> list[str]:
    """Return the GPUs as a reader would list them: ``8 × NVIDIA H100 (80 GiB)``."""
    names = [
        (clean(device.name) if device.name else f"unnamed {device.vendor} GPU")
        + (f" ({size(device.memory_bytes)})" if device.memory_bytes else "")
        for device in analysis.trace.devices
    ]
    lines = [
        f"{count} × {name}" if count > 1 else name
        for name, group in groupby(sorted(names))
        for count in (len(list(group)),)
    ]
    if lines or analysis.trace.features.gpu:
        return lines or ["a GPU of no name"]
    idle = analysis.trace.unrecorded_device
    return [f"{clean(idle)}, no work of it recorded" if idle else "no GPU in the trace"]


def circumstances(analysis: Analysis) -> list[str]:
    """Return devices, steps, torch and rank: what is said beside the trace's name."""
    trace, steps = analysis.trace, analysis.summary.steps
    parts = devices(analysis)
    if len(trace.devices) > 1 and analysis.summary.device is not None:
        parts.append(f"figures of GPU {analysis.summary.device}")
    parts.append(f"{steps} step{'s' if steps != 1 else ''}" if steps else "no steps")
    if trace.torch:
        parts.append(f"torch {clean(trace.torch)}")
    if trace.rank is not None and trace.world_size and trace.world_size > 1:
        parts.append(f"rank {trace.rank} of {trace.world_size}")
    return parts


def span(summary: Summary) -> str:
    """Return ``step 80.0 ms``, or the window where there are no steps."""
    step = summary.step_ms
    return f"step {milliseconds(step.median)}" if step else f"window {milliseconds(summary.window_ms)}"


def whole_ms(summary: Summary) -> float:
    """Return the time that shares are shares of: steady work of the typical step, or of the window without steps."""
    return summary.whole_ms


def uneven(summary: Summary | None) -> bool:
    """Tell whether steps differ so much that figures a step are the mean of all."""
    return bool(summary and summary.step_ms and summary.step_ms.whole != summary.step_ms.median)


def per(summary: Summary | None) -> str:
    """Name the unit that a cost is counted by; None speaks of all ranks."""
    if uneven(summary):
        return "a step on average"
    return "a step" if summary is None or summary.step_ms else "in the window"


def over(summary: Summary | None, word: str) -> str:
    """Return `` in 5 steps``: what counts and sums of rows cover, where that is more than one step."""
    count = 0
    if summary:
        count = summary.steps if summary.counted_steps is None else summary.counted_steps
    return f" {word} {count} steps" if count > 1 else ""


def extent(summary: Summary | None) -> str:
    """Say which steps the table under a finding covers; nothing where that is one step."""
    return over(summary, "(counts and sums over").strip() + ")" if over(summary, "") else ""


def memory(summary: Summary) -> str:
    """Return ``846 MiB of 15.8 GiB (5.2 %)``, or what is known of it without totals."""
    if summary.peak_memory_bytes is None and summary.peak_above_start_bytes is not None:
        return f"{size(summary.peak_above_start_bytes)} above the recording's start (no totals recorded)"
    text = size(summary.peak_memory_bytes)
    if summary.memory_bytes and summary.peak_memory_bytes is not None:
        text += f" of {size(summary.memory_bytes)} ({percent(summary.peak_memory_bytes / summary.memory_bytes)})"
    return text


def _time(summary: Summary) -> list[Figure]:
    """Return the step's time with its spread, or the window's; and the steady time, where that is another."""
    step, steady = summary.step_ms, _steady(summary)
    if step is None:
        window = milliseconds(summary.window_ms)
        hint = "the trace has no steps"
        if summary.extent_ms and summary.extent_ms > (1 + UNSTEADY) * summary.window_ms:
            hint = (
                f"of the GPU's work; that of the host spans {milliseconds(summary.extent_ms)}; the trace has no steps"
            )
        return [
            Figure("step time", None, "", "summary.step_ms"),
            Figure("window", window, hint, "summary.window_ms"),
            *steady,
        ]
    count = len(step.samples)
    which = f"{count} steps" + (" after the first" if count < summary.steps else "")
    ends, unit = in_one_unit(step.p10, step.p90)
    spread = f"p10 {ends[0]} – p90 {ends[1]} {unit} over {which}"
    if count < FEW:
        each, unit = in_one_unit(*step.samples)
        spread = f"of {', '.join(each)} {unit}, {which}"
    hint = f"median; {spread}" if count > 1 else "one step"
    if uneven(summary):
        hint += (
            f"; all {summary.steps} steps differ, on average {milliseconds(step.whole)}: figures a step are that mean's"
        )
    if summary.steps_by and summary.steps_by != "ProfilerStep":
        hint += f"; found by {clean(summary.steps_by)}"
    return [Figure("step time", milliseconds(step.median), hint, "summary.step_ms.median"), *steady]


RECKONED = "by what recording an operator took (the steps before were no shorter: other programs had the cores, or they warmed up)"
"""Basis of a step without the profiler of which no steps tell."""


def _steady(summary: Summary) -> list[Figure]:
    """Return the steady time, where it is not the step or the window; and the step without the profiler, where it was timed."""
    bare, figures = summary.unprofiled_ms, []
    if summary.steady_ms is not None and summary.unsteady:
        prices = "shares, prices and the plan are of it" if bare is None else "shares are of it"
        hint = f"without start-up and the ends of the recording: {prices}"
        figures = [
            Figure("other" if summary.cold else "steady", milliseconds(summary.steady_ms), hint, "summary.steady_ms")
        ]
    if bare is not None:
        count = summary.unprofiled_steps
        by = f"by {count} steps before the recorded ones" if count else RECKONED
        hint = f"without the profiler, {by}; prices and the plan are of it"
        figures.append(Figure("real step", milliseconds(bare), hint, "summary.unprofiled_ms"))
    if summary.recording_ms:
        (low, high), unit = in_one_unit(*summary.recording_ms)
        hint = "what recording may have taken of the step: 2 to 5 µs for each operator and call, where the CPU is the bottleneck"
        figures.append(Figure("profiler", f"{low} – {high} {unit}", hint))
    return figures


def _place(part: StartupPart) -> str:
    """Say where start-up of one kind lies: wholly in one operator or call, or mostly.

    A model's initialization is over before the first kernel: what draws its weights does so on the CPU.
    """
    among = ", ".join(f"{clean(name)} {duration(ms)}" for name, ms in part.operators.items())
    if not part.where:
        return f" ({among})" if among else ""
    where = clean(part.where) + (f" ({among})" if among else "")
    if part.kind == "initialization" and _DRAWS.search(part.where):
        where += " (random weights, on the CPU)"
    return f" in {where}" if part.wholly else f", {milliseconds(part.where_ms)} of it in {where}"


_DRAWS = regex(r"^aten::(?:uniform|normal|random|bernoulli|exponential)_$")
"""Operators that draw weights at random."""


def _left_out(summary: Summary, whole: float) -> list[str]:
    """List what is no steady time, in words: start-up by kind, a first step, the ends of the recording."""
    share = {name: summary.causes.get(name, 0.0) for name in ("startup", "before", "after")}
    shown = {name: milliseconds(part * whole) for name, part in share.items() if part >= UNSTEADY}
    parts = []
    if "startup" in shown:
        kinds = [
            f"{clean(part.kind)} {milliseconds(part.ms)}{_place(part)}"
            for part in summary.startup
            if part.ms >= UNSTEADY * whole
        ]
        parts.append(f"{shown['startup']} of start-up" + (f" ({', '.join(kinds)})" if kinds else ""))
    if (summary.first_step_ms or 0.0) >= UNSTEADY * whole > 0:
        filled = "that are left of the first step" if "startup" in shown else "of a first step unlike the others"
        parts.append(f"{milliseconds(summary.first_step_ms)} {filled}")
    if (summary.startup_work_ms or 0.0) >= UNSTEADY * whole > 0:
        parts.append(f"{milliseconds(summary.startup_work_ms)} of GPU work that start-up launched")
    if "before" in shown:
        parts.append(f"{shown['before']} of work queued before the recording")
    if "after" in shown:
        parts.append(f"{shown['after']} behind the last {'work' if summary.step_ms is None else 'step'}")
    return parts


def start_up(summary: Summary, least: float = _MUCH, *, operators: bool = True) -> str:
    """Say how much of the recording is start-up and of what kinds, with the rest of a first step; nothing under a part *least*.

    *operators*: with those that a kind is spread over.

    The window begins with the device's first work: where start-up lies before it, the host's first event begins what is divided.
    """
    whole = summary.extent_ms or summary.window_ms
    lead = summary.lead_ms or 0.0
    led = lead >= UNSTEADY * whole
    whole += lead * led
    parts = [*summary.startup, *(summary.lead_startup if led else [])]
    rest = summary.first_step_ms or 0.0 if parts else 0.0
    total = sum(part.ms for part in parts) + rest
    # Of time in which nothing was recorded nobody knows what it is.
    silent = (summary.silent_ms or 0.0) if not summary.steps else 0.0
    if total < least * (whole - silent) or not total:
        return ""
    listed = _kinds(parts, UNSTEADY * whole, operators=operators)
    listed += [f"the rest of the first step {duration(rest)}"] if rest >= UNSTEADY * whole else []
    kinds_of = f": {', '.join(listed)}" if listed else ""
    going_on = not summary.steps and summary.steady_causes.get("allocator", 0.0) >= _MUCH
    warm = f"Warm up before recording{', until no memory is allocated any more: empty_cache() undoes it' * going_on}"
    since = f" since the host's first event (the window begins {duration(lead)} later)" if led else ""
    tail, early = summary.tail_ms or 0.0, summary.early_ms or 0.0
    beyond = {_behind(summary): tail, _BEFORE_STEPS: early}
    if more := [
        f"{duration(ms)} more lie {what}" for what, ms in beyond.items() if ms >= _END * (whole + tail + early)
    ]:
        since += f" ({', '.join(more)})"
    return f"Start-up, not counted, is {part_of(total, whole)}{since}{kinds_of}. {warm}"


def context(summary: Summary) -> str:
    """Say in which call the GPU's context is created, where that is most of start-up; else nothing."""
    most = max(summary.startup, key=lambda part: part.ms, default=None)
    if most is None or most.kind != "context" or not most.where:
        return ""
    return f"The GPU's context takes {duration(most.ms)}{_place(most)}"


def _behind(summary: Summary) -> str:
    return f"behind the last {'work' if summary.step_ms is None else 'step'}"


def ends(summary: Summary, *, first: bool, span_ms: float | None = None) -> str:
    """Say what is left out of the steady time beside start-up where it is a tenth of the recording.

    The *first* step with it, and what lies outside the window, of all that was recorded, *span_ms*: else the line of start-up
    says these.
    """
    window = summary.extent_ms or summary.window_ms
    before, after = (summary.causes.get(name, 0.0) * window for name in ("before", "after"))
    span = max(span_ms or 0.0, window)
    outside = (summary.lead_ms or 0.0, summary.early_ms or 0.0, summary.tail_ms or 0.0)
    lead, early, tail = (ms * first * (ms >= _END * span) for ms in outside)
    whole = span if lead + early + tail else window
    parts = {
        "before the device's first work": lead,
        _BEFORE_STEPS: early,
        "of a first step unlike the others": (summary.first_step_ms or 0.0) * first,
        "of work queued before the recording": before,
        _behind(summary): after + tail,
    }
    told = [f"{duration(ms)} {what}" for what, ms in parts.items() if ms >= _END * whole > 0]
    return f"Not counted, of {duration(whole)}: {'; '.join(told)}" if told else ""


_BEFORE_STEPS = "before the first step"
_END = 0.1
"""Of a recording: a first step, or an end of it, of so much is said on one screen too."""


def _kinds(parts: Sequence[StartupPart], least_ms: float, *, operators: bool) -> list[str]:
    """List kinds of start-up of so many ms and more, the longest first, each with its time and the place of most of it."""
    kinds: dict[str, list[StartupPart]] = {}
    for part in parts:
        kinds.setdefault(part.kind, []).append(part)
    listed = []
    for kind, same in sorted(kinds.items(), key=lambda one: -sum(part.ms for part in one[1])):
        ms = sum(part.ms for part in same)
        if ms < least_ms:
            continue
        places: dict[str, float] = {}
        for part in same:
            if part.where:
                places[part.where] = places.get(part.where, 0.0) + (part.ms if part.where_ms is None else part.where_ms)
        where = max(places, key=lambda place: places[place], default=None)
        known = places[where] if where is not None else 0.0
        named = where if 2 * known >= ms else None
        told = StartupPart(
            kind=kind, ms=ms, where=named, where_ms=known, operators=_together(same, ms) if operators else {}
        )
        listed.append(f"{clean(kind)} {duration(ms)}{_place(told)}")
    return listed


def _together(parts: Sequence[StartupPart], ms: float) -> dict[str, float]:
    """Return the operators of start-up of one kind, within the window and before it, that a tenth of *ms* lies in each."""
    total: dict[str, float] = {}
    for part in parts:
        for name, of_part in part.operators.items():
            total[name] = total.get(name, 0.0) + of_part
    large = sorted(((of_all, name) for name, of_all in total.items() if of_all >= _SHOWN_OF_KIND * ms), reverse=True)
    return {name: of_all for of_all, name in large[:3]}


_SHOWN_OF_KIND = 0.1
"""Of start-up of one kind: what lies in an operator that is named."""


def not_steady(summary: Summary) -> str:
    """Say in one line what is left out of the steady time: start-up by kind, and the ends of the recording; else nothing."""
    whole = summary.extent_ms or summary.window_ms
    parts = _left_out(summary, whole)
    sentences = [f"Not counted, of {milliseconds(whole)}: {'; '.join(parts)}."] if parts else []
    if summary.lead_ms is not None and summary.lead_ms >= UNSTEADY * whole:
        begins = f"The window begins with the device's first work, {milliseconds(summary.lead_ms)} behind the host's"
        kinds = [f"{clean(part.kind)} {milliseconds(part.ms)}{_place(part)}" for part in summary.lead_startup]
        sentences.append(f"{begins} (start-up: {', '.join(kinds)})." if kinds else f"{begins}.")
    if summary.tail_ms is not None and summary.tail_ms >= UNSTEADY * whole:
        sentences.append(f"The recording goes on for {milliseconds(summary.tail_ms)} behind the window.")
    if summary.early_ms is not None and summary.early_ms >= UNSTEADY * whole:
        sentences.append(f"The recording begins {milliseconds(summary.early_ms)} before the first step.")
    return " ".join(sentences)


def headline(summary: Summary) -> list[Figure]:
    """Return the figures at the head of a report, each with what it means."""
    rows = _time(summary)
    if on_cpu(summary):
        return [*rows, Figure("on the CPU", breakdown(summary), "of the main thread's time")]
    shares = (
        ("GPU busy", summary.gpu_busy_share, _busy_hint(summary), "summary.gpu_busy_share"),
        (
            "achieved occupancy",
            summary.achieved_occupancy,
            _occupancy_hint(summary),
            "summary.achieved_occupancy",
        ),
        ("Tensor Cores", summary.tensor_core_share, "of kernel time", "summary.tensor_core_share"),
    )
    rows += [Figure(name, None if share is None else percent(share), hint, key) for name, share, hint, key in shares]
    rows += _limits(summary)
    key = "peak_memory_bytes" if summary.peak_above_start_bytes is None else "peak_above_start_bytes"
    peak = None if getattr(summary, key) is None else memory(summary)
    return [*rows, Figure("peak memory", peak, "", f"summary.{key}")]


def modelled(summary: Summary) -> bool:
    """Tell whether the limits of most of the kernels' time are known: else figures of them say little of the step."""
    return (summary.modelled_share or 0.0) >= _MOSTLY and summary.limit_ms is not None


def no_shorter(summary: Summary) -> bool:
    """Tell whether the step stays as long as it is where each kernel is as fast as programs reach."""
    return summary.reachable_ms is not None and summary.reachable_ms > _NO_SHORTER * summary.priced_ms


def drawn_limit(summary: Summary) -> float | None:
    """Return the step at the hardware's limit in ms where a picture shows it: where it is known, and shorter than the step."""
    return summary.limit_ms if modelled(summary) and not no_shorter(summary) else None


def waits(across: Across) -> str:
    """Say how long ranks wait for others, and which they wait for longest or why; '' where the traces do not tell."""
    shares = [row.wait_share for row in across.ranks if row.wait_share is not None]
    if not shares:
        return _stages(across) if across.stages else ""
    ends = dict.fromkeys(f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    span = "–".join(ends)
    text = f"Ranks wait for each other for {span} % of their step"
    if any(finding.rule == _FEW_CORES for finding in across.findings) and across.turns:
        return f"{_turns(across)} {text}{_late(across)}."
    if across.stages:
        return _stages(across)
    return f"{text}{_late(across) if max(shares) >= _HARDLY_WAITS else ''}."


def _late(across: Across) -> str:
    """Name the ranks that others wait for longest, with a colon before; '' where they are many."""
    most = max((row.caused_ms or 0.0 for row in across.ranks), default=0.0)
    late = [(row.rank, row.caused_ms) for row in across.ranks if row.caused_ms and row.caused_ms >= _AMONG_MOST * most]
    if not late or len(late) > _MOST_LATE:
        return ""
    names = f"rank{'s' if len(late) > 1 else ''} {listed([str(rank) for rank, _ in late])}"
    come, them = ("come", "them") if len(late) > 1 else ("comes", "it")
    # What ranks wait for one is a mean over them all, and it does not wait for itself.
    count = max(sum(row.wait_ms is not None for row in across.ranks), len(late) + 1)
    times = listed([milliseconds(ms * count / (count - 1)) for _, ms in late])
    return f": {names} {come} late, and the others wait {times} a step for {them}"


def _stages(across: Across) -> str:
    """Say how long the stages of a pipeline wait for each other, and which of them takes longest."""
    stages = across.stages
    shares = [stage.wait_share for stage in stages]
    ends = dict.fromkeys(f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    slowest = max(stages, key=lambda stage: stage.compute_ms)
    mean = sum(stage.compute_ms for stage in stages) / len(stages)
    text = f"The {len(stages)} stages of the pipeline wait for each other for {'–'.join(ends)} % of their step"
    if slowest.compute_ms < UNEVEN * mean:
        return f"{text}; they compute about equally long."
    longest = f"stage {slowest.stage} computes longest, {milliseconds(slowest.compute_ms)}"
    return f"{text}; {longest}, and {milliseconds(mean)} is the mean."


def _turns(across: Across) -> str:
    """Say how many ranks run at once on the host on which their number varies least."""
    host = max(across.turns, key=lambda one: one.share)
    count = len(host.ranks)
    where = f" on the host of rank {host.ranks[0]}" if len(across.turns) > 1 else ""
    threads = "launching threads are stopped" if host.still > 1 else "launching threads is stopped"
    runs = f"{host.running} run" if host.running > 1 else "1 runs"
    return (
        f"{count} ranks{where} share about {counted(host.running, 'CPU core')}: for {100 * host.share:.0f} % of the time "
        f"{host.still} of their {count} {threads} and {runs}."
    )


def recording(summary: Summary) -> str:
    """Say what of the step recording itself may have taken; '' where nothing is known of that."""
    if not summary.recording_ms:
        return ""
    (low, high, whole), unit = in_one_unit(*summary.recording_ms, whole_ms(summary))
    return f"Of these {whole} {unit} the profiler itself may take {low}–{high} {unit}: 2–5 µs for each recorded call."


def _limits(summary: Summary) -> list[Figure]:
    """Return how far the step is from what the device can do, where most of its kernels' work is known."""
    if not modelled(summary) or summary.limit_ms is None:
        return []
    known = f"; {percent(summary.modelled_share)} of kernel time is modelled"
    rows = []
    if summary.mfu is not None and summary.mfu >= LEAST_MFU:
        hint = f"matrix products, convolutions, attention: their time at peak rates, of the step{known}"
        rows.append(Figure("MFU", percent(summary.mfu), hint, "summary.mfu"))
        if summary.hfu is not None and summary.hfu > _TOLD_APART * summary.mfu:
            hint = "the same with the work that the backward pass does again"
            rows.append(Figure("HFU", percent(summary.hfu), hint, "summary.hfu"))
    if no_shorter(summary):
        hint = "the step is no shorter with each kernel as fast as the device allows: kernels do not bound it"
        return [*rows, Figure("hardware limit", milliseconds(summary.limit_ms), hint, "summary.limit_ms")]
    reached = f"; {milliseconds(summary.reachable_ms)} at rates that programs reach" if summary.reachable_ms else ""
    hint = f"the step with each kernel as fast as the device allows in its number format, the host as recorded{reached}"
    return [*rows, Figure("hardware limit", milliseconds(summary.limit_ms), hint, "summary.limit_ms")]


def _occupancy_hint(summary: Summary) -> str:
    """Say what the occupancy is, and of how much of the kernels' time, where it is not nearly all."""
    known = summary.occupancy_share
    part = f"; known for {percent(known)} of kernel time" if known is not None and known < _NEARLY_ALL else ""
    return f"estimated: warps that were resident, of those that fit{part}"


def _busy_hint(summary: Summary) -> str:
    """Say what counts as busy; and the other utilizations, of other spans and other work, where they differ from it."""
    hint, busy = "kernels, copies and memsets, of the window", summary.gpu_busy_share
    if busy is None:
        return hint
    working = sum(summary.steady_causes.get(cause, 0.0) for cause in ("compute", "communication", "copy", "memset"))
    if summary.steady_causes and abs(working - busy) > UNSTEADY:
        hint += f"; {percent(working)} of steady time"
    used = summary.gpu_utilization
    shown = used.get(str(summary.device), next(iter(used.values()), busy))
    others = [f"utilization {percent(shown)} (kernels only, another window)"] if abs(shown - busy) > APART else []
    if len(used) > 1:
        others = ["utilization " + ", ".join(f"GPU {clean(name)} {percent(share)}" for name, share in used.items())]
    if summary.sm_efficiency is not None and abs(summary.sm_efficiency - busy) > APART:
        others.append(f"SM efficiency {percent(summary.sm_efficiency)} (multiprocessors that had work)")
    return hint + (f". TensorBoard shows {' and '.join(others)}" if others else "")


def causes_title(summary: Summary) -> str:
    """Return the title of the causes: which time they divide."""
    unit = "a step's" if summary.step_ms else "the window's"
    if summary.unsteady:
        unit = "a step's steady" if summary.step_ms else "the steady"
        unit = "the cold step's other" if summary.cold else unit
    return f"Where {unit} {milliseconds(whole_ms(summary))} go"


def causes(summary: Summary) -> list[Part]:
    """List the causes of the step's time, the most first; causes of no time are left out."""
    owners = sorted(((share, name) for name, share in summary.shown_causes.items() if share > 0), reverse=True)
    shown = percents([share for share, _ in owners])
    total_ms = whole_ms(summary)
    return [
        Part(name, share, share * total_ms, part, meaning(name, summary) + _usually(name, share * total_ms, summary))
        for (share, name), part in zip(owners, shown, strict=True)
    ]


def _usually(cause: str, ms: float, summary: Summary) -> str:
    """Say what the other step holds of a cause where that is another amount: the median of parts of the mean, and the reverse."""
    other, which = summary.median_ms.get(cause, 0.0), "median"
    if summary.shown_causes != summary.steady_causes:
        other, which = summary.steady_causes.get(cause, 0.0) * (summary.steady_mean_ms or 0.0), "mean"
    apart = abs(other - ms)
    if not summary.median_ms or apart < _UNLIKE * ms or apart < UNSTEADY * whole_ms(summary):
        return ""
    return f"; {milliseconds(other)} in the {which} step"


def tenths(parts: Sequence[Part]) -> str:
    """Sum some parts, in percent as each is shown."""
    return f"{sum(part.percent for part in parts):.1f}"


def whose_time(summary: Summary) -> str:
    """Name the thread or device whose time the causes divide."""
    if on_cpu(summary):
        return "the main thread, on the CPU"
    return "the host; no GPU work" if summary.device is None else f"GPU {summary.device}"


def price(finding: Finding, summary: Summary | None, others: Sequence[Finding] = ()) -> str:
    """Return the saving in words: ``saves 21.0 to 28.1 ms of 121 ms a step (17.4 to 23.2 %)``.

    *others* are the findings beside it: what one of them counts is said to be counted there.
    """
    saving = finding.saving
    if saving is None and not finding.cost_ms and finding.rule.startswith("data-loading/"):
        for other in others:
            if other.rule.startswith("data-loading/") and other.cost_ms:
                return f"counted under {clean(other.rule)}"
    if finding.after is not None:
        return nothing_left(finding, others)
    if saving is None and finding.once_ms:
        return f"none of a step's: {milliseconds(finding.once_ms)} once in the steps counted, and it ends by itself"
    if saving is None:
        return "not known" if finding.cost_ms else "none of its own: a risk, or memory"
    basis = f" of {milliseconds(summary.priced_ms)}" if summary else ""
    ms, share = _range(saving)
    same = listed([clean(other.rule) for other in others if other.done_by == finding.rule])
    together = f", together with {same}" if same else ""
    return f"saves {ms}{basis} {per(summary)} ({share}){together}{by_itself(saving)}"


def by_itself(saving: Saving) -> str:
    """Return ``; alone 3.2 to 11.7 ms``: what a fix saves without those before it, where that is another figure."""
    if saving.alone_ms is None:
        return ""
    (low, high), unit = in_one_unit(saving.alone_ms.get("low", 0.0), saving.alone_ms.get("high", 0.0))
    if high == "0":
        return "; alone nothing"
    return f"; alone {high} {unit}" if low == high else f"; alone {low} to {high} {unit}"


def gain(finding: Finding, others: Sequence[Finding]) -> str:
    """Return the saving in short: ``21.0 to 28.1 ms (17.4 to 23.2 %)``, or what is known instead of one."""
    if finding.after is not None:
        return nothing_left(finding, others)
    return "{} ({})".format(*_range(finding.saving)) if finding.saving else unpriced(finding, others)


def unpriced(finding: Finding, others: Sequence[Finding]) -> str:
    """Return what is known of a finding without a saving; *others* are all findings, in their order."""
    if finding.cost_ms:
        return f"takes {milliseconds(finding.cost_ms)}"
    if finding.once_ms:
        return f"{milliseconds(finding.once_ms)} once, ends by itself"
    for index, other in enumerate(others, 1):
        if finding.category == other.category == "data-loading" and other.cost_ms:
            return f"part of {index}"
    return "costs no time of its own"


def gained_share(finding: Finding, others: Sequence[Finding]) -> str:
    """Return the same as a share of the step alone."""
    return _range(finding.saving)[1] if finding.saving else gain(finding, others)


def _range(saving: Saving) -> tuple[str, str]:
    """Return a saving in ms and as a share, from the cautious to the hopeful figure."""
    (low, high), unit = in_one_unit(saving.low_ms, saving.high_ms)
    ms = f"{high} {unit}" if low == high else f"{low} to {high} {unit}"
    least, most = percent(saving.low_share), percent(saving.high_share)
    if saving.low_ms == 0:
        return ms, f"0 to {most}"
    return ms, most if least == most else f"{least.removesuffix(' %')} to {most}"


def nothing_left(finding: Finding, findings: Sequence[Finding]) -> str:
    """Return ``after 1 and 3: under 1 % of the step``: the numbers of the findings beside which this one saves that little.

    ``done by fix 1`` is that of one whose change it is too.
    """
    place = {other.rule: index for index, other in enumerate(findings, 1)}
    if finding.done_by is not None:
        return f"done by fix {place.get(finding.done_by) or f'of {clean(finding.done_by)}'}"
    numbers = [str(place[rule]) for rule in finding.after or () if rule in place]
    if not finding.after:
        return "nothing to gain: not the bottleneck"
    if not numbers:
        return f"after {', '.join(map(clean, finding.after))}: under 1 % of the step"
    if len(numbers) > 2 and numbers == [str(n) for n in range(int(numbers[0]), int(numbers[-1]) + 1)]:
        return f"after {numbers[0]} to {numbers[-1]}: under 1 % of the step"
    return f"after {listed(numbers)}: under 1 % of the step"


def listed(names: Sequence[str]) -> str:
    """Return ``1, 2 and 4``."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def times(step: PlanStep) -> str:
    """Return how many times as fast the step is: ``1.05 to 1.49×``, cautiously and hopefully."""
    if step.speedup_low is None:
        return f"up to {step.speedup:.2f}×"
    return f"{' to '.join(dict.fromkeys((f'{step.speedup_low:.2f}', f'{step.speedup:.2f}')))}×"


def cost(finding: Finding, summary: Summary | None) -> str:
    """Put the cost in words: ``27.9 ms a step (34.8 %), 6 occurrences in 3 steps``."""
    times = f"{finding.occurrences:,} occurrence{'s' if finding.occurrences != 1 else ''}{over(summary, 'in')}"
    if not finding.cost_ms:
        return times
    host = (
        f", and {milliseconds(finding.host_ms)} of CPU time that the GPU's work hides" if _host_matters(finding) else ""
    )
    late = f", and {milliseconds(finding.late_ms)} of waiting for other ranks" if finding.late_ms else ""
    ms, of_mean = mean_cost(finding, summary)
    what = f"{milliseconds(ms)} {per(summary)}{' in the mean' if of_mean else ''} ({percent(finding.cost_share)})"
    return f"{what}{host}{late}, {times}"


def mean_cost(finding: Finding, summary: Summary | None) -> tuple[float, bool]:
    """Return what a finding costs in ms, and whether that is of the mean step, where the step that is shown is another."""
    if summary is None or not summary.mean_apart:
        return finding.cost_ms, False
    return finding.cost_share * (summary.steady_mean_ms or 0.0), True


def _host_matters(finding: Finding) -> bool:
    """Tell whether the saving is more than the rows own, so that a reader would miss what it comes from."""
    more = finding.saving is not None and finding.saving.high_ms > finding.cost_ms * (1 + 1e-9)
    return more and finding.host_ms > 0


def user_frame(place: Place) -> str:
    """Return ``train.py:54 in train``; nothing where no frame of the user's own is known."""
    if place.file is None:
        return ""
    line = f":{place.line}" if place.line is not None and place.line >= 0 else ""
    return f"{place.file}{line}" + (f" in {place.function}" if place.function else "")


def first_place(place: Place) -> str:
    """Return the place to look at in a line: the user's frame, else the library's, the module or the operator; may be empty.

    Where a library's code does the work that the user's frame called, that comes first, and tells findings of one call apart:
    ``transformers/models/t5/modeling_t5.py:253 forward, from model.py:40 in run``. Of several lines of a library's the one with
    the most stands with its share.
    """
    user = user_frame(place)
    library = place.library
    if not library and (part := next((one for one in place.through if telling(one.library)), None)) is not None:
        library = f"{part.library} ({100 * part.share:.0f} %) and others"
    if not user or not library or not telling(library):
        return user or place.library or place.module or operator(place)
    told = f"{library}, from {user}"
    short = user_frame(msgspec.structs.replace(place, file=(place.file or "").rsplit("/", 1)[-1]))
    return told if columns(told) <= _LINE else f"{library}, from {short}"


def leads_to_several(place: Place) -> bool:
    """Tell whether a place in a line is the user's frame with one of several lines of a library's (:func:`first_place`)."""
    return bool(user_frame(place)) and not place.library and any(telling(one.library) for one in place.through)


def short_place(place: Place, first: Place) -> str:
    """Return a place behind the *first*: without the folders of its file, and of the same file the line alone."""
    name = "" if place.file == first.file else (place.file or "").rsplit("/", 1)[-1]
    return user_frame(msgspec.structs.replace(place, file=name)) or first_place(place)


_LINE = 78
"""Columns in which a place keeps the whole path of the user's file beside a library's."""
_GENERATED = ("torchinductor", "<")


def telling(library: str) -> bool:
    """Tell whether a frame is a library's of models or data: torch's own, Python's and generated code stand on every stack."""
    top = library.partition(":")[0].partition("/")[0].removesuffix(".py")
    return top != "torch" and top not in sys.stdlib_module_names and not library.startswith(_GENERATED)


def gpus(finding: Finding) -> str:
    """Return ``GPU 1`` or ``GPUs 1 and 0`` where a process drives several; else nothing."""
    numbers = [str(device) for device in finding.devices]
    return f"GPU{'s' if len(numbers) > 1 else ''} {' and '.join(numbers)}" if numbers else ""


def operator(place: Place) -> str:
    """Return ``aten::_local_scalar_dense in aten::is_nonzero under ## forward ##``: the operator with what is around it."""
    return f"{place.op} in {place.around}" if place.op and place.around else place.op or ""


def operator_name(place: Place, *, with_around: bool) -> str:
    """Return the operator of a place, without what autograd's engine puts before a node's name; also what is around all of it."""
    name = (place.op or "").removeprefix("autograd::engine::evaluate_function: ")
    return f"{name} in {place.around}" if with_around and place.around and "%" not in place.around else name


def describe(place: Place) -> Text:
    """Return ``train.py:54 in train → torch/optim/sgd.py:80 step (module ResNet_0, op aten::add_) 84.0 %``."""
    frames = joined([Span(frame, "path") for frame in (user_frame(place), place.library) if frame], " → ")
    names = [
        (f"{kind} ", Span(name, "name")) for kind, name in (("module", place.module), ("op", operator(place))) if name
    ]
    inside = joined(names, ", ")
    if frames and inside:
        inside = (" (", *inside, ")")
    return (*(frames + inside or ("no place recorded",)), f"  {percent(place.share)}")


def advice(setting: Setting) -> str:
    """Return `` → 8``, and what it follows from or means, as far as either is known; it stands behind how the program was run."""
    return (f" → {setting.advice}" if setting.advice else "") + (f": {setting.because}" if setting.because else "")


BOUND_BY = {
    "work": "next bottleneck: GPU compute",
    "copies": "next bottleneck: copies between host and device",
    "waits": "next bottleneck: synchronizations and blocking copies",
    "loader": "next bottleneck: the DataLoader",
    "launches": "next bottleneck: the CPU (Python and kernel launches)",
    "operators": "next bottleneck: operators on the CPU",
    "collectives": "next bottleneck: collectives",
    "python": "next bottleneck: what lies between operators (Python, freeing memory)",
    "unpriced": "its gain is in the time per sample, which this trace cannot price",
}
"""The bottleneck of the program after a step of the plan."""


def plan_note(step: PlanStep) -> str:
    """Say which bottleneck a step of the plan leaves, and that it changes results; empty where nothing is known of either."""
    parts = [BOUND_BY.get(step.bound_by, ""), "changes what is computed" if step.changes_training else ""]
    return "; ".join(part for part in parts if part)


def plan_step(before: float, after: dict[str, float]) -> str:
    """Return ``80.0 → 36.2 – 58.1 ms``."""
    (first, *then), unit = in_one_unit(before, *(max(after[key], 0.0) for key in ("low", "high") if key in after))
    return f"{first} → {' – '.join(dict.fromkeys(then))} {unit}"


def tally(findings: Sequence[Finding]) -> str:
    """Return ``4 findings and 1 note``: how many there are, those that are no more than a note apart; ``No findings``."""
    notes = sum(finding.severity == "note" for finding in findings)
    parts = [
        f"{count} {name}{'s' * (count > 1)}"
        for count, name in ((len(findings) - notes, "finding"), (notes, "note"))
        if count
    ]
    return " and ".join(parts) if len(findings) > notes else ", ".join(["No findings", *parts])


def remark(analysis: Analysis) -> QualityNote | None:
    """Return the note that says how to record what no finding can speak of yet; None where a finding leads, or none says it."""
    code = analysis.headline.remark if analysis.headline is not None else None
    if code is None or any(finding.severity != "note" for finding in analysis.findings):
        return None
    return next((note for note in analysis.quality if note.code == code), None)


def quiet(verdicts: Verdicts) -> str:
    """Return ``49 rules ran and found nothing; 11 could not run (see below).``, for a trace without findings."""
    ran, lacking = len(verdicts.passes), len(verdicts.not_run)
    rest = f"; {lacking} could not run (see below)" if lacking else ""
    return f"{ran} rule{'s' * (ran != 1)} ran and found nothing{rest}."


def counts(analysis: Analysis) -> str:
    """Return ``5 fired, 2 noted on the profile, 60 passed, 10 not applicable, 4 not run``: all rules that ran, each once."""
    verdicts = analysis.verdicts
    tallies = [
        (len({finding.rule for finding in analysis.findings}), "fired"),
        (len(verdicts.noted), "noted on the profile"),
        (len(verdicts.passes), "passed"),
        (len(verdicts.not_applicable), "not applicable"),
        (len(verdicts.not_run), "not run"),
        (len(verdicts.error), "failed"),
    ]
    return ", ".join(f"{count} {name}" for count, name in tallies if count or name in ("fired", "passed"))


def not_run(verdicts: Verdicts) -> list[NotRunGroup]:
    """Return the rules that were not run, by what would let them run."""
    groups: dict[str, NotRunGroup] = {}
    for skipped in verdicts.not_run:
        group = groups.setdefault(skipped.how, NotRunGroup(skipped.how, [], []))
        group.rules.append(skipped.rule)
        group.needs.extend(need for need in skipped.needs if need not in group.needs)
    return list(groups.values())

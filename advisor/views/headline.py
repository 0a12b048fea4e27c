"""The headline: what a recording is, what bounds it, what to do first; never silent where time is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from advisor.counting import counted, duration, part_of
from advisor.engine.ranking import middle_of
from advisor.frames.launches import refills
from advisor.frames.rank_waits import rank_waits
from advisor.intervals import covered
from advisor.regex import regex
from advisor.results.analysis import Finding, QualityNote, StartupPart, Summary
from advisor.results.decision import CUT_OFF
from advisor.results.headline import Headline, HeadlineKind
from advisor.timeline.ledger import BUSY
from advisor.timeline.owners import stopped_anywhere
from advisor.timeline.program import program_of as facts_of
from advisor.timeline.startup_table import CONTEXT, FIRST_CALL, FIRST_ITERATION, KINDS
from advisor.timeline.unprofiled import unprofiled
from advisor.views import owners
from advisor.views.elsewhere import most_of
from advisor.views.few_kernels import few_kernels
from advisor.views.phrasing import (
    AGAIN,
    AT_ONCE,
    AT_ONCE_BRIEFLY,
    BRIEFLY,
    FIRST,
    FIRST_CALLS,
    LACKING,
    LACKING_BRIEFLY,
    NO_FAULT,
    ON_CPU,
    ON_GPU,
    PIPELINE,
    SHOWS_NOTHING,
    STARTUP,
    STARTUP_OF_SEVERAL,
    STOPPED,
    STOPPED_BRIEFLY,
    THINNED,
    THINNED_BRIEFLY,
    UNPROVEN,
    UNPROVEN_BRIEFLY,
    UNRECORDED,
    UNSEEN,
    UNSEEN_BRIEFLY,
    WAITING,
    WAITING_BRIEFLY,
    WHOLE_FILE,
    WORKS_OR_WAITS,
    Clause,
    Parts,
    clauses,
    first_clause,
    fitted,
    short_name,
    texts,
)

if TYPE_CHECKING:
    from advisor.engine.claims import Claim
    from advisor.intervals import Ints
    from advisor.timeline.context import Context
    from advisor.trace import Trace

# A cause of more of the steady time than this is named, by a finding or here.
_SILENT = 0.20
# From so much on, what is not steady comes first.
_MOSTLY = 0.5
# Of the host's time: from such parts without any recorded event on it is not said to be Python's, nor the host to work.
_UNSEEN, _SHOWN = 0.5, 0.1
# Of the host's time: from so much in a single stretch on it is no sum of short waits for launches.
_ONCE = 0.5
# What returns less than this part of the time that other ranks take is not what to do first.
_WORTH = 0.5
WITHOUT_GRAPHS = "record without CUDA graphs, to see what they run"
# What returns less of the step is not what to do first, where what bounds it is something else that no finding owns.
_BESIDE = 0.02
ALL_RANKS = "analyze all ranks together, to see which one the others wait for"
_PARTLY = 0.05
# Times the idle time beside a call that it holds the host for, from which on that is said too.
_HELD = 1.33
# Times what no finding covers from which on what a finding owns is named instead.
_HEAVIER = 2
# What the first fix is about is said beside what bounds the program, where it is another cause of so much.
_SHARE_SAID = 0.05
# A capture beside which the device did so much is not all that the recording holds.
_SOME_WORK = 0.10
_NOTHING = 0.01
# However little of the recording is left, so much work is enough to speak of.
_LEAST_WORK_NS = 1_000_000
# Of start-up: from so much on one kind is all of it, and under so much a kind is not named.
_ALL, _PART = 0.9, 0.1
_LEFT = "The file is cut off: figures speak of what is left."
_COUNTED = "Hardware counters were read: times are distorted."
_WARM_UP = "Record after a warm-up."
_ANEW = ("no-warmup", "no-steps", "few-steps")
"""Notes on a recording that say how to record some steps after a warm-up."""
_REMARKS = {
    _WARM_UP: _ANEW,
    "Start-up only": _ANEW,
    "record more": _ANEW,
    "record the CPU": ("missing-host",),
    "record the ": ("missing-gpu",),
    "record without them": ("hardware-counters",),
    WITHOUT_GRAPHS: ("graph-replays-underrecorded",),
    WHOLE_FILE: ("thinned",),
    AGAIN: ("truncated",),
}
"""Notes on the recording that say how, by how the advice begins: the first of them that there is."""
_MODEL = regex(
    r"::_?(?:linear|\w*conv\w*|embedding\w*|\w*attention\w*|\w*(?:layer|batch|rms)_?norm\w*|lstm|gru)$"
    r"|^execute_|^step\[|nn\.Module: "
)


class Program(NamedTuple):
    """A program in a few words. ``details`` follow the first word; where they do not fit, the last two stay longest."""

    kind: HeadlineKind
    details: list[str]
    device: str = "GPU"
    unrecorded: bool = False
    """True where a device was used, and nothing of it recorded."""


def build(
    trace: Trace, summary: Summary, quality: Sequence[QualityNote], findings: Sequence[Finding], owning: Sequence[Claim]
) -> Headline:
    """Build the headline of one trace. *owning* are the claims of the findings on segments of the ledger."""
    context, program = trace.context, program_of(trace)
    damaged = next((note.code for note in quality if note.code in CUT_OFF), None)
    first = findings[0] if findings else None
    rule = first.rule if first else None
    kind, text = _diagnosis(trace, summary)
    if kind is not None and damaged is None:
        return Headline(text=fitted([text]), kind=kind, bound=None, first=rule, remark=_remark(quality, text))
    spoken = _as_it_ran(context, summary)
    bound = None if kind is not None or program.unrecorded else _bound(context, spoken)
    before = "" if damaged else _before_all(trace, summary)
    if kind is not None:
        return Headline(text=fitted([f"{_LEFT} {text}", _LEFT]), kind="cut off", bound=None, first=rule)
    measured = bool(context.recording.recorded.counter_ranges)
    lead = (_LEFT if damaged else before) or _COUNTED * measured
    owning = named(findings, owning)
    claims = [claim.segments for claim in owning]
    if first is not None and _returns_little(first) and not _owned(context, bound, claims):
        first = None
    advice = _advice(context, program, bound, first, before, cut_off=damaged is not None)
    parts = _parts(context, spoken, program, bound, claims, _led_by(first, advice, owning), bool(before))
    parts = parts._replace(lead=lead)
    if measured and program.unrecorded:
        parts = parts._replace(others=[])  # shares of times that nobody may believe
    text = fitted(texts(parts, advice))
    remark = _remark(quality, advice, before)
    return Headline(text=text, kind="cut off" if damaged else program.kind, bound=bound, first=rule, remark=remark)


def _remark(quality: Sequence[QualityNote], *advice: str) -> str | None:
    """Return the note on the recording that says how to do what is advised, of several what comes first; None where none does.

    The sentence on start-up comes last: that first something else is to be recorded, the text says of the rest.
    """
    known = frozenset(note.code for note in quality)
    starts = (
        codes for one in advice for start, codes in _REMARKS.items() if one.startswith(start) or one.endswith(start)
    )
    return next((code for codes in starts for code in codes if code in known), None)


def _led_by(first: Finding | None, advice: str, owning: Sequence[Claim]) -> Ints | None:
    """Return the segments of the finding whose fix is the advice; None where it is another's."""
    if first is None or advice != first.fix.title:
        return None
    return next((claim.segments for claim in owning if claim.rule.id == first.rule), None)


def _advice(
    context: Context, program: Program, bound: str | None, first: Finding | None, before: str, *, cut_off: bool
) -> str:
    """Say what to do first; nothing where nothing is known. *before* is the sentence on what is no steady work."""
    if cut_off and first is None:
        return AGAIN
    if bound == "communication" and _others_are_late(context, first):
        return ALL_RANKS
    if bound == "unknown" and context.graphs_underrecorded:
        return WITHOUT_GRAPHS
    if context.thinned and (bound == "unknown" or context.cpu_program):
        return WHOLE_FILE
    if first is not None:
        return NO_FAULT if _is_no_fault(first) else first.fix.title
    if not program.unrecorded:
        idles = bound is not None and bound not in BUSY
        if context.recording.has_host:
            return _keep_memory(context) if before.endswith(_WARM_UP) else _record_more(context)
        return "record the CPU too, to see what it waits for" if idles else ""
    return "record without them" if context.recording.recorded.counter_ranges else f"record the {program.device} too"


def _record_more(context: Context) -> str:
    """Say what more to record where that shows: of a few kernels, and of iterations that still have memory allocated."""
    if (few := few_kernels(context)) is not None:
        return f"record more than {counted(few.count, 'kernel')}, too few to judge by"
    return _keep_memory(context)


def _keep_memory(context: Context) -> str:
    """Say how to have no memory allocated in what is recorded, where allocations take much of it and no steps tell which are first.

    The allocator keeps what it has: only first iterations ask the driver, and those behind a cache that was emptied.
    """
    works = owners.by_cause(context.ledger, context.ledger.counted)
    if context.recording.steps or works.get("allocator", 0) <= _SILENT * context.ledger.counted_ns:
        return ""
    return "leave out empty_cache()" if context.once(refills) else "warm up longer, and leave out empty_cache()"


def _returns_little(finding: Finding) -> bool:
    """Tell whether what a fix returns is beside the point; of a risk without a price nobody knows."""
    return finding.severity == "note" if finding.saving is None else middle_of(finding.saving) < _BESIDE


def named(findings: Sequence[Finding], owning: Sequence[Claim]) -> list[Claim]:
    """Return the claims but for those of findings that only say where to look: what they own has no cause yet."""
    looks = {finding.rule for finding in findings if _is_no_fault(finding)}
    return [claim for claim in owning if claim.rule.id not in looks]


def _is_no_fault(finding: Finding) -> bool:
    """Tell a finding that only says where to look: a note, of a fix that may return nothing."""
    nothing = finding.saving is not None and finding.saving.low_share <= 0
    return finding.severity == "note" and finding.confidence == "possible" and nothing


def _owned(context: Context, bound: str | None, claims: Sequence[Ints]) -> bool:
    """Tell whether findings own most of the time of what bounds the program."""
    ledger = context.ledger
    every = owners.by_cause(ledger, ledger.counted)
    lost = owners.by_cause(ledger, owners.unclaimed(ledger, claims))
    return bound is not None and lost.get(bound, 0) <= _MOSTLY * every.get(bound, 0)


def _others_are_late(context: Context, first: Finding | None) -> bool:
    """Tell whether waiting for other ranks takes much more than what is found first returns: then nothing here is first."""
    waits = context.once(rank_waits)
    if waits is None or not waits.holds:
        return False
    # Of its own time: what it returns of the waiting only the other ranks' traces can say.
    returned = min(first.saving.high_share, first.cost_share) if first is not None and first.saving is not None else 0.0
    return returned < _WORTH * waits.wait_share


def reordered(headline: Headline | None, before: Sequence[Finding], after: Sequence[Finding]) -> Headline | None:
    """Return the headline for findings whose order or savings have changed since it was built."""
    if headline is None or not after:
        return headline
    opening = headline.text.partition(FIRST)[0]
    if before and before[0].rule == after[0].rule:
        # The ranks together have shown that its fix returns nothing.
        in_vain = before[0].saving is not None and after[0].saving is None
        return msgspec.structs.replace(headline, text=opening) if in_vain else headline
    candidates = [opening + first_clause(title) for title in (*clauses(after[0].fix.title), "")]
    return msgspec.structs.replace(headline, text=fitted(candidates), first=after[0].rule)


# ---- the program


def program_of(trace: Trace) -> Program:
    """Say what sort of program a trace shows, from the facts of the frame `trace`."""
    facts = trace.facts
    kind: HeadlineKind = "unknown"
    if facts["kind"] in ("training", "inference"):
        kind = facts["kind"]
    elif any(_MODEL.search(name) for name in trace.context.names):
        kind = "inference"
    details = [_FRAMEWORKS.get(facts["framework"], facts["framework"])] if facts["framework"] else []
    if facts["world_size"] and facts["world_size"] > 1 and facts["rank"] is not None:
        details.append(f"rank {facts['rank']} of {facts['world_size']}")
    if facts["has_host"]:
        details.append(_mode(facts))
    else:
        details.append("GPU events only")
    if facts["cpu_only"] or facts["model_on_cpu"]:
        listed = trace.metadata.devices
        details.append(f"on the CPU beside an idle {listed[0].name}" if listed and listed[0].name else "on the CPU")
    steps = trace.steps_recorded
    details.append(f"{steps} step{'s' * (steps != 1)}" if steps else "no steps")
    known = facts["vendor"] in ("nvidia", "amd", "intel")
    lost = bool(facts["gpu_used"]) and not facts["has_gpu"] and not facts["cpu_only"]
    other = not known and (lost or trace.metadata.accelerator is not None)
    return Program(kind, details, "device" if other else "GPU", lost)


_FRAMEWORKS = {
    "vllm": "vLLM", "sglang": "SGLang", "tensorrt-llm": "TensorRT-LLM", "tgi": "TGI", "lightning": "Lightning",
    "megatron": "Megatron", "torchrec": "TorchRec", "deepspeed": "DeepSpeed",
}  # fmt: skip


def _nothing(trace: Trace, span_ms: float) -> str:
    """Say that nothing runs in a recording."""
    if trace.metadata.format == "snapshot":
        return "A memory snapshot alone: pass it beside the trace of the same run, with --snapshot."
    ran = f"The profiler ran for {duration(span_ms)} and recorded nothing: no operator, no GPU work."
    return f"{ran} Run the program inside it, and call prof.step() after each iteration."


def _mode(facts: Mapping[str, Any]) -> str:
    """Say how most of the kernels came to be launched: from graphs, by compiled code, or one by one."""
    if facts["graph_kernels"] and 2 * facts["graph_kernels"] >= (facts["kernel_count"] or 0):
        return "CUDA graphs"
    share = facts["compiled_share"] or 0.0
    if share < _PARTLY and facts["compiler"] == "torchscript":
        return "TorchScript"
    if share >= _MOSTLY and facts["compiler"] in ("aot", "dynamo"):
        return "compiled without fusing"
    return "compiled" if share >= _MOSTLY else "partly compiled" if share >= _PARTLY else "eager"


# ---- recordings of which nothing steady can be judged


def _diagnosis(trace: Trace, summary: Summary) -> tuple[HeadlineKind | None, str]:
    """Say why a recording holds nothing of the steady program; None where it does."""
    context, ledger = trace.context, trace.ledger
    tables, span_ms = context.tables, trace.span_ns / 1e6
    if not len(context.recording.work) and "op" not in tables and "python" not in tables and not _annotated(context):
        return "empty", _nothing(trace, span_ms)
    extent, whole = summary.extent_ms or summary.window_ms, sum(ledger.of_extent().values())
    works = owners.by_cause(ledger, ledger.counted)
    worked = sum(ns for cause, ns in works.items() if cause in BUSY)
    captured = sum(part.ms for part in summary.startup if part.kind == "capture")
    replays = len(context.graph_nodes) if context.recording.host.size else 0
    if captured > _MOSTLY * extent and not replays and worked <= _SOME_WORK * whole:
        text = f"A graph capture: for {part_of(captured, extent)} calls are recorded into a graph, not run;"
        return "capture only", f"{text} idle means nothing here. Record steps that replay it."
    startup = sum(part.ms for part in summary.startup)
    # Operators that compute on the CPU are the program's work too.
    computed = worked + works.get("operator", 0)
    nothing = ledger.counted_ns <= _NOTHING * whole and computed < _LEAST_WORK_NS
    nothing |= bool(context.recording.devices) and not worked
    # What repeats behind a first iteration is the steady program, however little it takes.
    nothing &= all(part.kind != KINDS[FIRST_ITERATION] for part in summary.startup)
    if startup > _MOSTLY * extent and nothing:
        reason = _why_startup(summary.startup)
        text = f"Start-up only, {part_of(startup, extent)}: {reason}. Nothing of the steady program was recorded."
        return "start-up only", f"{text} Record a few steps after a warm-up."
    return None, ""


def _annotated(context: Context) -> bool:
    """Tell whether an annotation was recorded that is no step."""
    table = context.tables.get("annotation")
    if table is None:
        return False
    return any(not context.names[code].startswith("ProfilerStep#") for code in set(table["name"].tolist()))


def _before_all(trace: Trace, summary: Summary) -> str:
    """Say what most of the recording is, where that is no steady work; nothing where it is steady, or no time is right."""
    if trace.context.recording.recorded.counter_ranges:
        return ""
    extent = summary.extent_ms or summary.window_ms
    outside = {name: extent * summary.causes.get(name, 0.0) for name in ("startup", "before", "after")}
    if sum(outside.values()) <= _MOSTLY * extent or not extent:
        return ""
    most = max(outside, key=lambda name: outside[name])
    # What is left of a first step that does not count stands with start-up below the findings: one screen, one figure.
    amount = part_of(outside[most] + (summary.first_step_ms or 0.0) * (most == "startup"), extent)
    if most == "startup" and summary.cold:
        why = _why_startup(summary.startup)
        return f"{amount} of this cold step are start-up. Record after a warm-up: {why}."
    if most == "startup":
        return f"{amount} are start-up: {_why_startup(summary.startup)}. {_WARM_UP}"
    if most == "before":
        return f"{amount} are work queued before the recording: not counted."
    return f"{amount} lie behind the last work: not counted."


def _amount(summary: Summary, total: float, *, rest: bool) -> str:
    """Say what shares are of, *rest* where start-up was named before it. Without steps, or of a cold one, nothing shows that it
    is steady.
    """
    if summary.steps and not summary.cold:
        whole = summary.steps == 1 and total >= _ALL * (
            summary.step_ms.median if summary.step_ms else summary.window_ms
        )
        return f"{duration(total)} step" if whole else f"steady {duration(total)}"
    if rest:
        return f"other {duration(total)}"
    return f"{duration(total)} outside start-up" if summary.unsteady else f"{duration(total)} recorded"


def _why_startup(parts: Sequence[StartupPart]) -> str:
    """Say what start-up is: the one kind that is nearly all of it, else the largest two with their times."""
    if not parts:
        return "it happens once"
    total = sum(part.ms for part in parts)
    large = [part for part in parts[:2] if part.ms >= _PART * total]
    if len(large) > 1 and large[0].ms < _ALL * total:
        return ", ".join(f"{duration(part.ms)} {_takes(part)}" for part in large)
    return _happens(parts[0])


def _takes(part: StartupPart) -> str:
    """Say what start-up of a kind does behind its time: the time is that of a name only where all of it lies there."""
    words = STARTUP_OF_SEVERAL.get(part.kind, part.kind)
    if not part.where or part.kind == KINDS[CONTEXT]:
        return words
    if not part.wholly:
        words = FIRST_CALLS if part.kind == KINDS[FIRST_CALL] else words
        return f"{words}, most in {short_name(part.where)}"
    link = " " if part.kind in ("specialization", "first call") else " in "
    return f"{words}{link}{short_name(part.where)}"


def _happens(part: StartupPart) -> str:
    words, where = STARTUP.get(part.kind, part.kind), part.where
    if "{where}" in words:
        return words.format(where=short_name(where or "functions"))
    if not where or part.kind == KINDS[CONTEXT]:
        return words  # whoever comes first waits for the context: where says nothing of why
    return f"{words} in {short_name(where)}" if part.wholly else f"{words}, most in {short_name(where)}"


# ---- what bounds it


def _bound(context: Context, summary: Summary) -> str | None:
    """Return the cause that holds steady work back; None where nothing of it is known.

    What a benchmark does around its runs holds nothing of the program back, where anything else takes much of the time.
    """
    around = owners.harness_shares(context)
    causes = {cause: share - around.get(cause, 0.0) for cause, share in summary.steady_causes.items()}
    causes = causes if max(causes.values(), default=0.0) > _SILENT else summary.steady_causes
    idles = {cause: share for cause, share in causes.items() if cause not in BUSY}
    chosen = idles if sum(idles.values()) > _MOSTLY else causes
    return max(chosen, key=lambda cause: chosen[cause]) if chosen else None


def _as_it_ran(context: Context, summary: Summary) -> Summary:
    """The summary with the steps without the profiler, where these wait for workers who keep up behind the profiler alone."""
    bare = context.once(unprofiled)
    if bare is None or bare.pace is None:
        return summary
    return msgspec.structs.replace(
        summary, steady_causes=summary.unprofiled_causes, steady_ms=bare.step_ms, median_ms={}
    )


def _beside(
    context: Context, causes: Mapping[str, float], bound: str, silent: Sequence[str], leading: Ints | None
) -> list[str]:
    """Choose the causes that are named beside the largest, in their order: those that no finding claims, and that of the first.

    None is passed over for what takes less.
    """
    named = [cause for cause in silent if cause != bound]
    if about := _by_cause_of(context, leading):
        cause = max(about, key=lambda cause: about[cause], default="")
        if cause not in (bound, *silent) and causes.get(cause, 0.0) >= _SHARE_SAID:
            named.append(cause)
    if named:
        least = max(min(causes[cause] for cause in named), _SHARE_SAID)
        named += [cause for cause, part in causes.items() if part >= least and cause not in (bound, *named)]
    return sorted(named, key=lambda cause: -causes[cause])


def _by_cause_of(context: Context, segments: Ints | None) -> dict[str, int]:
    """Sum the ns of a finding's segments by cause; empty without one."""
    if segments is None:
        return {}
    rows = np.zeros(len(context.ledger.counted), np.bool_)
    rows[segments] = True
    return owners.by_cause(context.ledger, rows)


def _idle_of(found: owners.Owner, ms: float) -> str:
    """Return the idle time beside a call, and what the call holds the host for where that is much more; *ms* of each ns."""
    idle, held = duration(found.ns * ms), duration(found.held_ns * ms)
    if found.held_ns < _HELD * found.ns:
        return idle
    amount, _, unit = idle.rpartition(" ")
    return f"{amount if unit == held.rpartition(' ')[2] else idle} of {held}"


def _parts(
    context: Context,
    summary: Summary,
    program: Program,
    bound: str | None,
    claims: Sequence[Ints],
    leading: Ints | None,
    rest: bool,
) -> Parts:
    """Say what bounds the program, what else goes to no finding, and what the first finding is about (*leading*: its segments).

    *rest* where start-up, or what lies before or after the program's work, was named before.
    """
    causes, total, ledger = summary.steady_causes, summary.whole_ms, context.ledger
    shown = summary.shown_causes  # of the step whose time is said
    free = owners.unclaimed(ledger, claims)
    lost, every = owners.by_cause(ledger, free), owners.by_cause(ledger, ledger.counted)
    whole = max(ledger.counted_ns, 1)
    leads = _by_cause_of(context, leading)
    silent = sorted((cause for cause, ns in lost.items() if ns > _SILENT * whole), key=lambda cause: -lost[cause])
    unit = f"the {_amount(summary, total, rest=rest)}" + (" a step" if summary.steps > 1 and summary.step_ms else "")
    bare = context.once(unprofiled)
    paced = bare is not None and bare.pace is not None
    if paced:
        unit = f"the {duration(total)} a step without the profiler"
    elif summary.unprofiled_ms is not None:
        about = "" if summary.unprofiled_steps else "about "
        unit += f" ({about}{duration(summary.unprofiled_ms)} without the profiler)"
    waits = context.once(rank_waits)
    words = ON_GPU if context.recording.devices else ON_CPU if context.cpu_program else UNRECORDED
    if context.once(facts_of).hf_pipeline:
        words = words | {"loader": PIPELINE}

    def clause(start: str, cause: str, *, brief: bool = False) -> Clause:
        unheard = cause == "unknown" and not context.recording.devices
        phrase = (
            BRIEFLY[cause] if brief and not unheard else words.get(cause, ON_GPU[cause]).format(device=program.device)
        )
        if cause == "communication" and waits is not None and waits.holds:
            shared = part_of(waits.waited_ns / whole * total, every[cause] / whole * total)
            phrase = f"{WAITING_BRIEFLY if brief else WAITING}, {shared} waiting for other ranks".format(
                device=program.device
            )
        # Of calls that launch alone nobody knows what the host does between them.
        launches_alone = not {"op", "python"} & set(context.tables)
        silent_ns = every.get("host", 0) if launches_alone else context.silent_ns
        if cause == "host" and silent_ns >= (_SHOWN if words is UNRECORDED else _UNSEEN) * every["host"] > 0:
            unseen = SHOWS_NOTHING if words is UNRECORDED else UNSEEN
            phrase = (UNSEEN_BRIEFLY if brief else unseen).format(device=program.device)
        elif cause == "host" and words is UNRECORDED and context.doubtful_ns >= _SHOWN * every["host"] > 0:
            phrase = WORKS_OR_WAITS
        elif cause == "host" and words is ON_GPU and context.longest_host_ns >= _ONCE * every["host"] > 0:
            phrase = (AT_ONCE_BRIEFLY if brief else AT_ONCE).format(device=program.device)
        elif cause == "host" and words is ON_GPU and _stopped_ns(context) >= _UNSEEN * every["host"] > 0:
            phrase = (STOPPED_BRIEFLY if brief else STOPPED).format(device=program.device)
        lacking = cause == "unknown" and context.lacks_work
        if lacking and context.thinned:
            phrase = THINNED_BRIEFLY if brief else THINNED
        elif lacking:
            phrase = (LACKING_BRIEFLY if brief else LACKING).format(device=program.device)
        if cause == "communication" and context.thinned:
            phrase = UNPROVEN_BRIEFLY if brief else UNPROVEN
        text = f"{start} {phrase}"
        if cause in ("unknown", "communication") and context.thinned:
            return Clause(text)  # whoever was recorded there need not be who was there
        if cause == "unknown" and bound == cause:
            # Nobody owns it, not even the finding that counts it: at least say what the host is in meanwhile.
            found = owners.owner(context, cause, ledger.counted)
            return Clause(text, found.name, _idle_of(found, total / whole)) if found else Clause(text)
        # Of idle time the recorded steps give other amounts than those without the profiler.
        found = most_of(context, cause, free) if cause in silent and not (paced and cause not in BUSY) else None
        if found is None or not found.ns:
            return Clause(text)
        alone = lost[cause] == every[cause]
        heaviest = found if alone or cause not in BUSY else most_of(context, cause, ledger.counted)
        if heaviest is not None and heaviest.ns >= _HEAVIER * found.ns:
            # Beside what most of the time is, what no finding covers is a detail.
            time = duration(heaviest.ns / whole * total)
            return Clause(text, heaviest.name, time, most=2 * heaviest.ns >= every[cause])
        if cause in BUSY and leads.get(cause, 0) >= _HEAVIER * found.ns:
            return Clause(text)  # what to do first is about far more of it than what no finding covers
        time = duration(found.ns / whole * total)
        return Clause(text, found.name, time, alone, 2 * found.ns >= lost[cause])

    word = {"training": "Training", "inference": "Inference"}.get(program.kind, "Program")
    if bound is None or program.unrecorded:
        missing = (
            f"nothing of the {program.device} was recorded" if program.unrecorded else "nothing steady was recorded"
        )
        others = [clause(f"for {100 * shown.get(cause, 0.0):.0f} % of {unit}", cause) for cause in silent[:1]]
        others += [clause(f"{100 * shown.get(cause, 0.0):.0f} %", cause, brief=True) for cause in silent[1:]]
        return Parts("", word, program.details, Clause(missing), others)
    opening = clause(f"{100 * shown.get(bound, 0.0):.0f} % of {unit}", bound)
    named = _beside(context, causes, bound, silent, leading)
    others = [clause(f"{100 * shown.get(cause, 0.0):.0f} %", cause, brief=True) for cause in named]
    return Parts("", word, program.details, opening, others)


def _stopped_ns(context: Context) -> int:
    """Return the ns of the host's idle time in which its thread was stopped."""
    ledger, stops = context.ledger, context.once(stopped_anywhere)
    idle = np.flatnonzero(ledger.counted & ledger.through("host"))
    return int(covered(stops, ledger.start_ns[idle], ledger.end_ns[idle]).sum()) if len(stops.start) else 0

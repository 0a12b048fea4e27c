"""Division of a step's time in sentences: what kernels compute, what the CPU does meanwhile, copies, and what no finding holds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from advisor.counting import average, counted
from advisor.regex import regex
from advisor.report.figures import listed, per
from advisor.report.plain import clean, in_one_unit, milliseconds, percent, size
from advisor.results.analysis import MEAN_APART, Analysis, Summary
from advisor.results.elsewhere import Calls, Elsewhere
from advisor.results.host_blocked import Blocking, HostBlocked
from advisor.results.host_time import HostTime
from advisor.results.kernel_time import KernelTime
from advisor.results.pass_time import PassTime
from advisor.results.recurring_gap import RecurringGap
from advisor.results.waits import Waiting

Tell = Literal["both", "made", "why", "neither"]

_FAMILY = 0.01
"""Of the kernels' time: a family of less is one of the others. Likewise of the time in which the GPU waits for the CPU."""
_MOST_PARTS, _LONGEST = 8, 48
"""Parts of that which are named at most, and characters of a name."""
_COPIED, LESS_COPIED = 0.05, 0.02
"""Part of the step from which on copies in one direction are named with their size, and where lines are left."""
_BESIDE = 0.05
"""Part of their time beside kernels from which on that is said."""
_TO = {"HtoD": "to the GPU", "DtoH": "to the host", "DtoD": "within the GPU", "PtoP": "to another GPU"}
_ALIKE = 1.1
"""Times the one of two percentages that are as good as the same."""


def sentences(analysis: Analysis) -> Iterator[str]:
    """Yield all of them that have something to say."""
    summary = analysis.summary
    told = (
        kernel_time(summary),
        host_time(summary),
        batch_host(summary, batches=bool(analysis.phases)),
        models(summary),
        passes(summary),
        ranges(summary),
        slow(summary),
        launches(summary),
        first_layer(summary),
        too_short(analysis),
        recurring_gap(summary),
        blocked(analysis),
        copies(summary),
        lead_lost(summary),
        elsewhere(analysis.elsewhere),
    )
    yield from filter(None, told)


def kernel_time(summary: Summary) -> str:
    """Say what the kernels' time is made of: ``Kernels, 62.7 ms a step: matrix products 29.4 ms (46.9 %), softmax ...``."""
    families = summary.kernel_time or summary.operator_time
    total = sum(part.ms for part in families)
    parts = [part for part in families if part.share >= _FAMILY]
    told = [
        f"{clean(part.family)} {milliseconds(part.ms)} ({percent(part.share)}{with_casts(part, total, ', ')})"
        for part in parts
    ]
    if not told:
        return ""
    if rest := total - sum(part.ms for part in parts):
        told.append(f"others {milliseconds(rest)}")
    mean = " in the mean" if summary.mean_apart and summary.kernel_time else ""
    what = "Kernels" if summary.kernel_time else "Operators"
    return f"{what}, {milliseconds(total)} {per(summary)}{mean}: {', '.join(told)}.{_short_ones(summary)}"


def _short_ones(summary: Summary) -> str:
    """Say how many kernels are short, where these take much: `` 444 of 562 take under 10 µs each, 2.00 ms together.``"""
    short = summary.short_kernels
    if short is None:
        return ""
    return f" {short.count:,.0f} of {short.kernels:,.0f} take under 10 µs each, {milliseconds(short.ms)} together."


def with_casts(part: KernelTime, total: float, between: str = "") -> str:
    """Say what a family comes to with the casts of what it reads and writes, where these are much of it; else nothing."""
    if part.casts_ms < _CASTS * part.ms or not total:
        return ""
    told = f"{100 * (part.ms + part.casts_ms) / total:.0f} % with casts"
    return between + told if between else f" ({told})"


_CASTS = 0.1
"""Part of a family's time from which on its casts are said."""


def host_part(part: HostTime) -> str:
    """Name what the CPU does in short: the name of a function's file is its last part; one of many letters is its line's."""
    if part.kind == "between":
        return "between recorded calls"
    if part.kind not in ("function", "line"):
        return clean(part.where)[:_LONGEST]
    text, inside = clean(part.where.rpartition("/")[2]), f" ({clean(part.inside)})" if part.inside else ""
    return (text if len(text) <= _LONGEST else text.split(" ")[0]) + inside


def host_time(summary: Summary) -> str:
    """Say what the CPU does while the GPU waits for it: ``Waits for the CPU, 158 ms a step: backward 91.5 ms ...``."""
    summary = with_mean_waits(summary)
    total = sum(part.ms for part in summary.host_time)
    parts = [part for part in summary.host_time if part.share >= _FAMILY and part.kind != "others"][:_MOST_PARTS]
    if not parts:
        return ""
    told = [
        f"{clean(part.where) or host_part(part)} {milliseconds(part.ms)} ({percent(part.share)}"
        f"{f', in {clean(part.inside)}' if part.inside else ''})"
        for part in parts
    ]
    if rest := total - sum(part.ms for part in parts):
        told.append(f"others {milliseconds(rest)}")
    what = "By line" if parts[0].kind == "line" else "Waits for the CPU"
    mean = " in the mean" if _waits_of_mean(summary) else ""
    return f"{what}, {waits_for(summary)} {per(summary)}{mean}: {', '.join(told)}."


def _waits_of_mean(summary: Summary) -> bool:
    """Tell whether causes are those of the median step, and waits for the CPU of another one, the mean."""
    return summary.shown_causes != summary.steady_causes and bool(summary.steady_mean_ms and summary.host_time)


def with_mean_waits(summary: Summary) -> Summary:
    """Give the waits for the CPU the mean step's ms, where the causes beside them are the median step's."""
    if not _waits_of_mean(summary):
        return summary
    times, split = (summary.steady_mean_ms or 0.0) / summary.whole_ms, summary.host_split
    parts = [msgspec.structs.replace(part, ms=part.ms * times) for part in summary.host_time]
    if split is not None:
        split = type(split)(**{name: ms * times for name, ms in msgspec.structs.asdict(split).items()})
    return msgspec.structs.replace(summary, host_time=parts, host_split=split)


def waits_for(summary: Summary, most: int = 120) -> str:
    """Return ``5.58 ms (1.86 Python, 3.04 operators, 0.68 launches)``: how long the GPU waits for the CPU, and for what of it.

    What it waits for is left out where that takes more than *most* columns.
    """
    total, split = sum(part.ms for part in summary.host_time), summary.host_split
    if split is None:
        return milliseconds(total)
    python = "Python" if split.python_ms >= split.between_ms else "between operators"
    parts = {python: split.outside_ms, "operators": split.operator_ms, "launches": split.launch_ms}
    shown = {name: ms for name, ms in parts.items() if ms >= _SPLIT * total}
    figures, unit = in_one_unit(total, *shown.values())
    named = [f"{figure} {name}" for figure, name in zip(figures[1:], shown, strict=True)]
    texts = [f"{figures[0]} {unit} ({', '.join(named)})"]
    if set(parts) == set(shown) and python != "Python":
        # In short: operators, and what lies between them.
        between, operators, launches = named
        texts.append(f"{figures[0]} {unit} ({operators}, {between.removesuffix('operators')}them, {launches})")
    fitting = [text for text in texts if len(shown) > 1 and len(text) <= most]
    return fitting[0] if fitting else f"{figures[0]} {unit}"


_SPLIT = 0.02
"""Of the time that the GPU waits for the CPU: what is less of it is not named beside Python and operators."""


def batch_host(summary: Summary, *, batches: bool) -> str:
    """Say what the host does in a batch, or a capture: ``CPU of a batch 2.41 ms: _prepare_inputs 27 %, _model_forward 22 %``."""
    total = sum(part.ms for part in summary.batch_host)
    named = [part for part in summary.batch_host if part.kind != "others" and part.share >= _CALL][:_MOST_PARTS]
    if not named:
        return ""
    told, before = list[str](), ""
    for part in named:
        name = host_part(part).removeprefix("nn.Module: ")
        file, colon, place = name.partition(":")
        told.append(f"{colon + place if colon and file == before else name} {100 * part.share:.0f} %")
        before = file
    rest = 100 * (1 - sum(part.share for part in named))
    what = "a batch" if batches else "the capture"
    return f"CPU of {what} {milliseconds(total)}: {', '.join([*told, f'other {rest:.0f} %'])}"


_CALL = 0.02
"""Of the host's time in a batch: a call of less is one of the others."""


def blocked(analysis: Analysis) -> str:
    """Say in what calls the host is blocked: ``host blocked 359 ms (the GPU idles 5.04 ms of it): copies to the GPU ×5 in ...``.

    Nothing where a finding is about such calls, nor where a graph is captured: there idle time means nothing.
    """
    summary = analysis.summary
    if analysis.headline is not None and analysis.headline.kind == "capture only":
        return ""
    found = summary.host_blocked
    told_of = {one.rule.partition("/")[0] for one in analysis.findings if one.severity != "note" and one.after is None}
    if found is None or told_of & (_ALLOCATING if _ALLOCATOR.match(found.parts[0].call) else _BLOCKING):
        return ""
    calls: dict[str, list[Blocking]] = {}
    for part in found.parts:
        calls.setdefault(part.call, []).append(part)
    told, known = list[str](), 0.0
    ordered = sorted(calls.values(), key=lambda places: -math.fsum(part.ms for part in places))
    for places in ordered[:_MOST_CALLS]:
        ms, text = _call_blocked(places)
        if ms >= _BLOCKS * found.ms:
            told.append(f"{text} {100 * ms / found.ms:.0f} %")
            known += ms
    rest = 100 * (1 - known / found.ms)
    told += [f"other {rest:.0f} %"] if rest >= _REST else []
    step = summary.steady_mean_ms if found.step_ms is None else found.step_ms
    apart = step is not None and abs(step - summary.whole_ms) > MEAN_APART * summary.whole_ms
    mean = f" of a mean step of {milliseconds(step)}" if apart else ""
    return f"host blocked {milliseconds(found.ms)}{mean}{_idle_of(found)}: {', '.join(told)}"


def _call_blocked(places: Sequence[Blocking]) -> tuple[float, str]:
    """Return the time of one call, and ``copies to the GPU ×5 in train.py:7 main``: all of it in the place of nearly all."""
    ms, count = (math.fsum(getattr(part, name) for part in places) for name in ("ms", "count"))
    place = _blocked_at(places[0])
    at = f" in {place} and others" if place else ""
    if place and places[0].ms >= _NEARLY * ms:
        at, ms, count = f" in {place}", places[0].ms, places[0].count
    return ms, f"{clean(places[0].call)}{f' ×{count:,.0f}' if count >= _TIMES else ''}{at}"


def _idle_of(found: HostBlocked) -> str:
    if found.idle_ms is None:
        return ""
    little = found.idle_ms < _BLOCKS_IDLE * found.ms
    return " (the GPU works meanwhile)" if little else f" (the GPU idles {milliseconds(found.idle_ms)} of it)"


def _blocked_at(part: Blocking) -> str:
    text = clean(part.where)
    if part.kind != "function":
        return text[:_LONGEST]
    text = text.rpartition("/")[2]
    return text if len(text) <= _LONGEST else text.split(" ")[0]


_ALLOCATOR = regex(r"(?:cuda|hip|cuMem)\w*(?:Alloc|Malloc|Free|Register|Map|Create|Release)")
_BLOCKING, _ALLOCATING = frozenset(("sync", "transfer")), frozenset(("memory",))
"""Categories of rules that say themselves what the host waits for, in allocations and in other calls."""
_BLOCKS, _MOST_CALLS, _NEARLY, _BLOCKS_IDLE = 0.05, 3, 0.9, 0.01
"""Of the time in which the host is blocked: a call of less is one of the others; calls that are named; a place of so much of a
call's time is the call's; and idle time of less is not said."""
_TIMES, _REST = 1.5, 0.5
"""Calls a step from which on they are counted; percent of the others that round to something."""


def models(summary: Summary) -> str:
    """Say what each of several models takes: ``Models: Transformer 171 ms, T5EncoderModel 28.5 ms (5.00 ms of it idle)``."""
    told = [
        f"{clean(part.model)} {milliseconds(part.ms)}"
        + (f" ({milliseconds(part.idle_ms)} of it idle)" if part.idle_ms >= _IDLE * part.ms else "")
        for part in summary.model_time
    ]
    return f"Models: {', '.join(told[:_MOST_MODELS])}." if len(told) > 1 else ""


_IDLE, _MOST_MODELS = 0.1, 5
"""Of a model's time: idle time that is said; and models that are named."""


def passes(summary: Summary, *, brief: bool = False, least: float | None = None) -> str:
    """Say what each pass of a training step takes: ``passes: forward 47 ms, backward 62 ms, optimizer 2 ms (20.5 ms on the CPU)``.

    What the device idles of it is said, what it does again, and the host's time where that is another figure. In *brief* all of
    that is left out, but for a host's time of several times the device's. Passes of less than *least* of the step are not named.
    """
    floor = (_PASS if least is None else least) * summary.whole_ms
    idle = "idle or taken out" if summary.taken_out_share else "idle"
    told = [_pass(part, idle, brief=brief) for part in summary.pass_time if max(part.ms, part.host_ms or 0.0) >= floor]
    return f"passes: {', '.join(told)}" if len(told) > 1 else ""


def ranges(summary: Summary) -> str:
    """Say what each range of a program takes on the host: ``ranges (host): backward 34.2 ms, sparse_data_dist 10.3 ms``."""
    names = [clean(part.name)[:_LONGEST] for part in summary.range_time[:_MOST_PARTS]]
    told = [
        f"{name.strip('# ') or name} {milliseconds(part.ms)}"
        for name, part in zip(names, summary.range_time, strict=False)
    ]
    return f"ranges (host): {', '.join(told)}" if told else ""


def _pass(part: PassTime, idle: str, *, brief: bool) -> str:
    words = {"between": "between them", "loader": "waits for batches"}
    if brief:
        told = f"{words.get(part.name, part.name)} {milliseconds(part.ms)}"
        # Beside what finding it saves, the device's time alone would read as a contradiction.
        several = part.host_ms is not None and part.host_ms >= _SEVERAL_TIMES * part.ms
        return f"{told} (host {milliseconds(part.host_ms)})" if several else told
    facts = [f"{milliseconds(part.idle_ms)} {idle}"] if _IDLES * part.ms <= part.idle_ms < part.ms else []
    facts += [f"{milliseconds(part.again_ms)} forward again"] if part.again_ms >= _AGAIN * part.ms > 0 else []
    if part.host_ms is not None and part.host_ms >= _ON_CPU * part.ms:
        facts.append(f"{milliseconds(part.host_ms)} on the CPU")
    aside = f" ({', '.join(facts)})" if facts else ""
    return f"{words.get(part.name, part.name)} {milliseconds(part.ms)}{aside}"


_PASS, _IDLES, _AGAIN, _ON_CPU, _SEVERAL_TIMES = 0.02, 0.2, 0.02, 1.25, 3
"""Of the step: a pass of less is not named. Of a pass: idle time, and forward work again, that is said; the CPU's time likewise,
and in brief."""


def slow(summary: Summary) -> str:
    """Say which steps are long, and why: ``slow step: ProfilerStep#20 takes 194 ms (median 153 ms), 38.1 ms of it more loader``."""
    found = summary.slow_steps
    # Where many are, steps differ: that the mean is apart from the median says as much.
    if found is None or found.count > _SINGLE * found.steps:
        return ""
    grew = f"{milliseconds(found.cause_ms)} of it more {clean(found.cause or '').replace('_', ' ')}"
    median = f"(median {milliseconds(found.median_ms)})"
    if found.count == 1:
        told = f"slow step: {clean(found.name)} takes {milliseconds(found.most_ms)} {median}"
        return f"{told}, {grew}" if found.cause else told
    (least, most), unit = in_one_unit(found.least_ms, found.most_ms)
    told = f"slow steps: {found.count} of {found.steps} take {least}–{most} {unit} {median}"
    return f"{told}, the longest {grew}" if found.cause else told


_SINGLE = 0.25
"""Part of the steps up to which those that take long are single ones."""


def first_layer(summary: Summary) -> str:
    """Say what the first layer takes and those after it: ``first calls: Block_0 held the CPU for 10.3 ms, the 35 after it ...``.

    Nothing where nearly all of the difference is start-up, which has a line of its own, and the rest is little of the steady time.
    """
    found = summary.first_layer
    if found is None:
        return ""
    if found.counted_ms < min(_STARTED * (found.ms - found.other_ms), _LEFT_OF_IT * summary.whole_ms):
        return ""
    (took, usual, more, counted_), unit = in_one_unit(
        found.ms, found.other_ms, found.ms - found.other_ms, found.counted_ms
    )
    told = f"first calls: {clean(found.name)} held the CPU for {took} {unit}, the {found.others} after it {usual} each"
    return f"{told}; of the {more} more, {counted_} count as steady"


_STARTED, _LEFT_OF_IT = 0.1, 0.05
"""Of what a first layer takes beyond the others, and of the steady time: what is no start-up and goes without a word."""


def too_short(analysis: Analysis) -> str:
    """Say that a recording of a few short kernels shows nothing steady; nothing where the headline says as much."""
    found, kind = analysis.summary.few_kernels, analysis.headline.kind if analysis.headline is not None else ""
    if found is None or kind in ("start-up only", "capture only", "empty"):
        return ""
    once = ", and no operator comes twice" if found.again is False else ""
    kernels = f"{counted(found.count, 'kernel')}, {milliseconds(found.ms)} of GPU work{once}"
    return f"Too short to tell first calls from steady work: {kernels}"


def recurring_gap(summary: Summary) -> str:
    """Say what idle stretch comes back: ``once a step the GPU idles for 64.3 ms at once (46 % of the idle time), before ...``."""
    found = summary.recurring_gap
    if found is None:
        return ""
    (least, most, middle), unit = in_one_unit(found.least_ms, found.most_ms, found.ms)
    long = f"{middle} {unit}" if found.most_ms <= _AS_LONG * found.least_ms else f"{least}–{most} {unit}"
    often = "once a step" if found.count == found.steps else f"{found.count} times in {found.steps} steps"
    unsure = not summary.replays_whole or summary.taken_out_share > 0
    idles, time = ("idles, or runs unrecorded work,", "such") if unsure else ("idles", "its idle")
    told = f"{often} the GPU {idles} for {long} at once ({100 * found.idle_share:.0f} % of {time} time)"
    return told + _behind(found)


def _behind(found: RecurringGap) -> str:
    """Say what comes behind such a stretch: ``, 5 of them before a graph that X had queued 9 ms ahead``."""
    if not (found.op or found.call) or 2 * found.ended <= found.count:
        return ""
    most = "" if found.ended == found.count else f" {found.ended} of them"
    op, call = clean(found.op or ""), clean(found.call or "")
    if found.ahead_ms is not None:
        what = (
            f"{'a graph' if found.graph else 'work'} that {op or call} had queued {milliseconds(found.ahead_ms)} ahead"
        )
    else:
        what = f"the graph of {op}" if found.graph and op else op or call
    return f",{most} before {what}"


_AS_LONG = 1.01
"""Times the shortest of several stretches, up to which the longest is as long."""


def launches(summary: Summary) -> str:
    """Say how often the host launches kernels of which none was recorded: ``launches: 260 in 12.5 ms, one every 48.0 µs ...``."""
    found = summary.launch_rate
    if found is None:
        return ""
    each = found.ms / found.count
    rate = f"one every {milliseconds(each)} ({float(f'{1000 / each:.3g}'):,.0f} a second)"
    call = f"{milliseconds(found.call_us / 1000)} of it in the call: kernels that take less leave the GPU waiting"
    fewer = "unless torch.compile or a CUDA graph launches fewer"
    return f"launches: {average(found.count)} in {milliseconds(found.ms)}, {rate}, {call}, {fewer}"


def copies(summary: Summary, least: float = _COPIED) -> str:
    """Say what is copied, where that takes much of the step: ``copies: 9.10 ms to the GPU (18.4 MiB, pageable, 2.1 GB/s)``."""
    whole = summary.steady_mean_ms or summary.whole_ms
    told = []
    for part in summary.copy_time:
        if part.ms < least * whole:
            continue
        facts = [size(part.bytes)] if part.bytes is not None else []
        facts += [part.host_memory] if part.host_memory else []
        facts += [f"{part.bytes / part.ms / 1e6:.3g} GB/s"] if part.bytes else []
        facts += (
            [f"{100 * part.hidden_ms / part.ms:.0f} % beside kernels"] if part.hidden_ms >= _BESIDE * part.ms else []
        )
        told.append(f"{milliseconds(part.ms)} {_TO[part.direction]}" + (f" ({', '.join(facts)})" if facts else ""))
    mean = " (mean step)" if summary.mean_apart else ""
    return f"copies{mean}: {'; '.join(told)}{_both_ways(summary, least * whole)}" if told else ""


def _both_ways(summary: Summary, least_ms: float) -> str:
    """Say of copies to the GPU and back, each of so many ms, for how long both run at once; nothing where one is missing."""
    ways = [part for part in summary.copy_time if part.direction in ("HtoD", "DtoH") and part.ms >= least_ms]
    both = [part.both_ms for part in ways if part.both_ms is not None]
    if len(both) < _WAYS:
        return ""
    shorter = min(part.ms for part in ways)
    return "; one after the other" if max(both) < _BESIDE * shorter else f"; {milliseconds(max(both))} both at once"


_WAYS = 2


def collectives(summary: Summary) -> str:
    """Say what of the collectives that nothing hides is waiting for other ranks, where that is known and they take much."""
    part, waited = summary.steady_causes.get("communication", 0.0), summary.rank_wait_ms
    if not waited or part < _EXPOSED:
        return ""
    whole = summary.whole_ms
    # What a finding costs is the mean step's as well.
    mean = (summary.steady_mean_ms or whole) if summary.mean_apart else whole
    exchanged = None if summary.exchange_ms is None else summary.exchange_ms * mean / whole
    told = exposed(part * mean, min(waited * mean / whole, part * mean), exchanged)
    return told.replace(":", " (mean step):", 1) if summary.mean_apart else told


_EXPOSED = 0.1
"""Of the step: collectives of less are not divided."""


def exposed(ms: float, waited_ms: float, exchanged_ms: float | None = None) -> str:
    """Divide exposed collectives: ``exposed collectives 481 ms: 432 ms waiting for other ranks, 49.0 ms in transfer``.

    What is left of both is of collectives that have none alike to compare with.
    """
    rest_ms = ms - waited_ms
    told = f"{milliseconds(waited_ms)} waiting for other ranks"
    if exchanged_ms is None or rest_ms - exchanged_ms < _UNDIVIDED * ms:
        return f"exposed collectives {milliseconds(ms)}: {told}, {milliseconds(rest_ms)} in transfer"
    divided = f"{told}, {milliseconds(exchanged_ms)} in transfer"
    return f"exposed collectives {milliseconds(ms)}: {divided}, {milliseconds(rest_ms - exchanged_ms)} not known"


_UNDIVIDED = 0.05
"""Of exposed collectives: a rest of less is counted as transfer."""


def lead_lost(summary: Summary) -> str:
    """Say which waits let the GPU catch up with the CPU, and how much idle time may come of it; nothing where that is little."""
    lost = summary.lead_lost
    if lost is None:
        return ""
    names = [_waiting(part) for part in lost.where[:2]]
    if lost.others:
        total = lost.wait_ms + sum(part.ms for part in lost.others)
        late = listed([f"{milliseconds(part.ms)} {name}" for part, name in zip(lost.where, names, strict=False)])
        rest = listed([f"{milliseconds(part.ms)} {_waiting(part)}" for part in lost.others[:2]])
        return (
            f"The CPU waits {milliseconds(total)} {per(summary)} while the GPU works: {late} "
            f"(late launches: up to {milliseconds(lost.idle_ms)} idle), {rest}."
        )
    waits = f"The CPU waits for {milliseconds(lost.wait_ms)} {per(summary)}"
    places = [f"{milliseconds(part.ms)} {name}" for part, name in zip(lost.where, names, strict=False)]
    told = f"{waits} while the GPU works ({listed(places)})"
    if len(names) == 1:
        told = f"{waits} {names[0]} while the GPU works"
    return f"{told}: launches behind it are late, and leave the GPU idle for up to {milliseconds(lost.idle_ms)}."


def _waiting(part: Waiting) -> str:
    return f"in {clean(part.op or 'no operator')}{f' under {clean(part.around)}' if part.around else ''}"


def elsewhere(parts: Sequence[Elsewhere], *, tell: Tell = "both") -> str:
    """Say where time lies without a finding: ``In no finding: compute, 8.03 ms in aten::mm; sync, 4.7 ms in aten::item.``

    Of kernels whose limit is not known it says what they compute ("made"), why it is not known ("why"), both, or "neither".
    """
    by_cause: dict[str, list[str]] = {}
    for part in parts:
        where, reached = clean(part.where), _reached(part, tell)
        if reached and where.endswith(")"):
            where, reached = where[:-1], reached.replace(" (", "; ", 1)
        by_cause.setdefault(part.cause, []).append(f"{milliseconds(part.ms)} in {where}{reached}")
    told = [f"{cause.replace('_', ' ')}, {listed(places)}" for cause, places in by_cause.items()]
    return f"In no finding: {'; '.join(told)}." if told else ""


def _reached(part: Elsewhere, tell: Tell) -> str:
    """Say how near some kernels are to what their device reaches; else what they are, and why nobody knows."""
    if part.calls is not None:
        return f" ({_calls(part.calls)})"
    if part.of_reachable is None:
        if tell == "neither":
            return ""
        made, why = _made_of(part) if tell != "why" else "", clean(part.unknown or "")
        if why:
            why = "limit not known" + (f": {why}" if tell != "made" or ":" not in made else "")
        return f" ({'; '.join(filter(None, (made, why)))})" if made or why else ""
    low = max(round(100 * part.of_reachable), 1)
    high = round(100 * (part.most_of_reachable or 0.0))
    reached = f"{low} to {high}" if high > low * _ALIKE else f"{low}"
    why = f": {REASONS.get(part.reason, part.reason)}" if part.reason else ""
    return f" (at {reached} % of what this GPU reaches{why})"


def _calls(calls: Calls) -> str:
    """Say how large and how long collectives on the CPU are, and what makes them slower than the network."""
    median, longest = milliseconds(calls.median_ms), milliseconds(calls.longest_ms)
    told = f"{counted(max(round(calls.count), 1), 'message')}, {median} in the median, at most {longest}"
    if (slow := calls.slow_round) is not None:
        (took, usual), unit = in_one_unit(slow.ms, slow.usual_ms)
        told += f": round {slow.number} of {slow.rounds} took {took} {unit}, the others {usual}"
    if calls.most_bytes is None or calls.rate is None:
        return told
    told += f"; the largest, of {size(calls.most_bytes)}, at {calls.rate:.2g} GB/s"
    if calls.rate >= _SLOW_NETWORK:
        return told
    ranks = f" of {calls.ranks:,} ranks" if calls.ranks else " of the ranks"
    return f"{told}, under 1 Gbit/s: they wait for a slow rank, or for a round{ranks} each"


_SLOW_NETWORK = 0.125
"""GB/s of 1 Gbit/s: no network of a machine that trains is slower."""


def _made_of(part: Elsewhere) -> str:
    """Say how many kernels a place holds, how many of them are short, and what they are: ``253 kernels: RMS norm 332 µs, ...``."""
    if part.kernels is None or part.kernels < _MANY:
        return ""
    told = f"{part.kernels:,.0f}{'' if part.where.endswith('kernels') else ' kernels'}"
    if part.short and part.short_ms is not None and part.short_ms >= _SHORT * part.ms and part.short < part.kernels:
        told += f", {part.short:,.0f} under 10 µs ({milliseconds(part.short_ms)})"
    if len(part.made_of) > 1:
        told += f": {', '.join(f'{_last_words(clean(one.name))} {milliseconds(one.ms)}' for one in part.made_of)}"
    return told


_MANY, _SHORT = 2, 0.1
"""Kernels in a place from which on they are counted, and the part of its time from which on short ones are."""


def _last_words(name: str) -> str:
    """Return the last words of a long name: kernels of one library differ there."""
    words = name.split("_")
    while len(words) > 1 and len("_".join(words)) > _LONGEST:
        words = words[1:]
    return "_".join(words)


REASONS = {
    "misaligned": "rows at addresses that matrix units cannot load at once",
    "matrix-vector": "one row or few, so that each weight is read for little",
    "tiny": "tiny products",
    "few-tiles": "too few tiles for the GPU",
    "thin": "a thin side",
    "partial-wave": "its last wave fills a part of the GPU",
    "depthwise": "depthwise convolutions",
    "grouped": "convolutions in groups",
    "patches": "windows that do not overlap",
    "few-channels": "few channels",
    "channels-first": "channels first (NCHW)",
    "odd-channels": "odd numbers of channels",
    "transposed": "transposed convolutions",
    "dilated": "dilated windows",
    "uneven-window": "uneven windows",
    "wide-numbers": "32 bits or more",
    "mask": "a mask",
    "bias": "a bias of each head's own",
    "head-size": "a head's size that kernels pad",
    "dropout": "dropout in attention",
    "one-query": "few queries",
    "strided": "operands in different memory orders",
    "mixed-types": "operands of different types",
    "narrow-rows": "narrow rows",
    "narrow-sums": "sums of a few neighbours",
}
"""Words for the reasons that sizes tell."""

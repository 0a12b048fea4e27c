"""Division of a step's time in sentences: what kernels compute, what the CPU does meanwhile, copies, and what no finding holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor.report.figures import listed, per
from advisor.report.plain import clean, milliseconds, percent, size
from advisor.results.analysis import Analysis, Summary
from advisor.results.elsewhere import Elsewhere
from advisor.results.host_time import HostTime
from advisor.results.kernel_time import KernelTime

_FAMILY = 0.01
"""Of the kernels' time: a family of less is one of the others. Likewise of the time in which the GPU waits for the CPU."""
_MOST_PARTS, _LONGEST = 8, 48
"""Parts of that which are named at most, and characters of a name."""
_COPIED = 0.05
"""Part of the step from which on copies in one direction are named with their size."""
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
        copies(summary),
        lead_lost(summary),
        elsewhere(analysis.elsewhere),
    )
    yield from filter(None, told)


def kernel_time(summary: Summary) -> str:
    """Say what the kernels' time is made of: ``Kernels, 62.7 ms a step: matrix products 29.4 ms (46.9 %), softmax ...``."""
    total = sum(part.ms for part in summary.kernel_time)
    parts = [part for part in summary.kernel_time if part.share >= _FAMILY]
    told = [
        f"{clean(part.family)} {milliseconds(part.ms)} ({percent(part.share)}{with_casts(part, total, ', ')})"
        for part in parts
    ]
    if not told:
        return ""
    if rest := total - sum(part.ms for part in parts):
        told.append(f"others {milliseconds(rest)}")
    mean = " in the mean" if summary.mean_apart else ""
    return f"Kernels, {milliseconds(total)} {per(summary)}{mean}: {', '.join(told)}."


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
    if part.kind != "function":
        return clean(part.where)[:_LONGEST]
    text, inside = clean(part.where.rpartition("/")[2]), f" ({clean(part.inside)})" if part.inside else ""
    return (text if len(text) <= _LONGEST else text.split(" ")[0]) + inside


def host_time(summary: Summary) -> str:
    """Say what the CPU does while the GPU waits for it: ``Waits for the CPU, 158 ms a step: backward 91.5 ms ...``."""
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
    return f"Waits for the CPU, {milliseconds(total)} {per(summary)}: {', '.join(told)}."


def copies(summary: Summary) -> str:
    """Say what is copied, where that takes much of the step: ``copies: 9.10 ms to the GPU (18.4 MiB, pageable, 2.1 GB/s)``."""
    whole = summary.steady_mean_ms or summary.whole_ms
    told = []
    for part in summary.copy_time:
        if part.ms < _COPIED * whole:
            continue
        facts = [size(part.bytes)] if part.bytes is not None else []
        facts += [part.host_memory] if part.host_memory else []
        facts += [f"{part.bytes / part.ms / 1e6:.3g} GB/s"] if part.bytes else []
        facts += (
            [f"{100 * part.hidden_ms / part.ms:.0f} % beside kernels"] if part.hidden_ms >= _BESIDE * part.ms else []
        )
        told.append(f"{milliseconds(part.ms)} {_TO[part.direction]}" + (f" ({', '.join(facts)})" if facts else ""))
    mean = " (mean step)" if summary.mean_apart else ""
    return f"copies{mean}: {'; '.join(told)}" if told else ""


def collectives(summary: Summary) -> str:
    """Say what of the collectives that nothing hides is waiting for other ranks, where that is known and they take much."""
    ms = summary.steady_causes.get("communication", 0.0) * summary.whole_ms
    if not summary.rank_wait_ms or ms < _EXPOSED * summary.whole_ms:
        return ""
    return exposed(ms, min(summary.rank_wait_ms, ms))


_EXPOSED = 0.1
"""Of the step: collectives of less are not divided."""


def exposed(ms: float, waited_ms: float) -> str:
    """Divide exposed collectives: ``exposed collectives 481 ms: 432 ms waiting for other ranks, 49.0 ms in transfer``."""
    told = f"{milliseconds(waited_ms)} waiting for other ranks, {milliseconds(ms - waited_ms)} in transfer"
    return f"exposed collectives {milliseconds(ms)}: {told}"


def lead_lost(summary: Summary) -> str:
    """Say which waits let the GPU catch up with the CPU, and how much idle time may come of it; nothing where that is little."""
    lost = summary.lead_lost
    if lost is None:
        return ""
    names = [
        f"in {clean(part.op or 'no operator')}{f' under {clean(part.around)}' if part.around else ''}"
        for part in lost.where[:2]
    ]
    waits = f"The CPU waits for {milliseconds(lost.wait_ms)} {per(summary)}"
    places = [f"{milliseconds(part.ms)} {name}" for part, name in zip(lost.where, names, strict=False)]
    told = f"{waits} while the GPU works ({listed(places)})"
    if len(names) == 1:
        told = f"{waits} {names[0]} while the GPU works"
    return f"{told}: launches behind it are late, and leave the GPU idle for up to {milliseconds(lost.idle_ms)}."


def elsewhere(parts: Sequence[Elsewhere], *, brief: bool = False) -> str:
    """Say where time lies without a finding: ``In no finding: compute, 8.03 ms in aten::mm; sync, 4.7 ms in aten::item.``

    Where *brief*, nothing is said of kernels whose limit is not known.
    """
    by_cause: dict[str, list[str]] = {}
    for part in parts:
        reached = "" if brief and part.of_reachable is None else _reached(part)
        by_cause.setdefault(part.cause, []).append(f"{milliseconds(part.ms)} in {clean(part.where)}{reached}")
    told = [f"{cause.replace('_', ' ')}, {listed(places)}" for cause, places in by_cause.items()]
    return f"In no finding: {'; '.join(told)}." if told else ""


def _reached(part: Elsewhere) -> str:
    """Say how near some kernels are to what their device reaches, or why nobody knows."""
    if part.of_reachable is None:
        return f" (limit not known: {clean(part.unknown)})" if part.unknown else ""
    low = max(round(100 * part.of_reachable), 1)
    high = round(100 * (part.most_of_reachable or 0.0))
    reached = f"{low} to {high}" if high > low * _ALIKE else f"{low}"
    why = f": {REASONS.get(part.reason, part.reason)}" if part.reason else ""
    return f" (at {reached} % of what this GPU reaches{why})"


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

"""The line that says how far a step is from what the hardware can do, and what else would hold it then."""

from __future__ import annotations

from advisor.report import figures
from advisor.report.plain import clean, in_one_unit
from advisor.report.savings import duration, share
from advisor.results.analysis import Analysis, Summary
from advisor.results.headline import Headline

_NEAR = 0.8
"""Of what the device reaches, and of the step, from which on kernels that fill it are near their limit."""
_ALL_KNOWN = 0.9
"""Of the kernels' time whose limits are known, from which on nothing is said of the rest."""
NOTHING_STEADY = ("start-up only", "capture only", "empty")
"""Kinds of a headline of which no step is shorter or longer."""
_CPU, _RANKS = "the CPU", "other ranks"
_HOLDERS = {
    "host": _CPU, "operator": _CPU, "loader": "the loader", "communication": "collectives", "copy": "copies",
    "blocking_copy": "copies", "allocator": "memory allocation", "gc": "garbage collection", "compile": "compilation",
    "profiler": "the profiler", "other_device": "another GPU",
}  # fmt: skip
"""Causes that limit a step which faster kernels leave as it is."""


def distance_of(analysis: Analysis) -> str:
    """Return how far the step of an analysis is from what the device can do."""
    features, precision = analysis.trace.features, analysis.program.precision if analysis.program else None
    slowed = features.stacks and not features.stacks_apart
    told = limit(analysis.summary, stacks=slowed, headline=analysis.headline, precision=precision)
    return told or _unmodelled(analysis)


def _unmodelled(analysis: Analysis) -> str:
    """Say why the limits of most kernels are not known, where no place without a finding says it.

    Without shapes it is a matter of the recording, which has remarks of its own.
    """
    summary, kind = analysis.summary, analysis.headline.kind if analysis.headline is not None else ""
    if (
        not summary.unmodelled
        or not analysis.trace.features.shapes
        or kind in NOTHING_STEADY
        or figures.modelled(summary)
    ):
        return ""
    first = summary.unmodelled[0]
    if first.ms < _UNTOLD * summary.priced_ms or any(part.unknown == first.reason for part in analysis.elsewhere):
        return ""
    known, reason = share(summary.modelled_share or 0.0), clean(first.reason)
    if known == share(0.0):
        return f"Limits of kernels are not known: {reason}"
    return f"Limits are known for {known} % of kernel time, and not for {duration(first.ms)}: {reason}"


_UNTOLD = 0.1
"""Of the step: kernels of less may go without a limit and without a word."""


def limit(
    summary: Summary, *, stacks: bool = False, headline: Headline | None = None, precision: str | None = None
) -> str:
    """Return how far the step is from what the device can do; nothing where too little of its kernels' work is known.

    What it can do is that of its *precision*: where a shorter one may be had, the name of it is said.

    *stacks* says that recording them slowed the host down: then a step that faster kernels leave as it is may be the profiler's.
    Of a recording in which nothing is steady, as *headline* says, there is no step to shorten.
    """
    if not figures.modelled(summary) or summary.limit_ms is None or summary.reachable_ms is None:
        return ""
    if headline is not None and headline.kind in NOTHING_STEADY:
        return ""
    mfu = f", MFU {share(summary.mfu)} %" if summary.mfu is not None and summary.mfu >= figures.LEAST_MFU else ""
    at = f" at {precision}" if precision in _LONG else ""
    known = summary.modelled_share or 0.0
    if known < _ALL_KNOWN:
        mfu = f" (limits are known for {share(known)} % of kernel time){mfu}"
    causes = summary.steady_causes or summary.causes
    reached = summary.kernel_efficiency or 0.0
    if reached >= _NEAR and causes.get("compute", 0.0) >= _NEAR and known >= _ALL_KNOWN:
        most = duration(max(summary.priced_ms - summary.limit_ms, 0.0))
        return f"Kernels are at {share(reached)} % of what this GPU reaches{at}: at its limit they return at most {most}{mfu}"
    if figures.no_shorter(summary):
        return _no_faster(summary, _holder(summary), stacks=stacks and summary.unprofiled_ms is None) + mfu
    return _faster(summary, _holder(summary), at) + mfu


_LONG = frozenset(("fp64", "fp32"))
"""Formats of numbers in which this GPU, or another, is much slower than in a shorter one."""
_BUSY = 0.75
"""Part of the step in which the device computes, from which on it is the kernels that take the step's time."""


def _no_faster(summary: Summary, holds: str, *, stacks: bool) -> str:
    """Say what limits a step that faster kernels leave as it is."""
    if holds == _RANKS:
        return f"Faster kernels would hardly shorten this rank's step: it waits for {_RANKS}"
    if stacks and (summary.steady_causes or summary.causes).get("compute", 0.0) >= _BUSY:
        # The device hardly waits: that launches would take as long is the recording's doing, and no advice.
        most = duration(max(summary.priced_ms - (summary.reachable_ms or summary.priced_ms), 0.0))
        return f"Faster kernels alone return at most {most} as recorded: stacks made the CPU as slow as the GPU"
    alone = f"Faster kernels alone would not shorten the {'step' if summary.step_ms else 'window'}"
    if stacks:
        limits = f"{holds} and {_CPU} limit" if holds not in ("", _CPU) else f"{_CPU} limits"
        return f"{alone}: {limits} it (stacks were recorded, which slows the CPU)"
    return alone + (f": {_limits(holds)} it" if holds else "")


def _faster(summary: Summary, holds: str, at: str) -> str:
    """Say what faster kernels leave of the step, and what limits it then, where it is no matter how fast they are."""
    (first, least, most), unit = in_one_unit(summary.priced_ms, summary.limit_ms or 0.0, summary.reachable_ms or 0.0)
    if least != most:
        return f"{_AS_FAST}{at}: {first} → {most} {unit} ({least} {unit} at its theoretical peak)"
    then = f", then {_limits(holds)} the {'step' if summary.step_ms else 'window'}" if holds else ""
    return f"{_AS_FAST}{at}: {first} → {least} {unit}{then}"


_AS_FAST = "With today's kernels as fast as the GPU can run them"


def _limits(holds: str) -> str:
    """Return what limits a step, with its verb."""
    who = f"waiting for {_RANKS}" if holds == _RANKS else holds
    return f"{who} limit{'s' if who.startswith('waiting') or not who.endswith('s') else ''}"


def _holder(summary: Summary) -> str:
    """Name what limits the step beside kernels: the largest cause that is none of them; nothing where that is no answer."""
    causes = summary.unprofiled_causes or summary.steady_causes or summary.causes
    rest = {name: part for name, part in causes.items() if name in _HOLDERS}
    most = max(rest, key=lambda name: rest[name], default="")
    if most == "communication" and 2 * (summary.rank_wait_ms or 0.0) >= rest[most] * summary.whole_ms:
        return _RANKS
    return _HOLDERS.get(most, "") if rest.get(most) else ""

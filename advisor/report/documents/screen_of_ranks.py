"""One screen of several ranks: what they wait for, and what is to be done on most of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from advisor.counting import counted
from advisor.report import blocks as doc
from advisor.report import figures, step_time
from advisor.report.documents.screen import LINES_OF_RANKS, next_line
from advisor.report.entries import Entry, entry, most_lines, page
from advisor.report.lines import DOT, Line, wrapped
from advisor.report.plain import clean, columns, wrap
from advisor.report.savings import MOST, duration, durations, leading, saving
from advisor.report.time_lines import KERNELS, SHOWN, in_a_line, kernels_lines
from advisor.results.analysis import Analysis, Finding
from advisor.results.kernel_time import KernelTime
from advisor.results.ranks import Across
from advisor.results.several import Several


def several(document: Several, width: int) -> Iterator[doc.Block]:
    """Yield the screen of several traces: what all ranks show together comes first, then a line a trace."""
    many, across = document.traces, document.across
    head = _several_title(document, width)
    most = most_lines(LINES_OF_RANKS, width)
    entries: list[Entry] = []
    if across is not None:
        entries = [
            entry(finding, index, width, saving(finding, across.findings))
            for index, finding in enumerate(across.findings[:MOST], 1)
            if finding.severity != "note"
        ]
    table = list(_each(many, across, width, most // 2 if entries else most - len(head) - 4))
    lead: list[Line] = [("Across the ranks:",)] if entries else []
    foot = [*table, *next_line(False, width)]
    yield from page(head, lead, entries, foot, most)


def _several_title(document: Several, width: int) -> list[Line]:
    many, across = document.traces, document.across
    count = counted(len(many), "trace") if across is None else f"{counted(len(across.ranks), 'rank')} of one run"
    if across is not None and across.world_size and across.world_size != len(across.ranks):
        count = f"{len(across.ranks):,} of the {across.world_size:,} ranks of one run"
    steps = [figures.whole_ms(analysis.summary) for analysis in many]
    unit = "step" if all(analysis.summary.step_ms for analysis in many) else "window"
    middles = [analysis.summary.step_ms.median for analysis in many if analysis.summary.step_ms]
    uneven = unit == "step" and any(figures.uneven(analysis.summary) for analysis in many)
    times = durations(min(steps), max(steps))
    if uneven:
        unit, times = "mean step", f"{times} (median {durations(min(middles), max(middles))})"
    names = sorted({name for analysis in many for name in figures.devices(analysis)})
    lines = wrapped(DOT.join([count, f"{unit} {times}", *names[:2]]), width, "strong")
    if across is not None and (waits := figures.waits(across)):
        lines += wrapped(waits, width)
    return lines + (_mean_rank(many, across, width) if across is not None else [])


def _mean_rank(many: Sequence[Analysis], across: Across, width: int) -> list[Line]:
    """Return where the time of all ranks goes in the mean: by cause, of collectives what is waited for, and kernels."""
    summaries, whole, causes = [analysis.summary for analysis in many], 0.0, dict[str, float]()
    families: dict[str, float] = {}
    for summary in summaries:
        whole += summary.whole_ms / len(summaries)
        for cause, part in (summary.steady_causes or summary.causes).items():
            causes[cause] = causes.get(cause, 0.0) + part * summary.whole_ms / len(summaries)
        for kernels in summary.kernel_time:
            families[kernels.family] = families.get(kernels.family, 0.0) + kernels.ms / len(summaries)
    if not whole:
        return []
    shown = [
        (cause.replace("_", " "), 100 * ms / whole) for cause, ms in sorted(causes.items(), key=lambda one: -one[1])
    ]
    lines: list[Line] = [
        (in_a_line(f"mean of the ranks {duration(whole)}: ", [one for one in shown if one[1] >= SHOWN], width),)
    ]
    exposed, shares = causes.get("communication", 0.0), [row.wait_share for row in across.ranks]
    known = [share for share in shares if share is not None]
    if exposed >= KERNELS * whole and len(known) == len(shares):
        waited = min(whole * sum(known) / len(known), exposed)
        lines += wrapped(step_time.exposed(exposed, waited), width)
    total = max(sum(families.values()), 1e-9)
    ordered = sorted(families.items(), key=lambda one: -one[1])
    mean = [KernelTime(family=family, ms=ms, share=ms / total) for family, ms in ordered]
    return lines + kernels_lines(msgspec.structs.replace(summaries[0], kernel_time=mean), width)


def _each(many: Sequence[Analysis], across: Across | None, width: int, most: int) -> Iterator[Line]:
    """Yield a line a trace, in their order: its time, and what leads its own report; of a few traces their headlines."""
    if across is None and sum(map(len, told := [_told(analysis, width) for analysis in many])) <= most:
        yield from (line for lines in told for line in lines)
        return
    if across is not None:
        yield from _ranks(many, across, width, most)
        return
    shown = list(zip([analysis.trace.path for analysis in many], many, strict=True))[:most]
    wide = max((columns(clean(name)) for name, _ in shown), default=0)
    yield ("Each trace:",)
    for name, analysis in shown:
        time = duration(figures.whole_ms(analysis.summary))
        lead = next(iter(leading(analysis.findings)), None)
        first = "no findings" if lead is None else f"{lead.rule} {saving(lead, analysis.findings, analysis.summary)}"
        label = clean(name) + " " * (min(wide, 40) - columns(clean(name)))
        line = f"  {label}  {time:>8}  {first}"
        if columns(line) <= width:
            yield (line,)
        elif columns(clean(name)) > 40:
            yield (clean(name),)
            yield from ((f"    {time:>8}  {text}",) for text in wrap(first, width - 14))
        else:
            yield (f"  {label}  {time:>8}  {'no findings' if lead is None else lead.rule}",)
    if len(many) > len(shown):
        yield (f"  and {len(many) - len(shown):,} more: -v",)


def _ranks(many: Sequence[Analysis], across: Across, width: int, most: int) -> Iterator[Line]:
    """Yield a line a rank, in their order, under the title of its first finding, which is the same for many."""
    leads = [next(iter(leading(analysis.findings)), None) for analysis in many]
    titles = ["No findings" if lead is None else clean(lead.title) for lead in leads]
    theirs = any(finding.saving is not None for finding in across.findings) and any(
        lead is not None and lead.late_ms for lead in leads
    )
    head = "Each rank by itself, its first finding"
    yield (f"{head}, of the same time as above, not more:" if theirs else f"{head}:",)
    numbers = {row.trace: row.rank for row in across.ranks}
    names = [f"rank {numbers[at]}" if at in numbers else clean(one.trace.path) for at, one in enumerate(many)]
    left, shown = most, 0
    for title in dict.fromkeys(titles):
        if left < 2:
            break
        heading = wrap(title, width - 2)
        yield from ((f"  {text}",) for text in heading)
        left -= len(heading)
        rows = [at for at, other in enumerate(titles) if other == title][: max(left, 1)]
        for at in rows:
            yield (_rank(names[at], many[at], leads[at], width),)
        left, shown = left - len(rows), shown + len(rows)
    if len(many) > shown:
        yield (f"  and {len(many) - shown:,} more: -v",)


def _rank(name: str, analysis: Analysis, lead: Finding | None, width: int) -> str:
    """Return the line of a rank under a title: its time, and what the finding is worth where that fits."""
    line = f"    {name:<7} {duration(figures.whole_ms(analysis.summary)):>8}"
    full = line if lead is None else f"{line}  {saving(lead, analysis.findings, analysis.summary)}"
    return full if columns(full) <= width else line


def _told(analysis: Analysis, width: int) -> list[Line]:
    headline = analysis.headline.text if analysis.headline is not None else figures.span(analysis.summary)
    return [(doc.Span(analysis.trace.path),), *(("  ", *line) for line in wrapped(headline, width - 2))]

"""The report of one trace: figures, causes, findings with their evidence and fixes, the plan, the profile, the rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from advisor.privacy import file_names
from advisor.report import blocks as doc
from advisor.report import figures, holders, phases, step_time
from advisor.report.causes import breakdown, on_cpu
from advisor.report.distances import distances, returned
from advisor.report.documents import screen
from advisor.report.plain import milliseconds, number, percent, size
from advisor.report.table import ABSENT, evidence
from advisor.results.analysis import Analysis, Finding, PlanStep, QualityNote, RuleFailure, Summary

PLACES = 5
ORDER = (
    "In the order in which to fix them: each returns most beside those before it, weighed by confidence. "
    "Severity is the share of the step that it returns, never above that of the finding before: a larger batch, which changes the "
    "training, comes last."
)
# Headline figures that are too long for a column.
_WORDS = ("peak memory", "on the CPU")


def blocks(analysis: Analysis, detail: doc.Detail, name: str = "") -> Iterator[doc.Block]:
    """Yield the whole report; a headline and a line a finding where the least is asked for.

    *name* tells the trace from others; a terminal has its path as it was given.
    """
    if detail.screen:
        yield from screen.one(analysis, detail.width)
        return
    summary = analysis.summary
    yield doc.Heading(doc.Span(_name(analysis, detail, name), "code"), 1, " · ".join(figures.circumstances(analysis)))
    yield from opening(analysis)
    if detail.quiet:
        yield from _quiet(analysis)
        return
    yield from headline(analysis)
    yield from causes(summary, detail)
    yield from where(analysis)
    real = [finding for finding in analysis.findings if finding.severity != "note"]
    shown = [finding for finding in analysis.findings if finding.after is None] if detail.folds else real
    rest = [finding for finding in analysis.findings if finding not in shown]
    planned = [*plan(analysis.plan), *_what_if(analysis.what_if)]
    yield doc.Heading(figures.tally(analysis.findings) + (", most valuable first" if real else ""))
    yield from _remark(analysis)
    if len(real) > 1:
        yield doc.Paragraph(ORDER)
    if not analysis.findings and analysis.verdicts.not_run:
        yield doc.Paragraph(figures.quiet(analysis.verdicts))
    if detail.folds:
        yield from (short(analysis.findings) if analysis.findings else [])
        yield from planned
    yield from findings(shown, summary, detail, analysis.findings)
    if rest:
        yield from _notes_in_short(rest, analysis.findings, detail)
    if not detail.folds:
        yield from planned
    yield from distance(summary)
    yield from exchanges(summary)
    yield from memory(analysis)
    yield from notes(analysis.quality, "Quality of this profile")
    yield doc.Heading(f"Rules: {figures.counts(analysis)}")
    if items := list(_rules(analysis, detail)):
        yield doc.Items(items)


def where(analysis: Analysis) -> Iterator[doc.Block]:
    """Yield what the kernels' time is made of, what the GPU waits for, the phases, and what lies in no finding."""
    if divided := step_time.kernel_time(analysis.summary):
        yield doc.Paragraph(divided)
    if waiting := step_time.host_time(analysis.summary):
        yield doc.Paragraph(waiting)
    if parted := step_time.models(analysis.summary):
        yield doc.Paragraph(parted)
    if copied := step_time.copies(analysis.summary):
        yield doc.Paragraph(f"{copied[0].upper()}{copied[1:]}.")
    yield from phases.table(analysis.phases)
    if late := step_time.lead_lost(analysis.summary):
        yield doc.Paragraph(late)
    if gap := step_time.recurring_gap(analysis.summary):
        yield doc.Paragraph(f"{gap[0].upper()}{gap[1:]}.")
    if unsaid := step_time.elsewhere(analysis.elsewhere):
        yield doc.Paragraph(unsaid)


def _name(analysis: Analysis, detail: doc.Detail, name: str) -> str:
    path = analysis.trace.path
    return name or (file_names([path])[0] if detail.folds else path)


def opening(analysis: Analysis) -> Iterator[doc.Block]:
    """Yield the headline; nothing for an older analysis without one."""
    if analysis.headline is not None:
        yield doc.Paragraph(doc.Span(analysis.headline.text))


def _quiet(analysis: Analysis) -> Iterator[doc.Block]:
    summary, prediction = analysis.summary, analysis.what_if
    device = f"GPU busy {percent(summary.gpu_busy_share)} · peak memory {figures.memory(summary)}"
    yield doc.Paragraph(f"{figures.span(summary)} · {breakdown(summary) if on_cpu(summary) else device}", wrap=False)
    for doubt in figures.doubts(analysis.quality):
        codes = ", ".join(note.code for note in doubt.notes)
        yield doc.Paragraph(f"{doubt.name.lower()}: {codes}; {doubt.meaning}", wrap=False)
    yield from lines(analysis.findings)
    if prediction is not None:
        yield doc.Paragraph(f"What if: {', '.join(prediction.rules)}: {_then(prediction)}", wrap=False)


def lines(findings: Sequence[Finding]) -> Iterator[doc.Block]:
    """Yield a line a finding."""
    for index, finding in enumerate(findings, 1):
        gain = figures.gained_share(finding, findings)
        level = doc.Span(f"{finding.severity:6}", finding.severity)
        yield doc.Paragraph((f"{index:>2}. ", level, f"  {gain:16}  {finding.rule}: {finding.title}"), wrap=False)
    if not findings:
        yield doc.Paragraph("no findings")


def headline(analysis: Analysis) -> Iterator[doc.Block]:
    """Yield the figures at the head, what is not recorded, and what reading lost."""
    every = figures.headline(analysis.summary)
    present = [(figure.name, figure.text, figure.hint) for figure in every if figure.text is not None]
    rows = [(name, doc.Span(text), doc.Span(hint, "dim")) for name, text, hint in present if name not in _WORDS]
    yield doc.Table(("figure", "value", "meaning"), rows, "|>~", silent=True)
    facts: list[tuple[str, doc.Text]] = [
        (name, (doc.Span(text), f" {hint}" if hint else "")) for name, text, hint in present if name in _WORDS
    ]
    if missing := [figure.name for figure in every if figure.text is None]:
        facts.append(("not recorded", ", ".join(missing)))
    facts += [
        (doubt.name, (doc.Span(f"{doubt.meaning}."), f" {doubt.messages}."))
        for doubt in figures.doubts(analysis.quality)
    ]
    if facts:
        yield doc.Facts(facts, room=20)


def causes(summary: Summary, detail: doc.Detail) -> Iterator[doc.Block]:
    """Yield the causes of the step's time, as a table."""
    total_ms = figures.whole_ms(summary)
    yield doc.Heading(f"{figures.causes_title(summary)} ({figures.whose_time(summary)})")
    parts = figures.causes(summary)
    if not parts:
        yield doc.Paragraph("not recorded")
        return
    rows: list[tuple[doc.Text, ...]] = [
        (
            part.cause.replace("_", " "),
            *([doc.Bar(part.share, "fair" if part.meaning.startswith("idle") else "good")] if detail.bars else []),
            milliseconds(part.ms),
            f"{part.percent:.1f} %",
            doc.Span(part.meaning.removeprefix("idle: ") if summary.device is None else part.meaning, "dim"),
        )
        for part in parts
    ]
    total = sum(part.share for part in parts) * total_ms
    blank = [""] * detail.bars
    rows.append(("together", *blank, milliseconds(total), f"{figures.tenths(parts)} %", ""))
    yield doc.Table(("cause", *blank, "time", "share", "meaning"), rows, "<" + "|" * len(blank) + ">>~", silent=True)
    if left_out := figures.not_steady(summary):
        yield doc.Paragraph(left_out)


def memory(analysis: Analysis) -> Iterator[doc.Block]:
    """Yield who holds the peak of memory, where a memory snapshot says it."""
    peak = analysis.memory_peak
    if peak is None:
        return
    yield doc.Heading(holders.TITLE)
    yield doc.Paragraph(holders.moment(peak))
    rows: list[tuple[doc.Text, ...]] = [(doc.Span(place, "code"), *rest) for place, *rest in holders.rows(peak)]
    yield doc.Table(("place", "size", "share", "allocations", "operator"), rows, "~>>>|", silent=True)


def distance(summary: Summary) -> Iterator[doc.Block]:
    """Yield what lies between kernels and what the device can do, by operator, module and line, where most work is known."""
    groups = distances(summary)
    if not groups:
        return
    yield doc.Heading("Distance from the hardware's limit")
    if why := returned(summary):
        yield doc.Paragraph(why)
    styles: dict[str, doc.Style] = {"operator": "name", "module": "name", "line": "path"}
    for group in groups:
        rows: list[tuple[doc.Text, ...]] = [
            (
                doc.Span(text, styles[group.name]),
                milliseconds(part.ms),
                milliseconds(part.limit_ms),
                milliseconds(part.reachable_ms),
                percent(part.reachable_ms / part.ms),
                milliseconds(part.most_ms),
            )
            for _, text, part in group.parts
        ]
        head = (group.name, f"time {figures.per(summary)}", "limit", "reachable", "of reachable", "returns at most")
        yield doc.Table(head, rows, ("|" if group.name == "line" else "<") + ">>>>>")  # a place is whole, to be opened


def exchanges(summary: Summary) -> Iterator[doc.Block]:
    """Yield the collectives against the link, by kind and size of group."""
    if not summary.exchanges:
        return
    yield doc.Heading("Collectives against the link")
    rows: list[tuple[doc.Text, ...]] = [
        (
            f"{part.kind} over {part.group_size}",
            f"{part.count:,}",
            size(part.median_bytes),
            number(part.bus_gbps),
            number(part.best_gbps),
            ABSENT if part.link_gbps is None else number(part.link_gbps),
            ABSENT if part.latency_us is None or part.fitted_gbps is None
            else f"{number(part.latency_us)} µs + bytes at {number(part.fitted_gbps)} GB/s",
            ABSENT if part.waited_share is None else percent(part.waited_share),
            part.limited_by or ABSENT,
        )
        for part in summary.exchanges
    ]  # fmt: skip
    head = ("collective", "n", "median", "bus GB/s", "best", "GPU links", "fit of the fastest", "waiting", "limited by")
    yield doc.Table(head, rows, "<>>>>><><")


def short(findings: Sequence[Finding]) -> Iterator[doc.Block]:
    """Yield the findings as a table: what to do first."""
    rows: list[tuple[doc.Text, ...]] = []
    for index, finding in enumerate(findings, 1):
        level = doc.Span(finding.severity, finding.severity)
        rows.append((str(index), level, finding.title, figures.gain(finding, findings), _first_place(finding)))
    yield doc.Table(("", "severity", "finding", "saves", "where"), rows, ">|~>|")


def _first_place(finding: Finding) -> doc.Text:
    place = next(iter(finding.where), None)
    text = place and figures.first_place(place)
    gpus = figures.gpus(finding)
    if not text:
        return gpus or ABSENT
    return (doc.Span(text, "path"), f", {gpus}") if gpus else doc.Span(text, "path")


def findings(
    findings: Sequence[Finding], summary: Summary | None, detail: doc.Detail, every: Sequence[Finding] = ()
) -> Iterator[doc.Block]:
    """Yield findings, each under its title; *summary* is None where they speak of many ranks.

    *every* holds them and those beside them that are shown elsewhere.
    """
    for index, finding in enumerate(findings, 1):
        yield from whole(finding, index, summary, detail, every or findings)


def whole(
    finding: Finding, number: int, summary: Summary | None, detail: doc.Detail, every: Sequence[Finding]
) -> Iterator[doc.Block]:
    """Yield one finding under its title; *every* holds it and those beside it."""
    level = doc.Span(f"{finding.severity.upper():6}", finding.severity)
    title = (f"{number:>2}. ", level, "  ", doc.Span(finding.title))
    price = doc.Span(figures.price(finding, summary, every))
    facts: list[tuple[str, doc.Text]] = [("saving", price), ("cost", figures.cost(finding, summary))]
    rule = doc.Paragraph((doc.Span(finding.rule, "code"), f" · {finding.confidence}"))
    yield doc.Fold(title, [rule, *_full(finding, facts, summary, detail)])


def _full(
    finding: Finding, facts: list[tuple[str, doc.Text]], summary: Summary | None, detail: doc.Detail
) -> Iterator[doc.Block]:
    fix, most = finding.fix, len(finding.where) if detail.verbosity > 0 else PLACES
    if finding.saving is not None:
        facts.append(("estimate", finding.saving.basis))
    places = [figures.describe(place) for place in finding.where[:most]]
    if len(finding.where) > most:
        places.append(f"and {len(finding.where) - most} more{detail.hint}")
    facts += doc.labelled("where", places)
    facts += doc.labelled("on", [figures.gpus(finding)] if finding.devices else [])
    settings = [(doc.Span(setting.as_run, "code"), figures.advice(setting)) for setting in finding.settings]
    facts += doc.labelled("run with", settings)
    yield doc.Facts(facts)
    table = evidence(finding.evidence, figures.extent(summary))
    if table.head:
        yield table
    effort = f" ({fix.effort})" if fix.effort else ""
    yield doc.Facts([*doc.prose("why", finding.why), ("fix", fix.title + effort)])
    for label, code, style in (("before", fix.before, "bad"), ("after", fix.after, "good")):
        if code.strip():
            yield doc.Code(code, label, cast(doc.Style, style), "python")
    facts = [*doc.prose("caveat", fix.caveat), *doc.prose("verify", fix.verify)]
    facts += doc.prose("more", finding.more)
    if detail.everything:
        facts += doc.labelled(
            "see", [doc.Span(reference.title, "link", reference.url) for reference in finding.references]
        )
    if facts:
        yield doc.Facts(facts)


def _notes_in_short(findings: Sequence[Finding], others: Sequence[Finding], detail: doc.Detail) -> Iterator[doc.Block]:
    yield doc.Heading("Noted")
    worth = [
        figures.nothing_left(finding, others)
        if finding.after is not None
        else percent(finding.cost_share)
        if finding.cost_ms
        else "unpriced"
        for finding in findings
    ]
    items = [f"{finding.title} ({finding.rule}, {price})" for finding, price in zip(findings, worth, strict=True)]
    yield doc.Items(items, [finding.fix.title for finding in findings] if detail.everything else ())


def plan(fixes: Sequence[PlanStep]) -> Iterator[doc.Block]:
    """Yield the plan as a table: each fix, and the step with it and those before it."""
    if fixes:
        yield doc.Heading("Fix plan")
        rows = [
            (str(index), step.title, figures.plan_step(step.step_ms_before, step.step_ms_after), figures.times(step))
            for index, step in enumerate(fixes, 1)
        ]
        yield doc.Table(("", "fix", "step", ""), rows, ">~<>", notes=[figures.plan_note(step) for step in fixes])


def _what_if(prediction: PlanStep | None) -> Iterator[doc.Block]:
    if prediction is not None:
        yield doc.Heading(f"What if: {', '.join(prediction.rules)}")
        yield doc.Paragraph(_then(prediction))


def _then(prediction: PlanStep) -> str:
    then = f"step {figures.plan_step(prediction.step_ms_before, prediction.step_ms_after)}, {figures.times(prediction)}"
    return then + ("; changes what is computed" if prediction.changes_training else "")


def _remark(analysis: Analysis) -> Iterator[doc.Block]:
    """Yield how to record what no finding can speak of yet."""
    note = figures.remark(analysis)
    if note is not None:
        yield doc.Items(
            [("First, the recording: ", note.message, " (", doc.Span(note.code, "code"), ")")], [note.advice]
        )
        if note.example is not None:
            yield doc.Code(note.example, "record", "good", "python")


def notes(quality: Sequence[QualityNote], heading: str) -> Iterator[doc.Block]:
    """Yield notes on the profile, each with its advice."""
    if quality:
        yield doc.Heading(heading)
        items = [(note.message, " (", doc.Span(note.code, "code"), ")") for note in quality]
        yield doc.Items(items, [note.advice for note in quality])


def failed(errors: Sequence[RuleFailure]) -> list[doc.Text]:
    """Return the rules that failed, an item each."""
    return [("failed: ", doc.Span(error.rule, "code"), f": {error.message}") for error in errors]


def _rules(analysis: Analysis, detail: doc.Detail) -> Iterator[doc.Text]:
    verdicts, verbose = analysis.verdicts, detail.verbosity > 0
    for group in figures.not_run(verdicts):
        rules = f" ({', '.join(group.rules)})" if verbose else ""
        yield f"{len(group.rules)} not run, {', '.join(group.needs)} missing: {group.how}{rules}"
    yield from failed(verdicts.error)
    if verbose:
        for label, names in (("noted on the profile", verdicts.noted), ("passed", verdicts.passes)):
            if names:
                yield f"{label}: {', '.join(names)}"
        alike: dict[str, list[str]] = {}
        for verdict in verdicts.not_applicable:
            alike.setdefault(verdict.because, []).append(verdict.rule)
        yield from (f"not applicable: {because}: {', '.join(names)}" for because, names in alike.items())

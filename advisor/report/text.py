"""``-f text``: what a person reads in ten minutes, first things first.

Every figure is one of the JSON or follows from it: milliseconds of a cause are its share times the median step.
GiB are powers of 1024. Text of the trace and of the rules is data and goes through ``plain.clean``.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from advisor.report import Options, ranks
from advisor.report.causes import on_cpu, spoken
from advisor.report.figures import (
    DAMAGE,
    advised,
    causes,
    circumstances,
    cost,
    counts,
    describe,
    headline,
    memory,
    not_run,
    numbered,
    over,
    plan_note,
    plan_step,
    price,
    span,
    whole_ms,
    whose_time,
)
from advisor.report.plain import clean, clean_lines, milliseconds, number, pad, percent
from advisor.report.table import align, evidence
from advisor.results.analysis import Analysis, Finding, QualityNote, Summary
from advisor.results.ranks import Across
from advisor.results.several import Several, analyses

FULL_FINDINGS = 8
PLACES = 5
BAR = 30

_SGR = {"bold": "1", "dim": "2", "red": "1;31", "yellow": "33", "green": "32", "cyan": "36", "magenta": "35"}
_SEVERITY = {"high": "red", "medium": "yellow", "low": "cyan", "note": "dim"}


class Page:
    """Lines in the making, of one width and with or without colour."""

    def __init__(self, options: Options) -> None:
        self.lines: list[str] = []
        self.width = options.width
        self.color = options.color
        self.verbosity = options.verbosity

    def paint(self, text: str, style: str) -> str:
        """*text* in a colour, where colours are wanted."""
        return f"\x1b[{_SGR[style]}m{text}\x1b[0m" if self.color and text else text

    def line(self, text: str = "") -> None:
        self.lines.append(text)

    def heading(self, text: str) -> None:
        self.lines += ["", self.paint(text, "bold")]

    def labelled(self, label: str, text: str, indent: int = 4, room: int = 9) -> None:
        """*text* as one paragraph, wrapped beside its *label*."""
        first, rest = " " * indent + self.paint(pad(label, room), "dim"), " " * (indent + room)
        width = max(20, self.width - indent - room)
        for part in textwrap.wrap(" ".join(clean(text).split()), width, break_long_words=False, break_on_hyphens=False):
            self.line(first + part)
            first = rest

    def prose(self, label: str, text: str) -> None:
        """A rule's text of one or more paragraphs, parted by blank lines."""
        for paragraph in text.strip().split("\n\n"):
            if paragraph.strip():
                self.labelled(label, paragraph)
                label = ""


def render(document: Analysis | Several, options: Options) -> str:
    """The report as plain text, with ANSI colours only where ``options.color`` asks for them."""
    page = Page(options)
    many = analyses(document)
    told = ranks.at_length(many, document.across if isinstance(document, Several) else None)
    listed = range(len(many)) if page.verbosity > 0 else told
    if isinstance(document, Several) and len(many) > 1 and page.verbosity >= 0:
        _overview(page, [many[index] for index in listed], len(many))
    for index, analysis in ((index, many[index]) for index in listed):
        if isinstance(document, Several) and page.verbosity >= 0:
            page.lines += ["", page.paint("═" * page.width, "dim")]
        elif index:
            page.line()
        _one(page, analysis)
    if len(listed) < len(many):
        page.line()
        page.labelled("", f"{ranks.untold(many, told)} -v shows each.", indent=0, room=0)
    if isinstance(document, Several) and document.across:
        _across(page, document.across)
    return "\n".join(page.lines).lstrip("\n") + "\n"


def _across(page: Page, across: Across) -> None:
    if page.verbosity < 0:
        page.lines += ["", page.paint(ranks.heading(across), "bold")]
        _short(page, across.findings)
        return
    page.lines += ["", page.paint("═" * page.width, "dim"), page.paint(ranks.heading(across), "bold"), ""]
    header, *rows = ranks.table(across, page.width - 2, every=page.verbosity > 0)
    page.lines += ["  " + page.paint(header, "dim"), *("  " + row for row in rows)]
    if len(rows) < len(across.ranks):
        page.line(page.paint(f"  {ranks.rest(across)} (-v)", "dim"))
    page.labelled("", ranks.legend(across), indent=2, room=0)
    page.labelled("", ranks.clocks(across), indent=2, room=0)
    for section in ranks.sections(across):
        page.heading(f"  {section.title}")
        header, *rows = align(section.header, section.rows, section.right, page.width - 2)
        page.lines += ["  " + page.paint(header, "dim"), *("  " + row for row in rows)]
        if section.note:
            page.labelled("", section.note, indent=2, room=0)
    for index, finding in enumerate(across.findings, 1):
        _finding(page, index, finding, None, full=True)
    if not across.findings and across.verdicts.passes:
        page.line()
        page.labelled("", "No findings across the ranks.", indent=2, room=0)
    _notes(page, across.quality, "What is missing across the ranks")
    for failure in across.verdicts.error:
        page.labelled("-", f"failed: {failure.rule}: {failure.message}", indent=2, room=2)


def _one(page: Page, analysis: Analysis) -> None:
    page.line(page.paint(_title(analysis), "bold"))
    if page.verbosity < 0:
        _quiet(page, analysis)
        return
    page.line()
    _figures(page, analysis)
    _causes(page, analysis.summary)
    _findings(page, analysis)
    _plan(page, analysis)
    _what_if(page, analysis)
    _quality(page, analysis)
    _verdicts(page, analysis)


def _title(analysis: Analysis) -> str:
    return " · ".join([clean(analysis.trace.path), *circumstances(analysis)])


def _figures(page: Page, analysis: Analysis) -> None:
    _rows(page, [(figure.name, figure.text, figure.hint) for figure in headline(analysis.summary)])


def _rows(page: Page, rows: Sequence[tuple[str, str | None, str]]) -> None:
    """Figures with their names and what they mean; those that are absent in one line below."""
    present = [(name, figure, hint) for name, figure, hint in rows if figure is not None]
    words = ("peak memory", "on the CPU")
    wide = max((len(figure) for name, figure, _ in present if name not in words), default=0)
    for name, figure, hint in present:
        text = f"  {pad(name, 20)}{pad(figure, wide, right=name not in words)}"
        page.line((text + ("  " + page.paint(hint, "dim") if hint else "")).rstrip())
    if missing := [name for name, figure, _ in rows if figure is None]:
        page.labelled("not recorded", ", ".join(missing), indent=2, room=20)


def _bar(share: float) -> str:
    """A bar to the eighth of a column; whatever is there at all shows."""
    eighths = max(1, round(8 * BAR * share))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _causes(page: Page, summary: Summary) -> None:
    whole = whole_ms(summary)
    unit = "a step's" if summary.step_ms else "the window's"
    page.heading(f"Where {unit} {milliseconds(whole)} go ({whose_time(summary)})")
    parts = causes(summary)
    if not parts:
        page.line("  not recorded")
        return
    for part in parts:
        bar = page.paint(pad(_bar(part.share), BAR), "yellow" if part.meaning.startswith("idle") else "green")
        hint = part.meaning.removeprefix("idle: ") if summary.device is None else part.meaning
        figures = f"{number(part.ms):>8} ms {part.percent:>6.1f} %"
        page.line(f"  {pad(clean(part.cause), 14)}{bar}{figures}  {page.paint(hint, 'dim')}".rstrip())
    total, shown = sum(part.share for part in parts), sum(part.percent for part in parts)
    page.line(f"  {pad('together', 14)}{' ' * BAR}{number(total * whole):>8} ms {shown:>6.1f} %")


def _findings(page: Page, analysis: Analysis) -> None:
    real = [finding for finding in analysis.findings if finding.severity != "note"]
    notes = [finding for finding in analysis.findings if finding.severity == "note"]
    if not real:
        page.heading(numbered(analysis.findings))
        if not notes and analysis.verdicts.not_run:
            page.line("  No rule that could run has a finding; what could not run is named below.")
    else:
        page.heading(f"{numbered(analysis.findings)}, first things first")
        if len(real) > 1:
            page.labelled("", _ORDER, indent=2, room=0)
    full = len(real) if page.verbosity > 0 else FULL_FINDINGS
    for index, finding in enumerate(real, 1):
        _finding(page, index, finding, analysis.summary, real, full=index <= full)
    if len(real) > full:
        page.line(page.paint(f"\n    From number {full + 1} on in short; -v shows them whole.", "dim"))
    if notes:
        page.heading("Noted")
        for finding in notes:
            worth = percent(finding.cost_share) if finding.cost_ms else "unpriced"
            page.labelled("-", f"{finding.title} ({finding.rule}, {worth})", indent=2, room=2)
            if page.verbosity > 0 and finding.fix.title:
                page.labelled("→", finding.fix.title, indent=4, room=2)


def _finding(
    page: Page,
    index: int,
    finding: Finding,
    summary: Summary | None,
    others: Sequence[Finding] = (),
    *,
    full: bool,
) -> None:
    severity = page.paint(pad(finding.severity.upper(), 6), _SEVERITY[finding.severity])
    page.line()
    page.line(f"{index:>2}. {severity}  {page.paint(clean(finding.title), 'bold')}")
    page.line(f"    {page.paint(clean(finding.rule), 'cyan')} · {finding.confidence}")
    page.labelled("price", price(finding, summary, others))
    page.labelled("cost", cost(finding, summary))
    if finding.saving is not None and full:
        page.labelled("got by", finding.saving.basis)
    shown = finding.where if page.verbosity > 0 else finding.where[: PLACES if full else 1]
    for number_, place in enumerate(shown):
        page.labelled("" if number_ else "where", describe(place))
    if len(shown) < len(finding.where) and full:
        page.labelled("", f"and {len(finding.where) - len(shown)} more (-v)")
    if not full:
        page.labelled("fix", finding.fix.title)
        return
    for number_, one in enumerate(finding.settings):
        page.labelled("" if number_ else "run with", one.as_run + advised(one))
    if finding.evidence.rows:
        page.line()
        header, *rows = evidence(finding.evidence.columns, finding.evidence.rows, page.width - 4)
        page.lines += ["    " + page.paint(header, "dim"), *("    " + row for row in rows)]
        if extent := over(summary, "counts and sums over"):
            page.line("    " + page.paint(f"({extent.strip()})", "dim"))
        page.line()
    page.prose("why", finding.why)
    effort = f" ({finding.fix.effort})" if finding.fix.effort else ""
    page.labelled("fix", finding.fix.title + effort)
    _code(page, "before", finding.fix.before)
    _code(page, "after", finding.fix.after)
    page.prose("caveat", finding.fix.caveat)
    page.prose("verify", finding.fix.verify)
    if page.verbosity > 0:
        for reference in finding.references:
            page.labelled("see", f"{reference.title}: {reference.url}")


def _code(page: Page, label: str, code: str) -> None:
    if not code.strip():
        return
    page.line("    " + page.paint(label, "dim"))
    style = "red" if label == "before" else "green"
    page.lines += ["      " + page.paint(line, style) if line else "" for line in clean_lines(code)]


def _plan(page: Page, analysis: Analysis) -> None:
    if not analysis.plan:
        return
    page.heading("In this order")
    rows = []
    for index, step in enumerate(analysis.plan, 1):
        then = plan_step(step.step_ms_before, step.step_ms_after)
        rows.append([str(index), clean(step.title), then, f"{step.speedup:.2f}×"])
    lines = align(["", "fix", "step", ""], rows, [True, False, False, True], page.width - 2)
    page.lines.append("  " + lines[0])
    for line, step in zip(lines[1:], analysis.plan, strict=True):
        page.lines.append("  " + line)
        if note := plan_note(step):
            page.lines.append(page.paint(f"     {note}", "dim"))


_ORDER = (
    "In the order in which to fix them: each returns most beside those before it, weighed by confidence. "
    "Severity is the share of the time they own."
)


def _what_if(page: Page, analysis: Analysis) -> None:
    asked = analysis.what_if
    if asked is None:
        return
    rules = f"What if: {', '.join(clean(rule) for rule in asked.rules)}"
    then = f"step {plan_step(asked.step_ms_before, asked.step_ms_after)}, up to {asked.speedup:.2f}×"
    then += "; changes training" if asked.changes_training else ""
    if page.verbosity < 0:
        page.line(f"{rules}: {then}")
    else:
        page.heading(rules)
        page.line(f"  {then}")


def _quality(page: Page, analysis: Analysis) -> None:
    _notes(page, analysis.quality, "Quality of this profile")


def _notes(page: Page, notes: Sequence[QualityNote], heading: str) -> None:
    if not notes:
        return
    page.heading(heading)
    for note in notes:
        page.labelled("-", f"{note.message} ({note.code})", indent=2, room=2)
        if note.advice:
            page.labelled("→", note.advice, indent=4, room=2)


def _verdicts(page: Page, analysis: Analysis) -> None:
    verdicts = analysis.verdicts
    page.line()
    page.labelled("Rules", counts(analysis), indent=0)
    for group in not_run(verdicts):
        text = f"{len(group.rules)} not run, for want of {', '.join(group.needs)}: {group.how}"
        page.labelled("-", text, indent=2, room=2)
        if page.verbosity > 0:
            page.labelled("", ", ".join(group.rules), indent=4, room=0)
    for failure in verdicts.error:
        page.labelled("-", f"failed: {failure.rule}: {failure.message}", indent=2, room=2)
    if page.verbosity > 0:
        if verdicts.noted:
            page.labelled("-", "noted on the profile: " + ", ".join(verdicts.noted), indent=2, room=2)
        if verdicts.passes:
            page.labelled("-", "passed: " + ", ".join(verdicts.passes), indent=2, room=2)
        for item in verdicts.not_applicable:
            page.labelled("-", f"not applicable: {item.rule}: {item.because}", indent=2, room=2)


def _quiet(page: Page, analysis: Analysis) -> None:
    summary = analysis.summary
    device = f"GPU busy {percent(summary.gpu_busy_share)} · peak memory {memory(summary)}"
    page.line(f"{span(summary)} · {spoken(summary) if on_cpu(summary) else device}")
    if damage := [note.code for note in analysis.quality if note.code in DAMAGE]:
        page.line(f"incomplete: {', '.join(damage)}; figures speak of what is left")
    _short(page, analysis.findings)
    _what_if(page, analysis)


def _short(page: Page, findings: Sequence[Finding]) -> None:
    if not findings:
        page.line("no findings")
    for index, finding in enumerate(findings, 1):
        gain = f"up to {percent(finding.saving.high_share)}" if finding.saving else "unpriced"
        severity = page.paint(pad(finding.severity, 6), _SEVERITY[finding.severity])
        page.line(f"{index:>2}. {severity}  {pad(gain, 12)}  {clean(finding.rule)}: {clean(finding.title)}")


def _overview(page: Page, many: Sequence[Analysis], total: int) -> None:
    rows = []
    for analysis in many:
        summary = analysis.summary
        first = next((finding.rule for finding in analysis.findings), "no findings")
        rows.append([clean(analysis.trace.path), span(summary), percent(summary.gpu_busy_share), clean(first)])
    page.heading(f"{total:,} traces" + (f", of which {len(many)} are shown" if total > len(many) else ""))
    header, *lines = align(["trace", "time", "GPU busy", "first"], rows, [False, True, True, False], page.width - 2)
    page.lines += ["  " + page.paint(header, "dim"), *("  " + line for line in lines)]

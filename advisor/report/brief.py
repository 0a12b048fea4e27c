"""``-f brief``: what slows the program down, for a pipe or an agent: at most 2 kB, with what to ask next.

A headline, where the time goes, a line a finding (number, severity, rule, saving, place, fix), what was not recorded, and the
next command. What does not fit is left out from the end of the findings, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor.counting import counted
from advisor.report import Options, figures, limit_line, places, savings, time_lines
from advisor.report.plain import clean, clean_lines, shorten
from advisor.results.analysis import Analysis, Finding
from advisor.results.several import Several

MOST_BYTES = 2_000
_PATH = 160
"""Columns of a trace's path; of a longer one the middle is left out."""
_WIDE = 400
"""Columns of a line at most."""
_CAUSES = 160


def render(document: Analysis | Several, options: Options) -> str:
    """Render the brief of one trace, or of each of several in a few lines, those across ranks first."""
    del options
    return text(document, _command(document))


def text(document: Analysis | Several, following: str) -> str:
    """Return the brief; its last line names the next command, *following*."""
    last = f"next: {following}"
    return _several(document, last) if isinstance(document, Several) else _one(document, last)


def first(analysis: Analysis) -> int | None:
    """Return the number of the first finding that is listed, None where none is."""
    shown = savings.leading(analysis.findings)
    return _number(analysis, shown[0]) if shown else None


def _command(document: Analysis | Several) -> str:
    from shlex import quote

    if isinstance(document, Several):
        return "advisor analyze TRACE -f brief (one of them)"
    number = first(document)
    end = "-v" if number is None else f"--explain {number}"
    return f"advisor analyze {quote(clean(document.trace.path))} {end}"


def _one(analysis: Analysis, last: str) -> str:
    path = shorten(clean(analysis.trace.path), _PATH)
    shown = savings.leading(analysis.findings)
    head = [f"{path}: {' · '.join(figures.circumstances(analysis))}", *_state(analysis)]
    foot = [*_recorded(analysis), last]
    if not shown:
        return _joined([*head, "findings: none", *_remark(analysis), *foot])
    lead = savings.together(analysis)
    lead = lead[:1].lower() + lead[1:]
    for form in (_full, _placed, _short):
        entries = [form(finding, _number(analysis, finding), analysis.findings) for finding in shown]
        for count in range(len(entries), 0, -1):
            if form is not _short and count < min(len(entries), 3):
                break  # the shorter form shows more findings
            left = len(entries) - count
            body = ["findings:", *entries[:count], *([f"and {left} more"] if left else [])]
            whole = _joined([*head, *body, *([lead] if lead else []), *foot])
            if len(whole.encode()) <= MOST_BYTES:
                return whole
    return _joined([*head, f"findings: {len(shown)}", *foot])


def _joined(lines: Sequence[str]) -> str:
    """Join lines, whatever stands in them: a cause or a class of a trace of strangers, too."""
    return "".join(f"{shorten(clean(line), _WIDE)}\n" for line in lines)


def _number(analysis: Analysis, finding: Finding) -> int:
    return analysis.findings.index(finding) + 1


def _state(analysis: Analysis) -> Iterator[str]:
    """Yield the headline, where the time goes, how far from the device's limit, and what reading lost."""
    if analysis.headline is not None:
        yield analysis.headline.text
    if causes := time_lines.time_line(analysis.summary, _CAUSES):
        yield causes
    if distance := limit_line.distance_of(analysis):
        yield distance
    for doubt in figures.doubts(analysis.quality):
        yield f"{doubt.name.lower()}, {doubt.meaning}: {doubt.messages}"


def _remark(analysis: Analysis) -> Iterator[str]:
    """Yield how to record what no finding can speak of yet, and its code on one line where it is one."""
    note = figures.remark(analysis)
    if note is not None:
        title, code = note.advice.partition(". ")[0].rstrip("."), clean_lines(note.example or "")
        yield f"first, the recording ({note.code}): {title}" + (f": {code[0]}" if len(code) == 1 and code[0] else "")


def _recorded(analysis: Analysis) -> Iterator[str]:
    """Yield what the trace lacks, and how many rules could not be asked for want of it."""
    features = analysis.trace.features
    asked = [name for name in features.__struct_fields__ if name != "distributed"]  # a fact of the program
    absent = [name for name in asked if not getattr(features, name)]
    if analysis.summary.steps and "steps" in absent:
        absent.remove("steps")  # found without marks
    groups = figures.not_run(analysis.verdicts)
    rules = sum(len(group.rules) for group in groups)
    if absent:
        want = f"; {rules} rule{'s' * (rules > 1)} not run: {groups[0].how}" if groups else ""
        yield f"not recorded: {', '.join(absent)}{want}"
    if codes := [note.code for note in analysis.quality if note.code not in figures.TOLD]:
        yield f"about the recording: {', '.join(codes)}"


def _head(finding: Finding, number: int, others: Sequence[Finding]) -> str:
    return f"{number} {finding.severity.upper()} {finding.rule}: {savings.saving(finding, others)}"


def _full(finding: Finding, number: int, others: Sequence[Finding]) -> str:
    place = places.where(finding)
    at = f"; at {shorten(place, 120)}" if place else ""
    return f"{_head(finding, number, others)}; {finding.title}{at}; fix: {savings.words(finding)}"


def _placed(finding: Finding, number: int, others: Sequence[Finding]) -> str:
    place = places.where(finding)
    return _head(finding, number, others) + (f"; at {shorten(place, 100)}" if place else "")


def _short(finding: Finding, number: int, others: Sequence[Finding]) -> str:
    return _head(finding, number, others)


def _several(document: Several, last: str) -> str:
    """Return findings across ranks, then a line a trace, as many as fit."""
    across = document.across.findings if document.across is not None else []
    lines = [counted(len(document.traces), "trace") + (" of ranks of one run" if document.across is not None else "")]
    lines += [f"all ranks: {_full(finding, number, across)}" for number, finding in enumerate(across[:5], 1)]
    for analysis in document.traces:
        lead = next(iter(savings.leading(analysis.findings)), None)
        worth = "no findings" if lead is None else _short(lead, _number(analysis, lead), analysis.findings)
        lines.append(f"{shorten(clean(analysis.trace.path), 100)}: {figures.span(analysis.summary)}; {worth}")
    return _fitting(lines, last)


def _fitting(lines: list[str], last: str) -> str:
    for count in range(len(lines), 0, -1):
        left = len(lines) - count
        whole = _joined([*lines[:count], *([f"and {left} more"] if left else []), last])
        if len(whole.encode()) <= MOST_BYTES:
            return whole
    return _joined([last])

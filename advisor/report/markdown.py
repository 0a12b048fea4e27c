"""``-f markdown``: a report for a pull request or the summary of a job, of at most 60 kB.

Text of traces stands in code spans, where nothing of it is a link, a mention or markup; text of rules is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from advisor.report import Options, ranks
from advisor.report.figures import (
    DAMAGE,
    advised,
    causes,
    circumstances,
    cost,
    counts,
    headline,
    not_run,
    numbered,
    plan_step,
    price,
    span,
    user_frame,
    whole_ms,
    whose_time,
)
from advisor.report.html.embed import link
from advisor.report.plain import clean, clean_lines, milliseconds, number, percent, shorten
from advisor.report.table import evidence_cell, evidence_heading
from advisor.results.analysis import Analysis, Finding, QualityNote, Summary
from advisor.results.ranks import Across
from advisor.results.several import Several, analyses

MOST_BYTES = 60_000
"""A comment on GitHub holds 65,536 characters."""
PLACES = 5
LONGEST = 160
_ZERO = "\u200b"  # parts what would else be a mention or a link
_SIGNS = re.compile(r"[\\`*\[\]~|$]|(?<![^\W_])_|_(?![^\W_])")
_BLOCK = re.compile(r"^([-+#=]|\d+(?=[.)]))")
_LINKS = re.compile(r"(?<=:)(?=//)|(?<=\bwww)(?=\.)|(?<=@)|(?<=#)(?=\d)|(?<=\bGH-)(?=\d)", re.IGNORECASE)
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def render(document: Analysis | Several, _options: Options) -> str:
    """The report; what no longer fits is left out from the end, and that is said."""
    many = analyses(document)
    told = ranks.at_length(many, document.across if isinstance(document, Several) else None)
    blocks: list[str] = []
    if isinstance(document, Several):
        blocks += _overview([many[index] for index in told], len(many))
        if document.across:
            blocks += _across(document.across)
    for index in told:
        blocks += _one(many[index])
    if len(told) < len(many):
        blocks.append(plain(ranks.untold(many, told)))
    return _fitted(blocks)


def _fitted(blocks: Sequence[str]) -> str:
    """Blocks, parted by blank lines, as far as they fit: details give way to what is not folded."""
    left_out = "_The rest is left out: a comment holds no more. Render HTML or text for the whole._"
    room = MOST_BYTES - len(left_out.encode()) - 3
    sizes = [len(block.encode("utf-8")) + 2 for block in blocks]
    kept = set()
    for folded in (False, True):
        for index, block in enumerate(blocks):
            if block.startswith("<details>") is not folded:
                continue
            room -= sizes[index]
            if room < 0:
                break
            kept.add(index)
    made = [block for index, block in enumerate(blocks) if index in kept]
    return "\n\n".join(made if len(made) == len(blocks) else [*made, left_out]) + "\n"


def plain(text: str) -> str:
    """*text* as it is: no markup, no HTML, no link and no mention comes of it."""
    return _BLOCK.sub(_escaped, _SIGNS.sub(lambda found: "\\" + found[0], html(text)))


def _escaped(found: re.Match[str]) -> str:
    return found[0] + _ZERO if found[0].isdigit() else "\\" + found[0]


def html(text: str) -> str:
    """*text* where Markdown does not reach, such as a summary: no HTML, no link and no mention comes of it."""
    return _LINKS.sub(_ZERO, " ".join(clean(text).split()).translate(_ENTITIES))


def code(text: str, *, cell: bool = False) -> str:
    """*text* of a trace as a code span; in a cell of a table what parts cells is escaped."""
    flat = shorten(" ".join(clean(text[: 20 * LONGEST]).split()), LONGEST)
    if cell:
        flat = re.sub(r"\\+(?=\|)", "", flat).replace("|", "\\|")
    if not flat:
        return "–"
    ticks = "`" * (max((len(run) for run in re.findall("`+", flat)), default=0) + 1)
    pad = " " if flat[0] == "`" or flat[-1] == "`" else ""
    return f"{ticks}{pad}{flat}{pad}{ticks}"


def _fence(lines: Sequence[str], language: str) -> str:
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    ticks = "`" * max(3, longest + 1)
    return "\n".join([ticks + language, *lines, ticks])


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    return "\n".join([line(header), line(["---:" if one else "---" for one in right]), *map(line, rows)])


def _overview(many: Sequence[Analysis], total: int) -> list[str]:
    rows = [
        [
            code(analysis.trace.path, cell=True),
            span(analysis.summary),
            percent(analysis.summary.gpu_busy_share),
            plain(analysis.findings[0].title) if analysis.findings else "no findings",
        ]
        for analysis in many
    ]
    return [
        f"## {total:,} traces" + (f", of which {len(many)} are shown" if total > len(many) else ""),
        _table(["trace", "time", "GPU busy", "first finding"], rows, [False, True, True, False]),
    ]


def _one(analysis: Analysis) -> Iterator[str]:
    summary = analysis.summary
    yield f"## {code(analysis.trace.path)}"
    yield plain(" · ".join(circumstances(analysis)))
    figures = headline(summary)
    told = [[one.name, f"**{plain(one.text)}**", plain(one.hint)] for one in figures if one.text is not None]
    yield _table(["figure", "value", "meaning"], told, [False, True, False])
    if missing := [one.name for one in figures if one.text is None]:
        yield f"Not recorded: {', '.join(missing)}."
    if damage := [note for note in analysis.quality if note.code in DAMAGE]:
        yield "**Incomplete: figures speak of what is left.** " + " ".join(plain(note.message) + "." for note in damage)
    yield from _causes(summary)
    yield from _findings(analysis.findings, summary, analysis)
    yield from _notes(analysis.quality, "Quality of this profile")
    yield from _rules(analysis)


def _causes(summary: Summary) -> Iterator[str]:
    parts = causes(summary)
    if not parts:
        return
    unit = "a step's" if summary.step_ms else "the window's"
    yield f"### Where {unit} {milliseconds(whole_ms(summary))} go ({whose_time(summary)})"
    rows = [
        [plain(part.cause.replace("_", " ")), f"{number(part.ms)} ms", f"{part.percent:.1f} %", plain(part.meaning)]
        for part in parts
    ]
    yield _table(["cause", "time", "share", "meaning"], rows, [False, True, True, False])


def _findings(findings: Sequence[Finding], summary: Summary | None, analysis: Analysis | None) -> Iterator[str]:
    if not findings:
        yield f"### {numbered(findings)}"
        if analysis and analysis.verdicts.not_run:
            yield "No rule that could run has a finding; what could not run is named below."
        return
    yield f"### {numbered(findings)}, first things first"
    rows = [
        [
            str(index),
            one.severity,
            plain(one.title),
            f"up to {milliseconds(one.saving.high_ms)} ({percent(one.saving.high_share)})"
            if one.saving
            else "unpriced",
            _first_place(one),
        ]
        for index, one in enumerate(findings, 1)
    ]
    yield _table(["", "severity", "finding", "saves", "where"], rows, [True, False, False, True, False])
    if analysis and analysis.plan:
        yield "### In this order"
        steps = [
            [str(index), plain(step.title), plan_step(step.step_ms_before, step.step_ms_after), f"{step.speedup:.2f}×"]
            for index, step in enumerate(analysis.plan, 1)
        ]
        yield _table(["", "fix", "step", ""], steps, [True, False, False, True])
    for index, one in enumerate(findings, 1):
        yield "\n\n".join(_finding(index, one, summary))


def _first_place(finding: Finding) -> str:
    place = next(iter(finding.where), None)
    if place is None:
        return "–"
    text = user_frame(place) or place.library or place.module or place.op
    return code(text, cell=True) if text else "–"


def _finding(index: int, finding: Finding, summary: Summary | None) -> Iterator[str]:
    """A finding as one block that opens and closes: it is left out whole, or not at all."""
    yield f"<details><summary>{index}. {html(finding.title)}</summary>"
    facts = [f"**{plain(price(finding, summary))}**", f"cost {plain(cost(finding, summary))}"]
    yield f"{code(finding.rule)} · {finding.severity} · {finding.confidence}  \n" + "  \n".join(facts)
    if finding.saving:
        yield f"Got by: {plain(finding.saving.basis)}."
    places = []
    for place in finding.where[:PLACES]:
        parts = [code(text) for text in (user_frame(place), place.library) if text]
        inside = [f"{kind} {code(name)}" for kind, name in (("module", place.module), ("op", place.op)) if name]
        told = " → ".join(parts) + (f" ({', '.join(inside)})" if inside else "")
        places.append(f"- {told.strip() or 'no place recorded'} {percent(place.share)}")
    if len(finding.where) > PLACES:
        places.append(f"- and {len(finding.where) - PLACES} more")
    if places:
        yield "\n".join(places)
    known = [
        at for at in range(len(finding.evidence.columns)) if any(row[at] is not None for row in finding.evidence.rows)
    ]
    columns = [finding.evidence.columns[at] for at in known]
    found = [[row[at] for at in known] for row in finding.evidence.rows]
    if found:
        text = [any(isinstance(row[at], str) for row in found) for at in range(len(columns))]
        rows = [
            [
                code(value, cell=True) if isinstance(value, str) else evidence_cell(name, value)
                for name, value in zip(columns, row, strict=True)
            ]
            for row in found
        ]
        yield _table([plain(evidence_heading(name)) for name in columns], rows, [not one for one in text])
    if finding.settings:
        lines = [f"- {code(one.as_run)}{' ' * bool(one.advice)}{plain(advised(one))}" for one in finding.settings]
        yield "Run with:\n\n" + "\n".join(lines)
    effort = f" ({plain(finding.fix.effort)})" if finding.fix.effort else ""
    yield f"**Fix: {plain(finding.fix.title)}**{effort}"
    for label, text_of in (("before", finding.fix.before), ("after", finding.fix.after)):
        if text_of.strip():
            yield f"{label}:\n\n" + _fence(clean_lines(text_of), "python")
    for label, text_of in (("Caveat", finding.fix.caveat), ("Verify", finding.fix.verify)):
        if text_of.strip():
            yield f"{label}: {plain(text_of)}"
    for paragraph in filter(str.strip, finding.why.strip().split("\n\n")):
        yield plain(paragraph)
    seen = [f"[{plain(one.title)}](<{one.url}>)" if link(one.url) else plain(one.title) for one in finding.references]
    if seen:
        yield "See " + " · ".join(seen)
    yield "</details>"


def _across(across: Across) -> Iterator[str]:
    yield f"## {ranks.heading(across)}"
    rows = [[*ranks.cells(row)[:-1], code(row.path, cell=True)] for row in ranks.shown(across)]
    yield _table(ranks.HEADER, rows, [True] * 8 + [False])
    more = ranks.rest(across)
    yield plain(f"{more + '. ' if more else ''}{ranks.legend(across)}. {ranks.clocks(across)}")
    for section in ranks.sections(across):
        yield f"### {plain(section.title)}"
        told = [
            [text if figure else code(text, cell=True) for text, figure in zip(row, section.right, strict=True)]
            for row in section.rows
        ]
        yield _table([plain(name) for name in section.header], told, list(section.right))
        if section.note:
            yield plain(section.note)
    if across.findings:
        yield from _findings(across.findings, None, None)
    else:
        yield "No findings across the ranks."
    yield from _notes(across.quality, "What is missing across the ranks")


def _notes(notes: Sequence[QualityNote], heading: str) -> Iterator[str]:
    if not notes:
        return
    yield f"### {heading}"
    yield "\n".join(
        f"- {plain(note.message)} ({code(note.code)})" + (f"  \n  {plain(note.advice)}" if note.advice else "")
        for note in notes
    )


def _rules(analysis: Analysis) -> Iterator[str]:
    yield f"Rules: {counts(analysis)}"
    lines = [
        f"- {len(group.rules)} not run, for want of {plain(', '.join(group.needs))}: {plain(group.how)}"
        for group in not_run(analysis.verdicts)
    ]
    lines += [f"- failed: {code(one.rule)}: {plain(one.message)}" for one in analysis.verdicts.error]
    if lines:
        yield "\n".join(lines)

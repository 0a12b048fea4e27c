"""What a notebook shows of an analysis and of a finding: a few lines of HTML without scripts, every text escaped."""

from __future__ import annotations

from markupsafe import Markup, escape

from advisor.report.figures import advised, causes, circumstances, cost, describe, headline, price
from advisor.report.plain import clean, percent, shorten
from advisor.report.table import evidence_cell, evidence_heading
from advisor.results.analysis import Analysis, Finding

LONGEST = 160


def analysis(found: Analysis) -> Markup:
    """The headline, the causes and a line a finding."""
    summary = found.summary
    figures = _table([], [[one.name, one.text or "not recorded"] for one in headline(summary)])
    parts = ", ".join(f"{part.cause.replace('_', ' ')} {part.percent:.1f} %" for part in causes(summary))
    lines = _table(
        ["", "severity", "finding", "saves up to", "where"],
        [
            [
                str(index),
                one.severity,
                one.title,
                percent(one.saving.high_share) if one.saving else "unpriced",
                describe(one.where[0]) if one.where else "",
            ]
            for index, one in enumerate(found.findings, 1)
        ],
    )
    return Markup("<div><p><b>{}</b> · {}</p>{}<p>{}</p>{}</div>").format(
        _safe(found.trace.path),
        _safe(" · ".join(circumstances(found))),
        figures,
        _safe(parts or "causes not recorded"),
        lines if found.findings else Markup("<p>No findings.</p>"),
    )


def finding(found: Finding) -> Markup:
    """One finding with its evidence and its fix."""
    places = Markup("").join(Markup("<li>{}</li>").format(_safe(describe(place))) for place in found.where[:5])
    ran = "; ".join(f"{one.as_run}{advised(one)}" for one in found.settings)
    rows = [[evidence_cell(name, cell) for name, cell in zip(found.evidence.columns, row, strict=True)]
            for row in found.evidence.rows[:5]]  # fmt: skip
    table = _table([evidence_heading(name) for name in found.evidence.columns], rows) if rows else Markup("")
    code = "\n".join(clean(line) for line in found.fix.after.split("\n"))
    return Markup("<div><p><b>{}</b> ({}, {}; {})</p><p>{}; {}</p><ul>{}</ul>{}{}<p>Fix: {}</p>{}</div>").format(
        _safe(found.title),
        found.severity,
        found.confidence,
        _safe(found.rule),
        price(found, None),
        cost(found, None),
        places,
        table,
        Markup("<p>Run with {}</p>").format(escape(clean(ran))) if ran else "",
        _safe(found.fix.title),
        Markup("<pre>{}</pre>").format(code) if code.strip() else "",
    )


def _table(header: list[str], rows: list[list[str]]) -> Markup:
    line = Markup("<tr>{}</tr>")
    cells = [line.format(Markup("").join(Markup("<td>{}</td>").format(_safe(cell)) for cell in row)) for row in rows]
    names = line.format(Markup("").join(Markup("<th>{}</th>").format(_safe(name)) for name in header))
    head = Markup("<thead>{}</thead>").format(names) if header else ""
    return Markup("<table>{}<tbody>{}</tbody></table>").format(head, Markup("").join(cells))


def _safe(text: str) -> Markup:
    return escape(shorten(clean(text[: 20 * LONGEST]), LONGEST))

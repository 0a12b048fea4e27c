"""``-f concise``: a line a finding, ``file:line: severity rule: title (saves 22–34 ms) → fix``, for editors and matchers."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.report import Options, savings
from advisor.report.plain import clean
from advisor.results.analysis import Analysis, Finding
from advisor.results.several import Several


def render(document: Analysis | Several, options: Options) -> str:
    """Render the findings in their order; those across ranks come first. A place that is not known is the trace's name."""
    del options
    lines: list[str] = []
    if isinstance(document, Several):
        if document.across is not None:
            lines += _lines(document.across.findings, "all ranks")
        for analysis in document.traces:
            lines += _lines(analysis.findings, analysis.trace.path)
    else:
        lines += _lines(document.findings, document.trace.path)
    return "".join(f"{line}\n" for line in lines)


def _lines(findings: list[Finding], path: str) -> Iterator[str]:
    for finding in findings:
        if finding.severity == "note" or finding.after is not None:
            continue
        place = next(iter(finding.where), None)
        where = clean(path)
        if place is not None and place.file:
            where = clean(place.file) + (f":{place.line}" if place.line is not None and place.line >= 0 else "")
        worth = savings.saving(finding, findings)
        yield (
            f"{where}: {finding.severity} {clean(finding.rule)}: {clean(finding.title)} ({worth}) → {savings.words(finding)}"
        )

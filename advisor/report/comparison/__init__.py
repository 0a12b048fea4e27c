"""Renderers of a comparison of two traces, one a file; each has a ``render(comparison, options)``."""

from __future__ import annotations

from advisor.report import Format

FORMATS: dict[str, Format] = {
    entry.name: entry
    for entry in (
        Format("text", ".txt", False, "advisor.report.comparison.text:render"),
        Format("json", ".json", False, "advisor.report.comparison.json:render"),
        Format("html", ".html", False, "advisor.report.comparison.html:render"),
    )
}

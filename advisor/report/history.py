"""Renderers of a history and of its check, drawn as every other document."""

from __future__ import annotations

from advisor.report import Format, registry

FORMATS = registry(
    Format("text", ".txt", False, "advisor.report.text:render"),
    Format("json", ".json", False, "advisor.report.json:render"),
    Format("html", ".html", False, "advisor.report.html.document:render"),
    Format("markdown", ".md", False, "advisor.report.markdown:render"),
)

"""Renderers of a judgement of the gate, those of ``advisor.report`` and some for machines."""

from __future__ import annotations

from advisor.report import Format, registry

FORMATS = registry(
    Format("text", ".txt", False, "advisor.report.text:render"),
    Format("json", ".json", False, "advisor.report.json:render"),
    Format("markdown", ".md", False, "advisor.report.gate.markdown:render"),
    Format("sarif", ".sarif", False, "advisor.report.gate.sarif:render"),
    Format("junit", ".xml", False, "advisor.report.gate.junit:render"),
    Format("gitlab", "code-quality-report.json", False, "advisor.report.gate.gitlab:render"),
    Format("github", "", False, "advisor.report.gate.github:render"),
)

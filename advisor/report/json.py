"""``-f json``: the analysis itself, as ``docs/analysis.schema.json`` describes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.report import Options
    from advisor.results.analysis import Analysis
    from advisor.results.several import Several


def render(document: Analysis | Several, _options: Options) -> bytes:
    """Render the document as indented JSON with a newline at the end."""
    from advisor.results.several import Several

    return document.to_json(b"\n") if isinstance(document, Several) else document.to_json() + b"\n"

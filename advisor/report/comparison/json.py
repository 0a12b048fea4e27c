"""``-f json``: the comparison itself; ``docs/comparison.schema.json`` describes it."""

from __future__ import annotations

from advisor.report import Options
from advisor.results.comparison import Comparison


def render(comparison: Comparison, _options: Options) -> bytes:
    """Indented JSON with a newline at the end."""
    return comparison.to_json() + b"\n"

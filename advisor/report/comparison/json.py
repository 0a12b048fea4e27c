"""``-f json``: the comparison itself; ``docs/comparison.schema.json`` describes it."""

from __future__ import annotations

from advisor.comparison import Comparison
from advisor.report import Options


def render(comparison: Comparison, _options: Options) -> bytes:
    """Indented JSON with a newline at the end."""
    return comparison.to_json() + b"\n"

"""``-f json``: the judgement itself; ``docs/judgement.schema.json`` describes it."""

from __future__ import annotations

from advisor.report import Options
from advisor.results.judgement import Judgement


def render(judgement: Judgement, _options: Options) -> bytes:
    """Indented JSON with a newline at the end."""
    return judgement.to_json() + b"\n"

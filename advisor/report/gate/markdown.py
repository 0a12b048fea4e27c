"""``-f markdown``: a comment for a pull request, or the summary of a job."""

from __future__ import annotations

from advisor.report import Options
from advisor.report.markdown import render as drawn
from advisor.results.judgement import Judgement

# Marks the comment, so that a job can find it and renew it instead of adding another.
MARK = "<!-- advisor-gate -->"


def render(judgement: Judgement, options: Options) -> str:
    """Render the judgement with what counts open and the rest folded away, under its mark."""
    return f"{MARK}\n\n{drawn(judgement, options)}"

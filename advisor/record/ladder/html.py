"""The ladder as one page that loads nothing and runs nothing; what it shows is data (``advisor.report.page``)."""

from __future__ import annotations

from markupsafe import Markup

from advisor.record.ladder import text
from advisor.record.ladder.table import Ladder
from advisor.report import page
from advisor.report.html.svg import share_bar


def render(ladder: Ladder) -> str:
    """The page."""
    style = page.asset("advisor.report.comparison", "style.css")
    fastest = max((rung.samples_per_s or 0.0 for rung in ladder.rungs), default=0.0)
    return (
        page.environment(__package__, ".")
        .get_template("page.html")
        .render(
            ladder=ladder,
            text=text,
            bar=lambda rate: share_bar(rate / fastest) if rate else "",
            style=Markup(style),
            style_hash=page.digest(style),
        )
    )

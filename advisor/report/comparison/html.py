"""``-f html``: one page that loads nothing and runs nothing; text of traces and of rules is data (``advisor.report.page``)."""

from __future__ import annotations

from markupsafe import Markup

from advisor.report import Options, page
from advisor.report.comparison import words
from advisor.report.html.svg import share_bar
from advisor.results.comparison import Comparison


def render(comparison: Comparison, _options: Options) -> str:
    """The page."""
    style = page.asset(__package__, "style.css")
    most = max((value or 0.0 for shift in comparison.causes for value in (shift.before, shift.after)), default=0.0)
    return (
        page.environment(__package__, ".")
        .get_template("page.html")
        .render(
            c=comparison,
            words=words,
            bar=lambda value: share_bar(value / most) if value else "",
            style=Markup(style),
            style_hash=page.digest(style),
        )
    )

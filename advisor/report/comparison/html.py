"""``-f html``: one page that loads nothing and runs nothing. All text is escaped; a strict policy stands behind that."""

from __future__ import annotations

from advisor.comparison import Comparison
from advisor.report import Options
from advisor.report.comparison.words import KINDS, TURNS, cost, difference, figure, moved, place, side
from advisor.report.plain import clean


def render(comparison: Comparison, _options: Options) -> str:
    """The page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("advisor.report.comparison", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["say"] = clean
    most = max((value or 0.0 for shift in comparison.causes for value in (shift.before, shift.after)), default=0.0)
    return environment.get_template("page.html").render(
        c=comparison,
        kinds=KINDS,
        turns=TURNS,
        side=side,
        figure=figure,
        difference=difference,
        cost=cost,
        place=place,
        moved=moved,
        width=lambda value: round(20 * (value or 0.0) / most, 2) if most else 0,
    )

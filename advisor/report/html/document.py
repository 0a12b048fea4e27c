"""Any blocks as HTML: a piece for a notebook or another page, or a page of their own, which loads nothing and runs nothing.

What is drawn is in ``templates/document.html.j2``, where every expression is cleaned and escaped (``advisor.report.page``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from jinja2 import Environment
from markupsafe import Markup

from advisor.report import Options, page
from advisor.report.blocks import Block, Detail, pieces
from advisor.report.documents import build
from advisor.report.html.svg import share_bar
from advisor.report.html.trends import chart
from advisor.report.plain import clean_lines, link


def render(document: object, _options: Options) -> str:
    """Render the page of a document that has no page of its own."""
    blocks = build(document, Detail(folds=True, bars=True, wide=True))
    return page_of(f"advisor {type(document).__name__.lower()}", blocks)


def page_of(title: str, blocks: Sequence[Block]) -> str:
    """Render a page of any blocks."""
    style = page.asset("advisor.report.comparison", "style.css")
    template = _environment().get_template("document.html.j2")
    return template.render(title=title, blocks=list(blocks), style=Markup(style), style_hash=page.digest(style))


def fragment(blocks: Sequence[Block]) -> Markup:
    """Draw any blocks as a piece of a page."""
    return Markup(_environment().get_template("blocks.html.j2").render(blocks=blocks))


@cache
def _environment() -> Environment:
    environment = page.environment("advisor.report.html", "templates")
    environment.globals |= {
        "kind": lambda block: type(block).__name__,
        "pieces": pieces,
        "link": link,
        "lines": clean_lines,
        "share_bar": share_bar,
        "chart": chart,
    }
    return environment

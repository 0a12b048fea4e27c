"""``-f html``: one file that a reviewer reads in two minutes and an engineer explores, with no network and no server.

Text of traces and of rules is data: Jinja2 escapes every expression, and before that ``finalize`` spells out what is
invisible or reorders text. The page's own script and style are the only ones that its policy lets run, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from advisor.report import figures, ranks
from advisor.report.causes import on_cpu
from advisor.report.document import Several, analyses
from advisor.report.html import cells, charts, diff, embed, source, svg
from advisor.report.plain import clean, milliseconds, number, percent, shorten, size
from advisor.report.redact import base_name

if TYPE_CHECKING:
    from advisor.analysis import Analysis
    from advisor.report import Options

LONGEST = 6000
"""Characters of one text on the page; the middle of what is longer is left out."""


def render(document: Analysis | Several, options: Options) -> str:
    """The whole page. ``options.source_root``: the folder in which the lines of the user's own source are looked up."""
    script, style = _asset("script.js"), _asset("style.css")
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            document=document,
            many=analyses(document),
            several=isinstance(document, Several),
            across=document.across if isinstance(document, Several) else None,
            lines_of=source.Lines(options.source_root),
            script=Markup(script),
            style=Markup(style),
            script_hash=_hash(script),
            style_hash=_hash(style),
        )
    )


def _asset(name: str) -> str:
    return files(__name__).joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    """What a Content-Security-Policy calls an inline block."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _finalize(value: Any) -> Any:
    """What every expression of a template passes before it is escaped."""
    if value is None:
        raise ValueError("a template prints a figure that is not there")
    return clean(cut(value, LONGEST)) if type(value) is str else value


def cut(text: str, most: int = 400) -> str:
    """*text* with its middle left out where it is longer than *most* characters."""
    return text if len(text) <= most else shorten(text[:most] + text[-most:], most)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("advisor.report.html", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"ms": milliseconds, "percent": percent, "number": number, "size": size, "cut": cut}
    made.globals |= {
        "figures": figures,
        "ranks": ranks,
        "svg": svg,
        "charts": charts,
        "cells": cells,
        "on_cpu": on_cpu,
        "diff": diff.lines,
        "embed": embed.timeline,
        "embed_marks": embed.marks,
        "link": embed.link,
        "resolve": cells.resolve,
        "base_name": base_name,
    }
    return made

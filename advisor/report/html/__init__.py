"""``-f html``: one file that a reviewer reads in two minutes and an engineer explores, with no network and no server.

Text of traces and of rules is data, and only the page's own script and style run: ``advisor.report.page``.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from jinja2 import Environment
from markupsafe import Markup

from advisor.counting import counted
from advisor.privacy import file_names, folder_name
from advisor.ranks.at_length import at_length
from advisor.report import figures, holders, page, phases, ranks, savings, step_time
from advisor.report.causes import on_cpu
from advisor.report.distances import distances, returned
from advisor.report.html import bars, cells, charts, diff, embed, flame, roofline, source, svg
from advisor.report.plain import link, milliseconds, number, percent, size
from advisor.report.table import evidence
from advisor.results.several import Several, analyses

if TYPE_CHECKING:
    from advisor.report import Options
    from advisor.results.analysis import Analysis


def render(document: Analysis | Several, options: Options) -> str:
    """Render the whole page. ``options.source_root``: the folder in which the lines of the user's own source are looked up."""
    paths = [analysis.trace.path for analysis in analyses(document)]
    folder = folder_name(paths) if isinstance(document, Several) else ""
    script, style = page.asset(__name__, "script.js"), page.asset(__name__, "style.css")
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            document=document,
            many=analyses(document),
            names=file_names(paths),
            all_of_them=(f"{folder}: " if folder else "") + counted(len(paths), "trace"),
            several=isinstance(document, Several),
            lengthy=at_length(analyses(document), document.across if isinstance(document, Several) else None),
            across=document.across if isinstance(document, Several) else None,
            lines_of=source.Lines(options.source_root),
            script=Markup(script),
            style=Markup(style),
            script_hash=page.digest(script),
            style_hash=page.digest(style),
        )
    )


@cache
def _environment() -> Environment:
    environment = page.environment(__name__, "templates")
    environment.filters |= {"ms": milliseconds, "percent": percent, "number": number, "size": size, "key": cells.key}
    environment.globals |= {
        "step_time": step_time,
        "figures": figures,
        "savings": savings,
        "holders": holders,
        "phases": phases,
        "ranks": ranks,
        "bars": bars,
        "svg": svg,
        "charts": charts,
        "distances": distances,
        "returned": returned,
        "roofline": roofline,
        "flame": flame,
        "cells": cells,
        "on_cpu": on_cpu,
        "diff": diff.lines,
        "evidence": evidence,
        "embed": embed.timeline,
        "anchor": embed.anchor,
        "embed_marks": embed.marks,
        "link": link,
        "heaviest": cells.heaviest,
        "resolve": cells.resolve,
    }
    return environment

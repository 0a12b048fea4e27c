"""Builders: one a document, each of which says what it is in blocks. What a document says is decided here, and nowhere else.

A new document is one file, named after its type, with a ``blocks(document, detail)``.
"""

from __future__ import annotations

import importlib

from advisor.counting import counted
from advisor.report.blocks import Block, Detail


def build(document: object, detail: Detail) -> list[Block]:
    """Return the blocks of any document that there is a builder for."""
    builder = importlib.import_module(f"{__name__}.{type(document).__name__.lower()}")
    return list(builder.blocks(document, detail))


def headline(document: object) -> str:
    """Return a document in one line: its headline, or what its first findings are about."""
    from advisor.report import figures
    from advisor.results.analysis import Analysis
    from advisor.results.comparison import Comparison
    from advisor.results.history import Drift, History
    from advisor.results.several import Several

    match document:
        case Analysis():
            return document.headline.text if document.headline else figures.tally(document.findings)
        case Several():
            found = document.across.findings if document.across else []
            return found[0].title if found else counted(len(document.traces), "trace")
        case Comparison() | History() | Drift():
            return document.headline
    raise TypeError(f"{type(document).__name__} has no headline")

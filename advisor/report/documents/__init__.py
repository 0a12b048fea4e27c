"""Builders: one a document, each of which says what it is in blocks. What a document says is decided here, and nowhere else.

A new document is one file, named after its type, with a ``blocks(document, detail)``.
"""

from __future__ import annotations

import importlib

from advisor.report.blocks import Block, Detail


def build(document: object, detail: Detail) -> list[Block]:
    """Return the blocks of any document that there is a builder for."""
    builder = importlib.import_module(f"{__name__}.{type(document).__name__.lower()}")
    return list(builder.blocks(document, detail))

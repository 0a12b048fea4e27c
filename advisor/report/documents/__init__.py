"""Builders: one a document, each of which says what it is in blocks. What a document says is decided here, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from advisor.report.blocks import Block, Detail
from advisor.report.documents import analysis, comparison, judgement, several
from advisor.results.analysis import Analysis
from advisor.results.comparison import Comparison
from advisor.results.judgement import Judgement
from advisor.results.several import Several

BUILDERS: dict[type, Callable[[Any, Detail], Iterator[Block]]] = {
    Analysis: analysis.blocks,
    Several: several.blocks,
    Judgement: judgement.blocks,
    Comparison: comparison.blocks,
}
"""What makes the blocks of each kind of document."""


def build(document: object, detail: Detail) -> list[Block]:
    """The blocks of any document that there is a builder for."""
    return list(BUILDERS[type(document)](document, detail))

"""Builders: one a document, each of which says what it is in blocks. What a document says is decided here, and nowhere else."""

from __future__ import annotations

from advisor.report.blocks import Block, Detail
from advisor.report.documents import analysis, comparison, judgement, several
from advisor.results.analysis import Analysis
from advisor.results.comparison import Comparison
from advisor.results.judgement import Judgement
from advisor.results.several import Several


def build(document: object, detail: Detail) -> list[Block]:
    """The blocks of any document that there is a builder for."""
    match document:
        case Analysis():
            return list(analysis.blocks(document, detail))
        case Several():
            return list(several.blocks(document, detail))
        case Judgement():
            return list(judgement.blocks(document, detail))
        case Comparison():
            return list(comparison.blocks(document, detail))
    raise TypeError(f"no builder for {type(document).__name__}")

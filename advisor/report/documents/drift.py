"""The answer of the check on a history: what got worse, between which commits, and what could not be told."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.report.blocks import Block, Detail, Heading, Items, Paragraph
from advisor.report.documents.history import table
from advisor.results.history import Drift


def blocks(drift: Drift, detail: Detail) -> Iterator[Block]:
    """Yield the answer; its headline alone where the least is asked for."""
    yield Heading(drift.headline, 1)
    if detail.quiet:
        return
    if drift.worse:
        yield Heading("Worse")
        yield table(drift.worse)
    if drift.better:
        yield Heading("Better")
        yield table(drift.better)
    if drift.unknown:
        yield Heading("Could not be told")
        yield Items(drift.unknown)
    if drift.worse:
        yield Paragraph(
            f"A change counts within the newest {drift.runs:,} runs of a series (--runs), or behind a commit (--since), once it is "
            "known and accepted."
        )

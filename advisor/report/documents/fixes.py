"""Fixes made in the source: a diff each with its price, or what was measured of it; and what no edit does."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.report.blocks import Block, Code, Detail, Fold, Heading, Items, Paragraph, Piece, Span, Style, Table, Text
from advisor.report.plain import MISSING, milliseconds, percent
from advisor.results.fixes import Advice, Fixes, FixResult, Price

_STYLES: dict[str, Style] = {"kept": "good", "reverted": "dim", "proposed": "strong", "not tried": "fair"}


def blocks(fixes: Fixes, detail: Detail) -> Iterator[Block]:
    """Yield the whole document; its headline where the least is asked for."""
    yield Heading(fixes.headline, 1)
    if detail.quiet:
        return
    if fixes.verified and fixes.fixes:
        yield _table(fixes)
        yield from _written(fixes)
    for one in fixes.fixes:
        yield from _diff(one, detail)
    if fixes.advice:
        yield Heading("For you to change")
        yield Items([_place(one) for one in fixes.advice], [_reason(one) for one in fixes.advice])
        for advice in fixes.advice if detail.verbosity > 0 or detail.folds else ():
            if advice.sketch:
                sketch = Code(advice.sketch, label=advice.rule, language="python")
                yield Fold(advice.fix, [sketch]) if detail.folds else sketch


def _table(fixes: Fixes) -> Table:
    rows: list[tuple[Text, ...]] = []
    for one in fixes.fixes:
        timing = one.timing
        steps = f"{milliseconds(timing.before_ms)} → {milliseconds(timing.after_ms)}" if timing else MISSING
        cpu = f"{milliseconds(timing.before_cpu_ms)} → {milliseconds(timing.after_cpu_ms)}" if timing else MISSING
        saved = percent(timing.saved) if timing else MISSING
        rows.append(
            (Span(one.edit, "name"), _range(one.price), saved, steps, cpu, Span(one.verdict, _STYLES[one.verdict]))
        )
    head = ["edit", "predicted", "measured", "step, ms", "processor, ms", "outcome"]
    return Table(head, rows, "<>>>>|", notes=[one.because for one in fixes.fixes])


def _written(fixes: Fixes) -> Iterator[Block]:
    facts = []
    if fixes.applied:
        facts.append("What was kept is written to your files.")
    if fixes.patch:
        facts.append(f"It is in {fixes.patch} as one patch.")
    if fixes.branch:
        facts.append(f"Branch {fixes.branch} has a commit for each.")
    if fixes.outside:
        facts.append(f"Runs wrote files outside the copy of the project: {', '.join(fixes.outside)}.")
    if facts:
        yield Paragraph(" ".join(facts))


def _diff(one: FixResult, detail: Detail) -> Iterator[Block]:
    if one.verdict not in ("proposed", "kept") and detail.verbosity <= 0 and not detail.folds:
        return
    yield Heading(one.title)
    yield Paragraph(Span(_aside(one), "dim"))
    note = "changes what is learned; " if one.changes_training else ""
    if one.losses:
        pairs = ", ".join(f"{before:.6g} → {after:.6g}" for before, after in one.losses)
        note += f"first losses {pairs}"
    if note:
        yield Paragraph(Span(note.removesuffix("; "), "dim"))
    yield Code(one.diff.rstrip("\n"), language="diff")


def _aside(one: FixResult) -> str:
    rules = ", ".join(one.rules)
    return f"{rules}, predicted to return {_range(one.price)}" if one.price is not None else f"{rules}, without a price"


def _range(price: Price | None) -> str:
    return MISSING if price is None else f"{percent(price.low)}–{percent(price.high)}"


def _place(one: Advice) -> Text:
    where: tuple[Piece, ...] = (" at ", Span(one.where, "code")) if one.where else ()
    return (one.fix, *where, f" ({one.rule})")


def _reason(one: Advice) -> Text:
    price = "" if one.price is None else f"predicted to return {_range(one.price)}"
    because = f"no edit: {one.because}" if one.because else ""
    return "; ".join(part for part in (price, because) if part)

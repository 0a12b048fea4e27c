"""Two traces side by side: the step, its causes, what became of each finding and of what its fix promised, and what ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from advisor.counting import averages, counted
from advisor.privacy import file_names
from advisor.report.blocks import (
    Bar,
    Block,
    Detail,
    Facts,
    Fold,
    Heading,
    Items,
    Paragraph,
    Span,
    Style,
    Table,
    Text,
    joined,
)
from advisor.report.documents import division
from advisor.report.plain import MISSING, in_one_unit, milliseconds, number, percent
from advisor.results.comparison import Comparison, Item, Shift, Side, Turned

TURNS: dict[str, tuple[str, Style]] = {
    "new": ("New findings", "bad"),
    "worse": ("Findings that cost more", "bad"),
    "fixed": ("Findings that are gone", "good"),
    "better": ("Findings that cost less", "good"),
    "same": ("Findings on both sides", "dim"),
    "untold": ("Findings that cannot be compared, for a side lacks what the rule needs", "dim"),
}
KINDS = {"kernel": "Changed kernels", "operator": "Changed operators", "module": "Changed modules"}
_WHOLE = {"step": "a step", "sample": "the time of a sample", "window": "the window"}
_NOISE = 0.01
"""Share of the step below which a difference of a cause has no colour: it is neither good nor bad."""
_OFTEN = 3
"""Figures that share a note from which on it stands once below the table."""
_UNTRIED = ("cannot be told", "not applied")
"""Answers of fixes that are named in a line together."""
_OUTCOME: dict[str, Style] = {
    "worse": "bad",
    "better": "good",
    "applied, does not hold": "bad",
    "applied and holds": "good",
}


def blocks(comparison: Comparison, detail: Detail) -> Iterator[Block]:
    """Yield the whole comparison; its headline where the least is asked for."""
    yield Heading(comparison.headline, 1)
    if detail.quiet:
        return
    sides = (("before", comparison.before), ("after", comparison.after))
    paths = [side.path for _, side in sides]
    names = file_names(paths) if detail.folds else paths
    facts: list[tuple[str, Text]] = [
        (word, (Span(name, "code"), f": {_side(side)}")) for name, (word, side) in zip(names, sides, strict=True)
    ]
    if comparison.unlike:
        yield Paragraph((Span("With care", "fair"), f": {'; '.join(comparison.unlike)}."))
    yield from division.blocks(comparison.division, detail)
    yield Heading("The two recordings")
    yield Facts(facts, room=11)
    yield from _claims(comparison, detail)
    yield from _causes(comparison, detail)
    yield from _metrics(comparison, detail)
    for turn, (heading, style) in TURNS.items():
        if turns := [
            _finding(finding, division.PER[comparison.per]) for finding in comparison.findings if finding.turn == turn
        ]:
            yield Heading(Span(heading, style))
            yield Items(turns)
    for kind, heading in KINDS.items():
        items = [item for item in comparison.items if item.kind == kind]
        if items or comparison.hidden.get(kind):
            more = comparison.hidden.get(kind)
            caption = f"… and {more} more that changed less" if more else ""
            table = _items(items, caption, division.PER[comparison.per])
            if detail.folds and not detail.wide:  # as Markdown has them
                yield Fold(heading, [table])
            else:
                yield from (Heading(heading), table)


def _items(items: Sequence[Item], caption: str, per: str) -> Table:
    """Make a table of kernels, operators or modules: the GPU's and the host's time in columns of their own."""
    host = any(item.host_ms_before is not None for item in items)
    gpu = not host or any(item.gpu_ms_before or item.gpu_ms_after for item in items)
    rows: list[tuple[Text, ...]] = []
    for item in items:
        name = Span(item.name + (f" {item.shape}" if item.shape else ""), "name")
        calls = averages(item.calls_before, item.calls_after)
        times = [_times(item.gpu_ms_before, item.gpu_ms_after)] if gpu else []
        times += [_times(item.host_ms_before, item.host_ms_after)] if host else []
        rows.append((name, item.fate, calls, *times))
    head = ("name", "", f"calls {per}", *(["on the GPU"] * gpu), *(["on the host" if gpu else "on the CPU"] * host))
    return Table(head, rows, "<|>" + ">" * gpu + ">" * host, caption=caption)


def _times(before: float | None, after: float | None) -> str:
    if before is None or after is None:
        return ""
    return f"{milliseconds(before)} → {milliseconds(after)}"


def _claims(comparison: Comparison, detail: Detail) -> Iterator[Block]:
    """Yield what became of the first trace's fixes: those applied, those of which nothing tells, and the rest in a line."""
    if not comparison.claims:
        return
    yield Heading("Were the fixes applied?")
    tried = [claim for claim in comparison.claims if claim.answer not in _UNTRIED]
    items: list[Text] = [
        (
            Span(claim.answer, _OUTCOME.get(claim.answer, "fair")),
            f": {claim.fix} (",
            Span(claim.rule, "code"),
            f"): {claim.because}",
        )
        for claim in tried
    ]
    rest: list[Text] = []
    for answer in _UNTRIED:
        rules = [Span(claim.rule, "code") for claim in comparison.claims if claim.answer == answer]
        if rules:
            rest.append((Span(answer, "dim"), ": ", *joined(rules, ", ")))
    if rest and tried and detail.folds:
        yield from (Items(items), Fold("Not applied, or not to be told", [Items(rest)]))
    else:
        yield Items([*items, *rest])


def _causes(comparison: Comparison, detail: Detail) -> Iterator[Block]:
    yield Heading(f"Where {_WHOLE[comparison.per]} goes, on average")
    most = max((value or 0.0 for shift in comparison.causes for value in (shift.before, shift.after)), default=0.0)
    rows: list[tuple[Text, ...]] = []
    least = _NOISE * sum(shift.before or 0.0 for shift in comparison.causes)
    for shift in comparison.causes:
        matters = abs((shift.after or 0.0) - (shift.before or 0.0)) >= least
        style = _OUTCOME.get(shift.outcome, "dim") if matters else "dim"
        bars = (
            Bar((shift.before or 0.0) / most if most else 0.0, "dim"),
            Bar((shift.after or 0.0) / most if most else 0.0, style),
        )
        values = [_figure(value, "ms") for value in (shift.before, shift.after)]
        rows.append((shift.name, *values, Span(_difference(shift), style), *([bars] if detail.wide else [])))
    head = ("cause", "before", "after", "difference", *([""] if detail.wide else []))
    yield Table(head, rows, "|>>>" + "|" * detail.wide)


def _metrics(comparison: Comparison, detail: Detail) -> Iterator[Block]:
    yield Heading(f"Figures {division.PER[comparison.per]}")
    rows: list[tuple[Text, ...]] = []
    notes = Counter(shift.note for shift in comparison.metrics if shift.note)
    shared = next((note for note, count in notes.most_common(1) if count >= _OFTEN), "")
    for shift in comparison.metrics:
        values = [_figure(value, shift.unit) for value in (shift.before, shift.after)]
        text = shift.outcome + (f": {shift.note}" if shift.note and shift.note != shared else "")
        row: tuple[Text, ...] = (Span(shift.name, "code"), *values, Span(text, _OUTCOME.get(shift.outcome, "dim")))
        rows.append((*row, shift.meaning) if detail.wide else row)
    head = ("figure", "before", "after", "", *(["what it is"] if detail.wide else []))
    yield Table(head, rows, "|>>~" + "~" * detail.wide, caption=f"inconclusive: {shared}" if shared else "")


def _finding(finding: Turned, per: str) -> Text:
    place = next((place for place in finding.where if place.file), None)
    where = f"{place.file}:{place.line} {place.function or ''}".strip() if place else ""
    cost = ""
    if finding.before_ms or finding.after_ms:
        cost = f"{milliseconds(finding.before_ms or 0.0)} → {milliseconds(finding.after_ms or 0.0)} {per}"
    parts: list[Text] = [finding.title, cost, Span(where, "code") if where else "", Span(finding.rule, "code")]
    return joined([part for part in parts if part], "; ")


def _side(side: Side) -> str:
    """Return ``5 steps, median 126 ms, middle 80 % 124 to 149, Tesla V100``."""
    parts = [counted(side.steps, "step") if side.steps else "no steps"]
    if side.step_ms is not None:
        ends, unit = in_one_unit(side.p10_ms or 0.0, side.p90_ms or 0.0)
        spread = f"{' to '.join(ends)} {unit}"
        parts.append(f"median {milliseconds(side.step_ms)}, middle 80 % {spread}")
    else:
        parts.append(f"window of {milliseconds(side.window_ms)}")
    return ", ".join([*parts, *([side.device] if side.device else [])])


def _figure(value: float | None, unit: str) -> str:
    """Return a figure with its unit."""
    if value is None:
        return MISSING
    if unit == "ms":
        return milliseconds(value)
    return percent(value) if unit == "share" else f"{number(value)} {unit}".rstrip()


def _difference(shift: Shift) -> str:
    """Return the difference of a figure between the sides, with its sign and unit."""
    if shift.before is None or shift.after is None:
        return ""
    change = shift.after - shift.before
    sign = "+" if change > 0 else "-" if change < 0 else ""
    return sign + _figure(abs(change), shift.unit)

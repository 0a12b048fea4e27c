"""A finding's lines on the screen, and which of them stay where the lines are few."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from advisor.regex import regex
from advisor.report import blocks as doc
from advisor.report.lines import DOT, MARGIN, NARROW, Line
from advisor.report.places import places_behind, where
from advisor.report.plain import clean, columns, wrap
from advisor.report.savings import SEVERAL, aside, leading, saving, words
from advisor.report.time_lines import HOST_ROWS
from advisor.results.analysis import Analysis, Finding, Summary

_PART_OF_ALL = regex(r" \([\d.]+ %\)")
"""A place's share of what a finding costs."""


class Entry(NamedTuple):
    """A finding's lines: all of them, those without the fix, and those with the saving alone; and what it returns at most."""

    forms: tuple[list[Line], ...]
    worth_ms: float
    detailed: tuple[list[Line], ...] = ()
    """The first two with the places behind the first; empty where none holds much."""


def room_of_waits(summary: Summary, entries: list[Entry], room: int) -> int:
    """Return how many lines there are for what the CPU does while the GPU waits for it, of *room* below what comes before.

    Beside what the findings leave that is what findings take for their fixes, and for their places, which return a small part of
    that time at most: none is left out for it.
    """
    total, by_line = sum(part.ms for part in summary.host_time), any(part.kind == "line" for part in summary.host_time)
    before = shrunk(entries, room)
    for rows in range(HOST_ROWS, 0, -1):
        after = shrunk(entries, room - rows)
        less = [(form, entry) for form, was, entry in zip(after, before, entries, strict=False) if form > was]
        # Lines of the source divide the whole step, which no finding returns: they take none of its lines.
        cheap = not less or (not by_line and all(entry.worth_ms <= _YIELDS[form] * total for form, entry in less))
        if len(after) == len(before) and cheap and lines_taken(entries, after) <= max(room - rows, 0):
            return rows
    return 0


_YIELDS = (0.0, 0.15, 0.1)
"""Of the time in which the GPU waits for the CPU: what a finding returns at most that loses its fix, or its place, to it."""


def _with_room(entries: list[Entry], room: int) -> int:
    """Count the findings that have room: the first with its place and fix, the others with their titles and savings."""
    lengths = [len(entry.forms[2 if at else 0]) for at, entry in enumerate(entries)]
    return sum(sum(lengths[: count + 1]) <= room for count in range(len(lengths)))


def with_place(entries: list[Entry], room: int) -> tuple[int, int]:
    """Count the findings that have room, and of the first two those that have it for their places as well."""
    return _with_room(entries, room), sum(form < len(entries[0].forms) - 1 for form in shrunk(entries, room)[:2])


def kept_forms(entries: list[Entry], room: int) -> list[int]:
    """Return what each finding keeps of its lines where there is so much room; those that have none are left out."""
    form = shrunk(entries, room)
    return form if lines_taken(entries, form) <= max(room, 0) else []


def most_lines(lines: int, width: int) -> int:
    return lines if width >= NARROW else lines + lines // 5


def page(head: list[Line], lead: list[Line], entries: list[Entry], foot: list[Line], most: int) -> Iterator[doc.Block]:
    """Yield lines; where they are too many, findings lose their fixes, then their places, and the last ones their lines."""
    form = shrunk(entries, most - len(head) - len(lead) - len(foot))
    entries = entries[: len(form)]
    chosen = [entry.forms[at] for entry, at in zip(entries, form, strict=True)]
    spare = most - sum(map(len, (head, lead, foot, *chosen)))
    for number, (entry, at) in enumerate(zip(entries, form, strict=True)):
        # Where lines are left, the other places of a cost that is spread are said.
        if at < len(entry.detailed) and (taken := len(entry.detailed[at]) - len(chosen[number])) <= spare:
            chosen[number], spare = entry.detailed[at], spare - taken
    body = [line for lines in chosen for line in lines]
    parts = [part for part in (head, [*lead, *body], foot) if part]
    spare = most - sum(map(len, parts))
    for index, part in enumerate(parts):
        if index and spare > 0:
            spare -= 1
            yield doc.Paragraph("")
        for line in part:
            yield doc.Paragraph(line, wrap=False)


def shrunk(entries: list[Entry], room: int) -> list[int]:
    """Return the form of each finding that is shown in some lines.

    Where they are too few, what returns least loses its fix, then its place, which tells twice as much; then the last findings go.
    """
    form = [0] * len(entries)
    steps = [(less * entries[at].worth_ms, less, -at) for less in (1, 2) for at in range(1, len(entries))]
    for _, less, at in sorted(steps):
        if lines_taken(entries, form) > room:
            form[-at] = less
    while len(form) > 1 and lines_taken(entries, form) > room:
        form = form[:-1]
    return form


def lines_taken(entries: list[Entry], form: Sequence[int]) -> int:
    return sum(len(entry.forms[at]) for entry, at in zip(entries, form, strict=False))


def entries_of(
    analysis: Analysis, findings: Sequence[Finding], width: int, waiting: frozenset[str] = frozenset()
) -> list[Entry]:
    """Compose the lines of findings; *waiting*: lines of the source that the screen divides the waits for the CPU among.

    A finding about these waits names such a line without its own share of it: that is of the launches behind them, another figure.
    """
    training = {rule for step in analysis.plan if step.changes_training for rule in step.rules}
    place = {finding.rule: index for index, finding in enumerate(analysis.findings, 1)}

    def composed(finding: Finding, beside: str) -> Entry:
        worth, module = saving(finding, analysis.findings, analysis.summary) + beside, _told_apart(finding, analysis)
        divided = finding.category == _WAITS and any(f"{line} " in f"{where(finding)} " for line in waiting)
        return entry(
            finding, place[finding.rule], width, worth, finding.rule in training, module=module, divided=divided
        )

    entries = []
    for finding in findings:
        bare = told = composed(finding, "")
        if width >= NARROW and (beside := aside(finding, analysis.findings)):
            told = composed(finding, beside)
        # A line of its own it is worth where the saving would read as a fault without it.
        odd = finding.saving is not None and finding.saving.high_ms >= _ODD * finding.cost_ms
        entries.append(told if odd or len(told.forms[0]) <= len(bare.forms[0]) else bare)
    return entries


_WAITS = "gpu-idle"
"""Category of the rules about what the GPU waits for."""
_ODD = 1.5
"""Times its cost that a finding saves, from which on the reason is said in any case."""


def _told_apart(finding: Finding, analysis: Analysis) -> str:
    """Return the model that a finding lies in, of several, where another one is shown at the same line; else nothing."""
    known = {_model(place.within or place.module or "") for one in analysis.findings for place in one.where}
    models = {name for name in known if name and not name.endswith("Loss")}
    same = any(one.rule != finding.rule and where(one) == where(finding) for one in leading(analysis.findings))
    place = next(iter(finding.where), None)
    if place is None or not same or len(models) < SEVERAL:
        return ""
    return clean(_model(place.within or place.module or ""))


def _model(path: str) -> str:
    """Return the class of a path's outermost module: ``T5EncoderModel`` of ``T5EncoderModel_0/T5Stack_0``."""
    return path.partition("/")[0].rpartition("_")[0] or path.partition("/")[0]


def entry(
    finding: Finding,
    index: int,
    width: int,
    worth: str,
    training: bool = False,
    *,
    module: str = "",
    divided: bool = False,
) -> Entry:
    """Compose the lines of a finding: its title and what it saves, its place, and its fix.

    *divided*: its places are said elsewhere with their shares.
    """
    level = doc.Span(f"{finding.severity.upper():6}", finding.severity)
    title = wrap(clean(finding.title) + (f", in {module}" if module else ""), width - MARGIN)
    head: list[Line] = [(f"{index:>2} ", level, " ", doc.Span(title[0]))]
    head += [(" " * MARGIN, doc.Span(line)) for line in title[1:]]
    last = columns(title[-1])
    beside = MARGIN + last + 2 + columns(worth) <= width
    if beside:
        blanks = min(width, 100) - MARGIN - last - columns(worth)
        head[-1] = (*head[-1], " " * max(blanks, 2), worth)
    place, fix = where(finding), words(finding) + (" (may affect accuracy)" if training else "")
    place = _PART_OF_ALL.sub("", place) if divided else place
    saved = [] if beside else [worth]
    full = _packed([*saved, place, f"→ {fix}"], width, place)
    bare = head + _packed(saved, width, "")
    # The shortest form names the place, in whatever words there is room for beside the saving.
    located = (head + _packed([*saved, name], width, name) for name in _shorter(finding, place) if saved)
    least = next((lines for lines in located if len(lines) == len(bare)), bare)
    forms = (head + full, head + _packed([*saved, place], width, place), least)
    detailed: tuple[list[Line], ...] = ()
    if more := "" if divided else places_behind(finding):
        parts = ([*saved, place, more, f"→ {fix}"], [*saved, place, more])
        detailed = tuple(head + _packed(of, width, place) for of in parts)
    return Entry(forms, finding.cost_ms if finding.saving is None else finding.saving.high_ms, detailed)


def _shorter(finding: Finding, place: str) -> list[str]:
    """Return ever shorter words for the *place* of a finding: without where it is called from, as the model that it lies in."""
    first = next(iter(finding.where), None)
    model = clean(_model(first.within or first.module or "")) if first is not None else ""
    names = [place, place.partition(", from ")[0], f"in {model}" if model else ""]
    return [name for name in dict.fromkeys(names) if name]


def _packed(parts: Sequence[str], width: int, place: str) -> list[Line]:
    """Pack texts into lines behind the margin; a place that does not fit stands alone, from the first column: so it can be opened.

    Of several places each is whole.
    """
    room, lines, text = width - MARGIN, list[Line](), ""
    for part in filter(None, parts):
        between = " " if part.startswith("→") else DOT
        if text and columns(text) + len(between) + columns(part) <= room:
            text += between + part
            continue
        if text:
            lines.append((" " * MARGIN + text,))
        text = part
        if part == place and columns(part) > room:
            whole = _several(part, room)
            lines += [(" " * MARGIN + line,) for line in whole] or [(part,)]
            text = ""
        elif columns(part) > room:
            *whole, text = wrap(part, room)
            lines += [(" " * MARGIN + line,) for line in whole]
    return [*lines, (" " * MARGIN + text,)] if text else lines


def _several(places: str, room: int) -> list[str]:
    """Return several places in lines, none cut; nothing for a single one, or where one of them does not fit."""
    each = places.split(", ")
    if len(_PART_OF_ALL.findall(places)) < SEVERAL or max(map(columns, each)) >= room:
        return []
    lines = [each[0]]
    for one in each[1:]:
        if columns(lines[-1]) + columns(one) + 3 <= room:
            lines[-1] += f", {one}"
        else:
            lines[-1] += ","
            lines.append(one)
    return lines

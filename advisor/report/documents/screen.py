"""One screen: what was recorded, what to do first, what it is worth and where; for a terminal, at most a page of lines.

Lines are composed here, as wide as the terminal: nothing is cut in its middle, and only a place may run over the edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from advisor.counting import counted
from advisor.regex import regex
from advisor.report import blocks as doc
from advisor.report import figures, holders, phases, step_time
from advisor.report.plain import clean, clean_lines, columns, in_one_unit, wrap
from advisor.results.analysis import Analysis, Finding, Place, PlanStep, Saving, Summary
from advisor.results.headline import Headline
from advisor.results.host_time import HostTime
from advisor.results.kernel_time import KernelTime
from advisor.results.ranks import Across
from advisor.results.several import Several

LINES, LINES_OF_RANKS = 38, 40
MOST = 10
"""Findings that are listed; of more, the rest is counted."""
_MARGIN = 10
_INSET = " " * 4
_NARROW = 80
"""Columns from which on the page keeps its number of lines; below, a fifth as many more are allowed."""
_NEAR = 0.8
"""Of what the device reaches, and of the step, from which on kernels that fill it are near their limit."""
_APART = 0.02
"""Share of the step by which savings may miss what all fixes come to, and still be said to add up."""
_SEVERAL = 2
_ALL_KNOWN = 0.9
"""Of the kernels' time whose limits are known, from which on nothing is said of the rest."""
_NOTHING_STEADY = ("start-up only", "capture only", "empty")
"""Kinds of a headline of which no step is shorter or longer."""
_MUCH_STARTUP, _SMALL_STARTUP = 0.2, 0.05
"""Part of the recording from which on start-up has its line, and where there is room for it."""
_STARTUP_SAID = " are start-up: "
_CPU, _RANKS = "the CPU", "other ranks"
_HOLDERS = {
    "host": _CPU, "operator": _CPU, "loader": "the loader", "communication": "collectives", "copy": "copies",
    "blocking_copy": "copies", "allocator": "memory allocation", "gc": "garbage collection", "compile": "compilation",
    "profiler": "the profiler", "other_device": "another GPU",
}  # fmt: skip
"""Causes that limit a step which faster kernels leave as it is."""
_DOT = " · "
_PART_OF_ALL = regex(r" \([\d.]+ %\)")
"""A place's share of what a finding costs."""
_NAMES = regex(r" (?:in|under) ")
"""Words between names of the trace: "call in operator under range"."""

Line = tuple[doc.Piece, ...]


class _Entry(NamedTuple):
    """A finding's lines: all of them, those without the fix, and those with the saving alone; and what it returns at most."""

    forms: tuple[list[Line], ...]
    worth_ms: float
    detailed: tuple[list[Line], ...] = ()
    """The first two with the places behind the first; empty where none holds much."""


def one(analysis: Analysis, width: int) -> Iterator[doc.Block]:
    """Yield the screen of one trace."""
    analysis = _without_rest(analysis)
    head = [*_title(analysis, width), *_state(analysis, width)]
    shown = leading(analysis.findings)
    lead = _before(analysis, width) if shown else _remark(analysis, width)
    distance = distance_of(analysis)
    foot = _paragraphs((figures.recording(analysis.summary), distance, _start_up(analysis, operators=False)), width)
    if width < _NARROW:
        foot = kernels_lines(analysis.summary, width) + _wrapped(step_time.too_short(analysis), width, "bad") + foot
    foot += _left_out(analysis, shown, width) + _next(bool(shown), width)
    if late := step_time.lead_lost(analysis.summary):
        foot = _wrapped(late, width) + foot
    unsaid, told = _elsewhere(analysis, width), phases.sentence(analysis.phases)
    entries, most = _entries(analysis, shown, width), _most(LINES, width)
    first = _wrapped(told, width) + _wrapped(step_time.models(analysis.summary), width)
    copied = _wrapped(step_time.copies(analysis.summary), width)
    # No finding is left out for what kernels without a limit are made of, nor for a note; the second keeps its place before the
    # first, and none loses its fix for small notes.
    rest, plain = most - sum(map(len, (head, lead, first, foot))), _elsewhere(analysis, width, tell="why")
    if _with_place(entries, rest - len(unsaid)) < _with_place(entries, rest - len(plain)):
        unsaid = plain
    spare = rest - len(unsaid) - len(host_lines(analysis.summary, width, most))
    noted = _noted(analysis, shown, width, _NOTED)
    if len(noted) > spare - sum(len(entry.forms[0]) for entry in entries):
        noted = _noted(analysis, shown, width, _LARGE)
    # No finding loses its fix or its place for these.
    if _kept(entries, rest - len(unsaid) - len(noted)) == _kept(entries, rest - len(unsaid)):
        foot = noted + foot
    summary = analysis.summary
    batch = step_time.batch_host(summary, batches=bool(analysis.phases))
    passes, blocked = _wrapped(step_time.passes(summary), width), _wrapped(step_time.blocked(analysis), width)
    marked = _wrapped(step_time.ranges(summary), width)
    ends, slowed = _wrapped(_ends(analysis), width), _slowed(analysis, width)
    launched = _wrapped(step_time.launches(summary), width)
    cold, gap = (_wrapped(told, width) for told in (step_time.first_layer(summary), step_time.recurring_gap(summary)))
    for more in (
        copied,
        launched,
        marked,
        cold,
        gap,
        blocked,
        ends,
        slowed,
        _wrapped(step_time.slow(summary), width),
        passes,
    ):
        left = most - sum(map(len, (head, lead, first, unsaid, foot)))
        first += more * (_kept(entries, left) == _kept(entries, left - len(more)))
    head, first = _beside_kernels(analysis, width, head, first, passes)
    # For the host's time in a batch of an engine the later ones do.
    more = _wrapped(batch, width)
    left = most - sum(map(len, (head, lead, first, unsaid, foot)))
    first += more * (_with_place(entries, left) == _with_place(entries, left - len(more)))
    room = most - sum(map(len, (head, lead, first, foot)))
    short = _elsewhere(analysis, width, tell="neither")
    rows, in_short = (_room_of_waits(analysis.summary, entries, room - len(lines)) for lines in (unsaid, short))
    # That the limit of some kernels is not known is worth less than what the CPU does while the GPU waits for it, and than a fix.
    if not rows and host_lines(analysis.summary, width, in_short):
        rows, unsaid = in_short, short
    elif _kept(entries, room - len(unsaid)) != _kept(entries, room - len(short)):
        unsaid = short
    between = first + unsaid + (waiting := host_lines(analysis.summary, width, rows))
    if waiting:
        entries = _entries(analysis, shown, width, _waiting_lines(summary))
    # These are said where nothing loses a line for them.
    small = "" if _start_up(analysis) else _start_up(analysis, _SMALL_STARTUP)
    few = "" if copied else step_time.copies(summary, step_time.LESS_COPIED)
    for text in (step_time.collectives(summary), few, _opened(analysis, small)):
        more = _wrapped(text, width)
        spare = most - sum(map(len, (head, lead, between, foot))) - sum(len(entry.forms[0]) for entry in entries)
        between += more * (len(more) <= spare)
    foot = _with_operators(analysis, width, entries, foot, most - sum(map(len, (head, lead, between, foot))))
    head = _with_families(summary, width, entries, head, most - sum(map(len, (lead, between, foot))))
    yield from _page(head, lead, entries, between + foot, most)


def _with_families(summary: Summary, width: int, entries: list[_Entry], head: list[Line], room: int) -> list[Line]:
    """Give the kinds of kernels that one line leaves to the others a second one, where nothing loses a line or a place for it."""
    short, full = (kernels_lines(summary, width, much=much) for much in (None, _SOME_LEFT))
    at = next((at for at in range(len(head)) if short and head[at : at + len(short)] == short), None)
    taken = sum(max(map(len, (entry.forms[0], *entry.detailed[:1]))) for entry in entries)
    if at is None or len(head) + len(full) - len(short) + taken > room:
        return head
    return head[:at] + full + head[at + len(short) :]


def _waiting_lines(summary: Summary) -> frozenset[str]:
    """Return the lines of the source that the waits for the CPU are divided among: ``model.py:37``."""
    parts = [part for part in summary.host_time if part.kind == "function" and part.share >= _PART]
    return frozenset(step_time.host_part(part).split(" ")[0] for part in parts)


def _with_operators(analysis: Analysis, width: int, entries: list[_Entry], foot: list[Line], room: int) -> list[Line]:
    """Name in the line of start-up the operators that it is spread over, where no finding loses a line for them."""
    short, full = (_wrapped(_start_up(analysis, operators=operators), width) for operators in (False, True))
    if not short or _kept(entries, room) != _kept(entries, room - len(full) + len(short)):
        return foot
    at = next((at for at in range(len(foot)) if foot[at : at + len(short)] == short), None)
    return foot if at is None else foot[:at] + full + foot[at + len(short) :]


def _beside_kernels(
    analysis: Analysis, width: int, head: list[Line], first: list[Line], passes: list[Line]
) -> tuple[list[Line], list[Line]]:
    """Put the passes of a training step, in short, where the smaller kinds of kernels stand, unless *first* holds them.

    All is as it was where none of these kinds is small.
    """
    summary = analysis.summary
    if not passes or first[-len(passes) :] == passes:
        return head, first
    short = [*_title(analysis, width), *_state(analysis, width, rows=1)]
    # Where all of them have no room, those of a twentieth do.
    told = (_wrapped(step_time.passes(summary, brief=True, least=least), width) for least in (None, _PART))
    brief = next((lines for lines in told if lines and len(short) + len(lines) <= len(head)), [])
    row = "".join(str(piece) for line in kernels_lines(summary, width, rows=1) for piece in line)
    large = [clean(part.family) for part in summary.kernel_time if part.share >= _TENTH and part.family != _REST]
    fits = bool(brief) and all(name in row for name in large)
    return (short, first + brief) if fits else (head, first)


def _room_of_waits(summary: Summary, entries: list[_Entry], room: int) -> int:
    """Return how many lines there are for what the CPU does while the GPU waits for it, of *room* below what comes before.

    Beside what the findings leave that is what findings take for their fixes, and for their places, which return a small part of
    that time at most: none is left out for it.
    """
    total, by_line = sum(part.ms for part in summary.host_time), any(part.kind == "line" for part in summary.host_time)
    before = _shrunk(entries, room)
    for rows in range(_HOST_ROWS, 0, -1):
        after = _shrunk(entries, room - rows)
        less = [(form, entry) for form, was, entry in zip(after, before, entries, strict=False) if form > was]
        # Lines of the source divide the whole step, which no finding returns: they take none of its lines.
        cheap = not less or (not by_line and all(entry.worth_ms <= _YIELDS[form] * total for form, entry in less))
        if len(after) == len(before) and cheap and _taken(entries, after) <= max(room - rows, 0):
            return rows
    return 0


_YIELDS = (0.0, 0.15, 0.1)
"""Of the time in which the GPU waits for the CPU: what a finding returns at most that loses its fix, or its place, to it."""


def _with_room(entries: list[_Entry], room: int) -> int:
    """Count the findings that have room: the first with its place and fix, the others with their titles and savings."""
    lengths = [len(entry.forms[2 if at else 0]) for at, entry in enumerate(entries)]
    return sum(sum(lengths[: count + 1]) <= room for count in range(len(lengths)))


def _with_place(entries: list[_Entry], room: int) -> tuple[int, int]:
    """Count the findings that have room, and of the first two those that have it for their places as well."""
    return _with_room(entries, room), sum(form < len(entries[0].forms) - 1 for form in _shrunk(entries, room)[:2])


def _kept(entries: list[_Entry], room: int) -> list[int]:
    """Return what each finding keeps of its lines where there is so much room; those that have none are left out."""
    form = _shrunk(entries, room)
    return form if _taken(entries, form) <= max(room, 0) else []


def _most(lines: int, width: int) -> int:
    return lines if width >= _NARROW else lines + lines // 5


def _page(
    head: list[Line], lead: list[Line], entries: list[_Entry], foot: list[Line], most: int
) -> Iterator[doc.Block]:
    """Yield lines; where they are too many, findings lose their fixes, then their places, and the last ones their lines."""
    form = _shrunk(entries, most - len(head) - len(lead) - len(foot))
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


def _shrunk(entries: list[_Entry], room: int) -> list[int]:
    """Return the form of each finding that is shown in some lines.

    Where they are too few, what returns least loses its fix, then its place, which tells twice as much; then the last findings go.
    """
    form = [0] * len(entries)
    steps = [(less * entries[at].worth_ms, less, -at) for less in (1, 2) for at in range(1, len(entries))]
    for _, less, at in sorted(steps):
        if _taken(entries, form) > room:
            form[-at] = less
    while len(form) > 1 and _taken(entries, form) > room:
        form = form[:-1]
    return form


def _taken(entries: list[_Entry], form: Sequence[int]) -> int:
    return sum(len(entry.forms[at]) for entry, at in zip(entries, form, strict=False))


# ---- what was recorded


def _title(analysis: Analysis, width: int) -> list[Line]:
    """Return the trace's name, devices and steps."""
    name = clean(analysis.trace.path)
    aside = _DOT.join(figures.circumstances(analysis))
    if columns(name) + len(_DOT) + columns(aside) <= width:
        return [(doc.Span(name), _DOT + aside)]
    return [(doc.Span(name),), *_wrapped(aside, width)]


def _state(analysis: Analysis, width: int, rows: int = 2) -> list[Line]:
    """Return the headline, where the time goes, kernels in so many rows at most, and what reading lost."""
    lines = _wrapped(analysis.headline.text, width, "strong") if analysis.headline is not None else []
    if not _captures_alone(analysis) and (causes := time_line(analysis.summary, width)):
        lines.append((causes,))
    # Where lines are narrow it stands below the findings: the first one's price has a place among the first lines.
    if width >= _NARROW:
        least = _KERNELS if leading(analysis.findings) else _KERNELS_ALONE
        lines += kernels_lines(analysis.summary, width, least, rows)
        lines += _wrapped(step_time.too_short(analysis), width, "bad")
    if unlike := unprofiled_line(analysis.summary, width):
        lines.append((unlike,))
    if analysis.memory_peak is not None:
        lines += _wrapped(holders.sentence(analysis.memory_peak), width)
    for doubt in figures.doubts(analysis.quality):
        lines += _wrapped(f"{doubt.name}, {doubt.meaning}: {doubt.messages}", width, "bad")
    if (prediction := analysis.what_if) is not None:
        lines += _wrapped(f"What if {', '.join(prediction.rules)}: {all_fixes(analysis.summary, [prediction])}", width)
    return lines


def _captures_alone(analysis: Analysis) -> bool:
    """Tell whether a recording is a graph's capture but for so little that nobody can use shares of it, and nothing was found."""
    summary, headline = analysis.summary, analysis.headline
    if headline is None or headline.kind != "capture only" or leading(analysis.findings):
        return False
    return summary.whole_ms < _REST_OF_CAPTURE * (summary.extent_ms or summary.window_ms)


_REST_OF_CAPTURE = 0.1
"""Of a recording that is a capture: of less beside it nothing is said."""


def _without_rest(analysis: Analysis) -> Analysis:
    """Leave out where the time beside a capture goes, where that is next to nothing."""
    if not _captures_alone(analysis):
        return analysis
    return msgspec.structs.replace(
        analysis, elsewhere=[], summary=msgspec.structs.replace(analysis.summary, host_time=[])
    )


def _start_up(analysis: Analysis, least: float = _MUCH_STARTUP, *, operators: bool = True) -> str:
    """Return what of the recording is start-up, from the part *least* on; nothing where the headline says what it is.

    *operators*: with those that it is spread over.
    """
    headline = analysis.headline
    said = headline is not None and (_STARTUP_SAID in headline.text or headline.kind in _NOTHING_STEADY)
    return "" if said else figures.start_up(analysis.summary, least, operators=operators)


def _opened(analysis: Analysis, small: str) -> str:
    """Return the line *small* of start-up; without one, and without a longer one, which call creates the GPU's context."""
    return small or ("" if _start_up(analysis) else figures.context(analysis.summary))


def _ends(analysis: Analysis) -> str:
    """Return what else is not counted, where neither the headline nor the line of start-up says it."""
    headline = analysis.headline
    if headline is not None and ("not counted" in headline.text or headline.kind in _NOTHING_STEADY):
        return ""
    return figures.ends(analysis.summary, first=not _start_up(analysis), span_ms=analysis.trace.span_ms)


def _slowed(analysis: Analysis, width: int) -> list[Line]:
    """Return when the GPU ran slower than it does otherwise."""
    return [line for note in analysis.quality if note.code == _SLOWED for line in _wrapped(note.message, width)]


_SLOWED = "slowed-device"
"""Code of that note."""


def time_line(summary: Summary, width: int) -> str:
    """Return ``step 126 ms: compute 49.8 %, host 23.1 %, other 2.0 %``, as much as fits a line."""
    parts = [(part.cause.replace("_", " "), part.percent) for part in figures.causes(summary)]
    parts = [(name, percent) for name, percent in parts if percent >= _SHOWN]
    if not parts:
        return figures.span(summary)
    unit = ("mean step" if figures.uneven(summary) else "step") if summary.step_ms else "window"
    unit = f"cold {unit}" if summary.cold else unit
    whole = duration(figures.whole_ms(summary))
    if summary.unsteady:
        unit += " steady" if summary.step_ms and not summary.cold else " outside start-up"
        whole += "" if summary.step_ms else f" of {duration(summary.extent_ms or summary.window_ms)}"
    if summary.step_ms and figures.uneven(summary):
        whole += f" (median {duration(summary.step_ms.median)})"
    return _in_a_line(f"{unit} {whole}: ", parts, width)


def _paragraphs(texts: Iterable[str], width: int) -> list[Line]:
    """Return the lines of texts, each from a line of its own."""
    return [line for text in texts if text for line in _wrapped(text, width)]


def _listed_kinds(families: Sequence[KernelTime], total: float) -> list[tuple[str, float]]:
    """Return each named kind of kernels as the line has it, with its share in percent."""
    return [
        (f"{clean(part.family)} {100 * part.share:.0f} %{step_time.with_casts(part, total)}", 100 * part.share)
        for part in families
        if part.family != _REST
    ]


def kernels_lines(
    summary: Summary, width: int, least: float | None = None, rows: int = 2, *, much: float | None = None
) -> list[Line]:
    """Return ``kernels 62.7 ms: matrix products 47 %, softmax 31 %, other 22 %``, where kernels take so much of the step.

    Of a program on the CPU its operators. In one line, of two *rows* where that leaves *much* to the others, in percent.
    """
    families = summary.kernel_time or summary.operator_time
    total = sum(part.ms for part in families)
    if not total or total < (_KERNELS if least is None else least) * summary.whole_ms:
        return []
    first = _of_families(summary, total)
    parts = _listed_kinds(families, total)
    texts = [text for text, _ in parts]
    rest = 100 - sum(part for _, part in parts)
    two: list[Line] = []
    for count in range(sum(part >= _LEAST for _, part in parts), 0, -1):
        left = rest + sum(part for _, part in parts[count:])
        listed = [*texts[:count], *([f"{_REST} {left:.0f} %"] if left >= _SHOWN_WHOLE else [])]
        lines = _filled(first, listed, width)
        if len(lines) == 1:
            return two if two and left >= (_MUCH_LEFT if much is None else much) else lines
        two = two or (lines if len(lines) == _ROWS <= rows else [])
    return two


def _of_families(summary: Summary, total: float) -> str:
    """Return the start of that line."""
    if not summary.kernel_time:
        return f"operators {duration(total)}: "
    return f"kernels {duration(total)}{' (mean step)' if summary.mean_apart else ''}: "


def host_lines(summary: Summary, width: int, most: int) -> list[Line]:
    """Return ``waits for the CPU 142 ms: backward 64 %, optimizer 22 %, ...``, where that is much of the step.

    In as many lines as there is room for, *most*. Every part of a twentieth or more is named for which there is room; functions
    of one file behind the first of them.
    """
    mean = step_time.with_mean_waits(summary)
    summary, of_mean = mean, " (mean)" if mean is not summary else ""
    total = sum(part.ms for part in summary.host_time)
    if not total or total < _KERNELS * summary.whole_ms:
        return []
    named = [part for part in summary.host_time if part.kind != "others" and part.share >= _PART]
    for count in range(len(named), 0, -1):
        rest = 100 - sum(100 * part.share for part in named[:count])
        parts = [f"{name} {100 * part.share:.0f} %" for part, name in _of_files(named[:count])]
        listed = [*parts, *([f"{_REST} {rest:.0f} %"] if rest >= _SHOWN_WHOLE else [])]
        what = "time by line" if named[0].kind == "line" else "waits for the CPU"
        # In a single line there is no room for what these waits are divided in.
        room = width - columns(what + of_mean) - len(" :") if most > 1 else 0
        lines = _filled(f"{what} {step_time.waits_for(summary, room)}{of_mean}: ", listed, width)
        if len(lines) <= min(_HOST_ROWS, most):
            return lines
    return []


def _of_files(parts: Sequence[HostTime]) -> list[tuple[HostTime, str]]:
    """Name parts in short; a function of the file of that before it without the file, one of its name by the line alone."""
    files: dict[str, list[HostTime]] = {}
    for part in parts:
        files.setdefault(
            part.where.split(":")[0] if part.kind in ("function", "line") else step_time.host_part(part), []
        ).append(part)
    named: list[tuple[HostTime, str]] = []
    for group in files.values():
        said = ""
        for at, part in enumerate(group):
            name = step_time.host_part(part)
            place = name.partition(":")[2]
            line, _, function = place.partition(" ")
            named.append((part, name if not at else f":{line}" if function == said else f":{place}"))
            said = function
    return named


def _filled(first: str, parts: Sequence[str], width: int) -> list[Line]:
    """Join parts with commas, in lines that are full; each but the first is set in."""
    comma = "," if len(parts) > 1 else ""
    if columns(first + parts[0] + comma) <= width:
        lines = [first + parts[0]]
    else:
        lines = [first.rstrip(), f"    {parts[0]}"]
    for part in parts[1:]:
        if columns(lines[-1]) + columns(part) + len(", ,") <= width:
            lines[-1] += f", {part}"
        else:
            lines = [*lines[:-1], f"{lines[-1]},", f"    {part}"]
    return [(line,) for line in lines]


def unprofiled_line(summary: Summary, width: int) -> str:
    """Return the same of the step without the profiler, where that is divided otherwise; else nothing."""
    shares, recorded = summary.unprofiled_causes, summary.steady_causes
    if (
        summary.unprofiled_ms is None
        or not shares
        or all(abs(shares.get(k, 0.0) - v) < _UNLIKE for k, v in recorded.items())
    ):
        return ""
    ordered = sorted(shares.items(), key=lambda one: -one[1])
    parts = [(cause.replace("_", " "), 100 * part) for cause, part in ordered if 100 * part >= _SHOWN]
    return _in_a_line(f"without the profiler {duration(summary.unprofiled_ms)}: ", parts, width)


def _in_a_line(first: str, parts: Sequence[tuple[str, float]], width: int) -> str:
    """Return as many of the causes, with their percents, as fit a line; the others together.

    Where one of *_HIDDEN* percent or more would be among these, percents are whole ones if that shows more.
    """
    count, text = _fitting(first, parts, width, 1)
    if any(part >= _HIDDEN for _, part in parts[count:]):
        more, shorter = _fitting(first, parts, width, 0)
        text = shorter if more > count else text
    return text


def _fitting(first: str, parts: Sequence[tuple[str, float]], width: int, digits: int) -> tuple[int, str]:
    """Return how many of the causes fit a line, and the line."""
    least = _SHOWN if digits else _SHOWN_WHOLE
    for count in range(sum(part >= least for _, part in parts), 0, -1):
        rest = sum(part for _, part in parts[count:])
        listed = [*parts[:count], *([("other", rest)] if rest >= least else [])]
        text = first + ", ".join(f"{name} {part:.{digits}f} %" for name, part in listed)
        if columns(text) <= width:
            return count, text
    return 0, first.rstrip(": ")


def distance_of(analysis: Analysis) -> str:
    """Return how far the step of an analysis is from what the device can do."""
    features, precision = analysis.trace.features, analysis.program.precision if analysis.program else None
    slowed = features.stacks and not features.stacks_apart
    told = limit(analysis.summary, stacks=slowed, headline=analysis.headline, precision=precision)
    return told or _unmodelled(analysis)


def _unmodelled(analysis: Analysis) -> str:
    """Say why the limits of most kernels are not known, where no place without a finding says it.

    Without shapes it is a matter of the recording, which has remarks of its own.
    """
    summary, kind = analysis.summary, analysis.headline.kind if analysis.headline is not None else ""
    if (
        not summary.unmodelled
        or not analysis.trace.features.shapes
        or kind in _NOTHING_STEADY
        or figures.modelled(summary)
    ):
        return ""
    first = summary.unmodelled[0]
    if first.ms < _UNTOLD * summary.priced_ms or any(part.unknown == first.reason for part in analysis.elsewhere):
        return ""
    known, reason = share(summary.modelled_share or 0.0), clean(first.reason)
    if known == share(0.0):
        return f"Limits of kernels are not known: {reason}"
    return f"Limits are known for {known} % of kernel time, and not for {duration(first.ms)}: {reason}"


_UNTOLD = 0.1
"""Of the step: kernels of less may go without a limit and without a word."""


def limit(
    summary: Summary, *, stacks: bool = False, headline: Headline | None = None, precision: str | None = None
) -> str:
    """Return how far the step is from what the device can do; nothing where too little of its kernels' work is known.

    What it can do is that of its *precision*: where a shorter one may be had, the name of it is said.

    *stacks* says that recording them slowed the host down: then a step that faster kernels leave as it is may be the profiler's.
    Of a recording in which nothing is steady, as *headline* says, there is no step to shorten.
    """
    if not figures.modelled(summary) or summary.limit_ms is None or summary.reachable_ms is None:
        return ""
    if headline is not None and headline.kind in _NOTHING_STEADY:
        return ""
    mfu = f", MFU {share(summary.mfu)} %" if summary.mfu is not None and summary.mfu >= figures.LEAST_MFU else ""
    at = f" at {precision}" if precision in _LONG else ""
    known = summary.modelled_share or 0.0
    if known < _ALL_KNOWN:
        mfu = f" (limits are known for {share(known)} % of kernel time){mfu}"
    causes = summary.steady_causes or summary.causes
    reached = summary.kernel_efficiency or 0.0
    if reached >= _NEAR and causes.get("compute", 0.0) >= _NEAR and known >= _ALL_KNOWN:
        most = duration(max(summary.priced_ms - summary.limit_ms, 0.0))
        return f"Kernels are at {share(reached)} % of what this GPU reaches{at}: at its limit they return at most {most}{mfu}"
    if figures.no_shorter(summary):
        return _no_faster(summary, _holder(summary), stacks=stacks and summary.unprofiled_ms is None) + mfu
    return _faster(summary, _holder(summary), at) + mfu


_LONG = frozenset(("fp64", "fp32"))
"""Formats of numbers in which this GPU, or another, is much slower than in a shorter one."""
_UNLIKE = 0.1
"""Difference of a cause's share from which on the step without the profiler has a line of its own."""
_KERNELS, _KERNELS_ALONE, _LEAST = 0.1, 0.05, 1.5
"""Of the step: kernels of less are not divided, and where nothing was found. Percent of their time: a family of less is one of the
others."""
_HOST_ROWS, _PART = 4, 0.05
"""Lines at most of the time in which the GPU waits for the CPU; a part of less of it is one of the others."""
_ROWS, _MUCH_LEFT, _SOME_LEFT = 2, 10.0, 4.5
"""Lines that they are divided in at most, the second only where the first leaves so many percent to the others, or so many where
the screen has lines left."""
_REST = "other"
"""Family of kernels that are of no other: shown with those that have no room."""
_SHOWN = 0.05
"""Percent from which on a cause does not round to nothing."""
_SHOWN_WHOLE = 0.5
"""The same of whole percents."""
_HIDDEN = 10.0
"""Percent of a cause that is too much to stand among others where whole percents leave it room."""
_BUSY = 0.75
"""Part of the step in which the device computes, from which on it is the kernels that take the step's time."""


def _no_faster(summary: Summary, holds: str, *, stacks: bool) -> str:
    """Say what limits a step that faster kernels leave as it is."""
    if holds == _RANKS:
        return f"Faster kernels would hardly shorten this rank's step: it waits for {_RANKS}"
    if stacks and (summary.steady_causes or summary.causes).get("compute", 0.0) >= _BUSY:
        # The device hardly waits: that launches would take as long is the recording's doing, and no advice.
        most = duration(max(summary.priced_ms - (summary.reachable_ms or summary.priced_ms), 0.0))
        return f"Faster kernels alone return at most {most} as recorded: stacks made the CPU as slow as the GPU"
    alone = f"Faster kernels alone would not shorten the {'step' if summary.step_ms else 'window'}"
    if stacks:
        limits = f"{holds} and {_CPU} limit" if holds not in ("", _CPU) else f"{_CPU} limits"
        return f"{alone}: {limits} it (stacks were recorded, which slows the CPU)"
    return alone + (f": {_limits(holds)} it" if holds else "")


def _faster(summary: Summary, holds: str, at: str) -> str:
    """Say what faster kernels leave of the step, and what limits it then, where it is no matter how fast they are."""
    (first, least, most), unit = in_one_unit(summary.priced_ms, summary.limit_ms or 0.0, summary.reachable_ms or 0.0)
    if least != most:
        return f"{_AS_FAST}{at}: {first} → {most} {unit} ({least} {unit} at its theoretical peak)"
    then = f", then {_limits(holds)} the {'step' if summary.step_ms else 'window'}" if holds else ""
    return f"{_AS_FAST}{at}: {first} → {least} {unit}{then}"


_AS_FAST = "With today's kernels as fast as the GPU can run them"


def _limits(holds: str) -> str:
    """Return what limits a step, with its verb."""
    who = f"waiting for {_RANKS}" if holds == _RANKS else holds
    return f"{who} limit{'s' if who.startswith('waiting') or not who.endswith('s') else ''}"


def _holder(summary: Summary) -> str:
    """Name what limits the step beside kernels: the largest cause that is none of them; nothing where that is no answer."""
    causes = summary.unprofiled_causes or summary.steady_causes or summary.causes
    rest = {name: part for name, part in causes.items() if name in _HOLDERS}
    most = max(rest, key=lambda name: rest[name], default="")
    if most == "communication" and 2 * (summary.rank_wait_ms or 0.0) >= rest[most] * summary.whole_ms:
        return _RANKS
    return _HOLDERS.get(most, "") if rest.get(most) else ""


# ---- what to do


def leading(findings: Sequence[Finding]) -> list[Finding]:
    """Choose the findings that are listed: those that return something, or have no price."""
    return [finding for finding in findings if finding.severity != "note" and finding.after is None][:MOST]


def together(analysis: Analysis) -> str:
    """Return what the fixes come to that are listed: ``All fixes: step 126 → 60–106 ms``; nothing where none has a price.

    Savings that are notes, or are more than are listed, are in the plan of the whole report.
    """
    shown = {finding.rule for finding in leading(analysis.findings)}
    plan = [step for step in analysis.plan if step.rules[0] in shown]
    if not plan:
        return ""
    fixes = "All fixes" if len(plan) == len(analysis.plan) else "These fixes" if len(plan) > 1 else "This fix"
    return f"{fixes}: {all_fixes(analysis.summary, plan)}"


def _remark(analysis: Analysis, width: int) -> list[Line]:
    """Lines that stand where no finding leads: how to record what one could speak of."""
    note = figures.remark(analysis)
    if note is None:
        return [("No findings.",)]
    (message, _, _), (title, _, _) = note.message.partition(" ("), note.advice.partition(". ")
    lines = _wrapped(f"No findings. {message} ({note.code}).", width)
    lines += [(f"{_INSET}{line}",) for line in wrap(f"→ {title.rstrip('.')}", width - len(_INSET))]
    code = [_INSET + line for line in clean_lines(note.example or "")]
    return lines + [(doc.Span(line, "code"),) for line in code if max(map(columns, code)) <= width]


def _before(analysis: Analysis, width: int) -> list[Line]:
    """Return the line above the findings: all fixes together; where lines are short, without what savings do to later ones."""
    text, each = together(analysis), of_each(analysis)
    each = "; ".join(filter(None, (text, each if width >= _WIDE else each.removesuffix(f"; {LESS}"))))
    return _wrapped(f"{each}:", width) if text else []


LESS = "where one is high, later ones are low"
_WIDE = 80
"""Columns from which on the lines above the first finding leave room for more than what it needs."""


def of_each(analysis: Analysis) -> str:
    """Say what each saving counts, and where they do not add up: a fix that saves most where the others save least."""
    if len(_priced(analysis)) < _SEVERAL:
        return ""
    return "each saving counts after those above it" + (f"; {LESS}" if overlap(analysis) else "")


def overlap(analysis: Analysis) -> bool:
    """Tell whether the savings of several fixes add up to something else than they return together."""
    savings = {finding.rule: finding.saving for finding in leading(analysis.findings) if finding.saving is not None}
    plan = _priced(analysis)
    if len(plan) < _SEVERAL:
        return False
    whole, after = plan[0].step_ms_before, plan[-1].step_ms_after
    sums = {
        "low": sum(saving.high_ms for saving in savings.values()),
        "high": sum(saving.low_ms for saving in savings.values()),
    }
    return any(abs(whole - total - after.get(end, whole - total)) > _APART * whole for end, total in sums.items())


def _priced(analysis: Analysis) -> list[PlanStep]:
    """Return the fixes of the plan whose saving the screen shows."""
    shown = {finding.rule for finding in leading(analysis.findings) if finding.saving is not None}
    return [step for step in analysis.plan if step.rules[0] in shown]


def all_fixes(summary: Summary, plan: Sequence[PlanStep]) -> str:
    """Return ``126 → 28–106 ms a step (1.2–4.5× as fast)``; in percent where it is hardly faster at best."""
    after, first, last = plan[-1].step_ms_after, plan[0], plan[-1]
    least, most = after.get("low", last.step_ms_before), after.get("high", last.step_ms_before)
    unit = "step" if summary.step_ms else "window"
    (before, *then), scale = in_one_unit(first.step_ms_before, max(least, 0.0), max(most, 0.0))
    gain = f"{_times(last)} as fast"
    if last.speedup < _FASTER:
        gain = f"at most {share(1 - 1 / max(last.speedup, 1.0))} % shorter"
    return f"{unit} {before} → {'–'.join(dict.fromkeys(then))} {scale} ({gain})"


_FASTER = 1.05
"""Times as fast from which on a step is said to be so."""


def _times(step: PlanStep) -> str:
    ends = [step.speedup] if step.speedup_low is None else [step.speedup_low, step.speedup]
    return "–".join(dict.fromkeys(f"{times:.1f}" for times in ends)) + "×"


def _entries(
    analysis: Analysis, findings: Sequence[Finding], width: int, waiting: frozenset[str] = frozenset()
) -> list[_Entry]:
    """Compose the lines of findings; *waiting*: lines of the source that the screen divides the waits for the CPU among.

    A finding about these waits names such a line without its own share of it: that is of the launches behind them, another figure.
    """
    training = {rule for step in analysis.plan if step.changes_training for rule in step.rules}
    place = {finding.rule: index for index, finding in enumerate(analysis.findings, 1)}

    def composed(finding: Finding, beside: str) -> _Entry:
        worth, module = saving(finding, analysis.findings, analysis.summary) + beside, _told_apart(finding, analysis)
        divided = finding.category == _WAITS and any(f"{line} " in f"{where(finding)} " for line in waiting)
        return entry(
            finding, place[finding.rule], width, worth, finding.rule in training, module=module, divided=divided
        )

    entries = []
    for finding in findings:
        bare = told = composed(finding, "")
        if width >= _NARROW and (beside := aside(finding, analysis.findings)):
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
    if place is None or not same or len(models) < _SEVERAL:
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
) -> _Entry:
    """Compose the lines of a finding: its title and what it saves, its place, and its fix.

    *divided*: its places are said elsewhere with their shares.
    """
    level = doc.Span(f"{finding.severity.upper():6}", finding.severity)
    title = wrap(clean(finding.title) + (f", in {module}" if module else ""), width - _MARGIN)
    head: list[Line] = [(f"{index:>2} ", level, " ", doc.Span(title[0]))]
    head += [(" " * _MARGIN, doc.Span(line)) for line in title[1:]]
    last = columns(title[-1])
    beside = _MARGIN + last + 2 + columns(worth) <= width
    if beside:
        blanks = min(width, 100) - _MARGIN - last - columns(worth)
        head[-1] = (*head[-1], " " * max(blanks, 2), worth)
    place, fix = where(finding), words(finding) + (" (may affect accuracy)" if training else "")
    place = _PART_OF_ALL.sub("", place) if divided else place
    saved = [] if beside else [worth]
    full = _packed([*saved, place, f"→ {fix}"], width, place)
    forms = (head + full, head + _packed([*saved, place], width, place), head + _packed(saved, width, ""))
    detailed: tuple[list[Line], ...] = ()
    if more := "" if divided else places_behind(finding):
        parts = ([*saved, place, more, f"→ {fix}"], [*saved, place, more])
        detailed = tuple(head + _packed(of, width, place) for of in parts)
    return _Entry(forms, finding.cost_ms if finding.saving is None else finding.saving.high_ms, detailed)


def _packed(parts: Sequence[str], width: int, place: str) -> list[Line]:
    """Pack texts into lines behind the margin; a place that does not fit stands alone, from the first column."""
    room, lines, text = width - _MARGIN, list[Line](), ""
    for part in filter(None, parts):
        between = " " if part.startswith("→") else _DOT
        if text and columns(text) + len(between) + columns(part) <= room:
            text += between + part
            continue
        if text:
            lines.append((" " * _MARGIN + text,))
        text = part
        if part == place and columns(part) > room:
            lines.append((part,))
            text = ""
        elif columns(part) > room:
            *whole, text = wrap(part, room)
            lines += [(" " * _MARGIN + line,) for line in whole]
    return [*lines, (" " * _MARGIN + text,)] if text else lines


def where(finding: Finding) -> str:
    """Return the place to look at first; may be empty.

    Where one process drives several GPUs, also the one whose time it is.
    """
    place, gpus = next(iter(finding.where), None), figures.gpus(finding)
    text = place and (_several_places(finding.where) or figures.first_place(place))
    return ", ".join(part for part in (clean(text or ""), gpus) if part)


def _several_places(places: Sequence[Place]) -> str:
    """Return ``nccl:all_to_all (63 %), nccl:all_gather (35 %)`` or ``model.py:37 in forward (28 %) and others``."""
    texts = _named_places(places)
    return ", ".join(texts) + (" and others" if len(texts) == 1 else "")


def _named_places(places: Sequence[Place]) -> list[str]:
    """Return the places of a spread cost that a finding names, with their shares; none where the first stands for all.

    Lines that hold much are named as long as they fit a line, operators all of them. None as well where more is known of the first.
    """
    large = [place for place in places if place.share >= _MUCH]
    if not large or large[0].share >= _MOST:
        return []
    if any((not place.file and (place.library or place.module)) or place.through for place in large):
        return []
    names = [figures.first_place(large[0]), *(figures.short_place(at, large[0]) for at in large[1:])]
    operators = not any(place.file for place in large)
    if operators:
        names = [figures.operator_name(place, with_around=len(large) == 1) for place in large]
    texts = [f"{name} ({share(place.share)} %)" for name, place in zip(names, large, strict=True)]
    fitting = [count for count in range(1, len(texts) + 1) if columns(", ".join(texts[:count])) <= _PLACES_LINE]
    return texts if operators else texts[: max(fitting, default=1)]


def places_behind(finding: Finding) -> str:
    """Return ``also :68 apply_rotary_pos_emb 22 %, :61 rotate_half 11 %``, where the place says no more than "and others".

    So it does of a cost of which one place is named, and of a library's lines that the user's calls.
    """
    place = next(iter(finding.where), None)
    if place is None:
        return ""
    named = _named_places(finding.where)
    if not named and figures.leads_to_several(place):
        behind = [one for one in place.through if figures.telling(one.library)]
        first, found = behind[0].library.rpartition(":")[0], [(one.library, one.share) for one in behind[1:]]
        found = [(_short_line(library, first), part) for library, part in found]
    elif len(named) != 1:
        return ""
    else:
        found = [(figures.short_place(one, place), one.share) for one in finding.where[1:]]
    return "also " + ", ".join(texts) if (texts := _listed(found)) else ""


def _short_line(library: str, file: str) -> str:
    """Return a library's line without the folders of its file, and of *file* without its name."""
    name = library.rpartition(":")
    return f":{name[2]}" if name[0] == file else library.rpartition("/")[2]


def _listed(found: Sequence[tuple[str, float]]) -> list[str]:
    """Return names with their shares: those that hold a tenth, as many as fit a line."""
    texts = [f"{clean(name)} {share(part)} %" for name, part in found if name and part >= _TENTH]
    fitting = [at for at in range(1, len(texts) + 1) if columns(", ".join(texts[:at])) <= _BEHIND_LINE]
    return texts[: max(fitting, default=0)]


_TENTH, _BEHIND_LINE = 0.1, 64
_MUCH, _MOST = 0.15, 0.75
"""Share from which on a place counts as one of several, and from which on one stands for all."""
_PLACES_LINE = 78
"""Columns in which several lines have room."""


def words(finding: Finding) -> str:
    """Return the fix in a few words: the settings to change where they were recorded, else its title."""
    advised = [setting for setting in finding.settings if setting.advice]
    if advised:
        return clean(", ".join(f"{setting.name} {setting.value} → {setting.advice}" for setting in advised[:2]))
    return clean(finding.fix.title)


def saving(finding: Finding, others: Sequence[Finding], summary: Summary | None = None) -> str:
    """Return ``saves 22–44 ms (27–55 %)``, and what is saved alone where that differs; what is known instead without a price.

    The cost is the mean step's, and says so, where the step of *summary* is another.
    """
    ms, of_mean = figures.mean_cost(finding, summary)
    mean = " (mean step)" if of_mean else ""
    if finding.saving is None:
        if not finding.cost_ms:
            return figures.unpriced(finding, others)
        return f"takes {duration(ms)}{mean} ({share(finding.cost_share)} %), saving not known"
    by_itself = alone(finding.saving)
    most = (finding.saving.alone_ms or {}).get("high", 0.0)
    saved = max(finding.saving.high_ms, most if by_itself else 0.0)
    cost = f"cost {duration(ms)}{mean}, " if finding.cost_ms >= _MORE * saved > 0 else ""
    if not by_itself:
        return f"{cost}saves {finding.saving}"
    after = " after those above" if most < _BY_ITSELF * finding.saving.high_ms else ""
    return f"{cost}saves {finding.saving}{after}, {by_itself}"


def aside(finding: Finding, others: Sequence[Finding]) -> str:
    """Return what belongs beside a saving: ``, added-to-zeros included``, ``, 3.0 ms with the CPU as recorded``."""
    if finding.saving is None or alone(finding.saving):
        return ""
    return _same_change(finding, others) + _as_recorded(finding.saving)


def _as_recorded(saving: Saving) -> str:
    """Say what is saved at most with a CPU as slow as recording made it, where that is much less; else nothing."""
    if saving.recorded_ms is None or saving.recorded_ms > _BY_ITSELF * saving.high_ms:
        return ""
    return f", {duration(saving.recorded_ms)} with the CPU as recorded"


def _same_change(finding: Finding, others: Sequence[Finding]) -> str:
    """Say which finding, or how many, the same change does away with where it saves more than this one costs; else nothing."""
    same = [one.rule.rpartition("/")[2] for one in others if one.done_by == finding.rule]
    if not same or finding.saving is None or finding.saving.high_ms <= finding.cost_ms:
        return ""
    return f", {same[0] if len(same) == 1 else f'{len(same)} others'} included"


_MORE = 1.25
"""Times what a fix saves at most that a finding costs, from which on that is another figure."""
_BY_ITSELF = 0.5
"""Of what a fix saves in its place, what it saves alone: less would read as another figure of the same."""


def alone(saving: Saving) -> str:
    """Return ``alone 3.2–11.7 ms``: what a fix saves without those before it, where that is another figure; else nothing."""
    if saving.alone_ms is None:
        return ""
    low, high = saving.alone_ms.get("low", 0.0), saving.alone_ms.get("high", 0.0)
    return f"alone {durations(low, high)}" if high > 0 else "alone nothing"


def shares(saving: Saving) -> str:
    """Return the shares of a saving in percent, without the sign: ``27–55``."""
    return "–".join(dict.fromkeys((share(saving.low_share), share(saving.high_share))))


def share(part: float) -> str:
    """Return a share in percent, without the sign: whole from 10 on, one decimal below."""
    percent = 100 * max(part, 0.0)
    return f"{percent:.0f}" if percent >= 9.95 or percent == 0 else f"{percent:.1f}"


def duration(ms: float) -> str:
    """Return ``12.3 ms``, ``87 µs`` or ``2.4 s``."""
    return durations(ms, ms)


def durations(low_ms: float, high_ms: float) -> str:
    """Return ``22–44 ms``: both ends in the unit of the upper one."""
    figures_, unit = in_one_unit(max(low_ms, 0.0), max(high_ms, 0.0))
    return f"{'–'.join(dict.fromkeys(figures_))} {unit}"


# ---- what else there is


def _elsewhere(analysis: Analysis, width: int, *, tell: step_time.Tell = "made") -> list[Line]:
    """Return where time lies that no finding claims. A name is not cut: the whole report has what is longer than a line."""
    named = [
        part for part in analysis.elsewhere if max(map(columns, _NAMES.split(clean(part.where)))) + _MARGIN <= width
    ]
    return _wrapped(told, width) if (told := step_time.elsewhere(named, tell=tell)) else []


def _noted(analysis: Analysis, shown: Sequence[Finding], width: int, least: float) -> list[Line]:
    """Return the titles of notes that own so much of the step, the longest first.

    The fixes above return that, or no one knows it. What the same change does away with is counted there.
    """
    least = least if shown or least > _NOTED else _NOTED_ALONE
    notes = [one for one in analysis.findings if one.severity == "note" and one.cost_share >= least and not one.done_by]
    notes = sorted(notes, key=lambda one: -one.cost_ms)[:_MOST_NOTED]
    if not notes:
        return []
    costs = [figures.mean_cost(one, analysis.summary) for one in notes]
    taken = [f"{duration(ms)}{' (mean step)' if of_mean else ''}" for ms, of_mean in costs]
    told = f"Noted: {'; '.join(f'{clean(one.title)}, {ms}' for one, ms in zip(notes, taken, strict=True))}"
    above = {finding.rule for finding in shown}
    with_others = all(one.after and set(one.after) <= above for one in notes)
    return _wrapped(f"{told} (gone with the fixes above)" if with_others else told, width)


_NOTED, _NOTED_ALONE, _LARGE, _MOST_NOTED = 0.05, 0.01, 0.15, 3
"""Of the step: what a note owns that is named where there is room, where nothing else was found, and one that takes the room of
fixes; and how many are."""


def _left_out(analysis: Analysis, shown: Sequence[Finding], width: int) -> list[Line]:
    """Return in a line what the screen leaves out."""
    real = [finding for finding in analysis.findings if finding.severity != "note"]
    names = {finding.rule for finding in shown}
    levels = [finding.severity for finding in real if finding.rule not in names]
    verdicts = analysis.verdicts
    counts = [(levels.count(level), level) for level in ("high", "medium", "low")]
    parts = [f"{count} more {level}" for count, level in counts if count]
    notes = len(analysis.findings) - len(real)
    parts += [f"{notes} note{'s' * (notes > 1)}"] if notes else []
    if about := sum(note.code not in figures.TOLD for note in analysis.quality):
        parts.append(f"{counted(about, 'remark')} on the recording")
    parts.append(f"{counted(len(verdicts.passes), 'rule')} passed")
    if verdicts.not_run:
        parts.append(f"{len(verdicts.not_run)} not run (data missing)")
    if verdicts.error:
        parts.append(f"{len(verdicts.error)} failed: {', '.join(error.rule for error in verdicts.error)}")
    told = f"Also: {', '.join(parts)}."
    return _wrapped(told + _to_record(analysis, shown), width)


def _to_record(analysis: Analysis, shown: Sequence[Finding]) -> str:
    """Say what to record for places of findings that have none."""
    features = analysis.trace.features
    if not shown or features.stacks or any(place.file for one in shown for place in one.where):
        return ""
    cpu = "For source lines record" if features.host else "For operators record the CPU too, for source lines"
    return f" {cpu} with with_stack=True."


def _next(findings: bool, width: int) -> list[Line]:
    """Return what to type next."""
    parts = ["--explain 1"] if findings else []
    parts += ["-v (everything)", "-o report.html (page)", "advisor gate (CI)"]
    return _wrapped("Next: " + _DOT.join(parts), width, "dim")


# ---- several traces


def several(document: Several, width: int) -> Iterator[doc.Block]:
    """Yield the screen of several traces: what all ranks show together comes first, then a line a trace."""
    many, across = document.traces, document.across
    head = _several_title(document, width)
    most = _most(LINES_OF_RANKS, width)
    entries: list[_Entry] = []
    if across is not None:
        entries = [
            entry(finding, index, width, saving(finding, across.findings))
            for index, finding in enumerate(across.findings[:MOST], 1)
            if finding.severity != "note"
        ]
    table = list(_each(many, across, width, most // 2 if entries else most - len(head) - 4))
    lead: list[Line] = [("Across the ranks:",)] if entries else []
    foot = [*table, *_next(False, width)]
    yield from _page(head, lead, entries, foot, most)


def _several_title(document: Several, width: int) -> list[Line]:
    many, across = document.traces, document.across
    count = counted(len(many), "trace") if across is None else f"{counted(len(across.ranks), 'rank')} of one run"
    if across is not None and across.world_size and across.world_size != len(across.ranks):
        count = f"{len(across.ranks):,} of the {across.world_size:,} ranks of one run"
    steps = [figures.whole_ms(analysis.summary) for analysis in many]
    unit = "step" if all(analysis.summary.step_ms for analysis in many) else "window"
    middles = [analysis.summary.step_ms.median for analysis in many if analysis.summary.step_ms]
    uneven = unit == "step" and any(figures.uneven(analysis.summary) for analysis in many)
    times = durations(min(steps), max(steps))
    if uneven:
        unit, times = "mean step", f"{times} (median {durations(min(middles), max(middles))})"
    names = sorted({name for analysis in many for name in figures.devices(analysis)})
    lines = _wrapped(_DOT.join([count, f"{unit} {times}", *names[:2]]), width, "strong")
    if across is not None and (waits := figures.waits(across)):
        lines += _wrapped(waits, width)
    return lines + (_mean_rank(many, across, width) if across is not None else [])


def _mean_rank(many: Sequence[Analysis], across: Across, width: int) -> list[Line]:
    """Return where the time of all ranks goes in the mean: by cause, of collectives what is waited for, and kernels."""
    summaries, whole, causes = [analysis.summary for analysis in many], 0.0, dict[str, float]()
    families: dict[str, float] = {}
    for summary in summaries:
        whole += summary.whole_ms / len(summaries)
        for cause, part in (summary.steady_causes or summary.causes).items():
            causes[cause] = causes.get(cause, 0.0) + part * summary.whole_ms / len(summaries)
        for kernels in summary.kernel_time:
            families[kernels.family] = families.get(kernels.family, 0.0) + kernels.ms / len(summaries)
    if not whole:
        return []
    shown = [
        (cause.replace("_", " "), 100 * ms / whole) for cause, ms in sorted(causes.items(), key=lambda one: -one[1])
    ]
    lines: list[Line] = [
        (_in_a_line(f"mean of the ranks {duration(whole)}: ", [one for one in shown if one[1] >= _SHOWN], width),)
    ]
    exposed, shares = causes.get("communication", 0.0), [row.wait_share for row in across.ranks]
    known = [share for share in shares if share is not None]
    if exposed >= _KERNELS * whole and len(known) == len(shares):
        waited = min(whole * sum(known) / len(known), exposed)
        lines += _wrapped(step_time.exposed(exposed, waited), width)
    total = max(sum(families.values()), 1e-9)
    ordered = sorted(families.items(), key=lambda one: -one[1])
    mean = [KernelTime(family=family, ms=ms, share=ms / total) for family, ms in ordered]
    return lines + kernels_lines(msgspec.structs.replace(summaries[0], kernel_time=mean), width)


def _each(many: Sequence[Analysis], across: Across | None, width: int, most: int) -> Iterator[Line]:
    """Yield a line a trace, in their order: its time, and what leads its own report; of a few traces their headlines."""
    if across is None and sum(map(len, told := [_told(analysis, width) for analysis in many])) <= most:
        yield from (line for lines in told for line in lines)
        return
    names = [
        f"rank {analysis.trace.rank}" if across is not None and analysis.trace.rank is not None else analysis.trace.path
        for analysis in many
    ]
    shown = list(zip(names, many, strict=True))[:most]
    wide = max((columns(clean(name)) for name, _ in shown), default=0)
    yield ("Each rank by itself, its first finding:" if across is not None else "Each trace:",)
    for name, analysis in shown:
        time = duration(figures.whole_ms(analysis.summary))
        lead = next(iter(leading(analysis.findings)), None)
        first = "no findings" if lead is None else f"{lead.rule} {saving(lead, analysis.findings, analysis.summary)}"
        label = clean(name) + " " * (min(wide, 40) - columns(clean(name)))
        line = f"  {label}  {time:>8}  {first}"
        if columns(line) <= width:
            yield (line,)
        elif columns(clean(name)) > 40:
            yield (clean(name),)
            yield from ((f"    {time:>8}  {text}",) for text in wrap(first, width - 14))
        else:
            yield (f"  {label}  {time:>8}  {'no findings' if lead is None else lead.rule}",)
    if len(many) > len(shown):
        yield (f"  and {len(many) - len(shown):,} more: -v",)


def _told(analysis: Analysis, width: int) -> list[Line]:
    headline = analysis.headline.text if analysis.headline is not None else figures.span(analysis.summary)
    return [(doc.Span(analysis.trace.path),), *(("  ", *line) for line in _wrapped(headline, width - 2))]


def _wrapped(text: str, width: int, style: doc.Style | None = None) -> list[Line]:
    """Wrap a text; the lines behind its first are set in. No text is no line."""
    text = clean(text)
    if not text:
        return []
    first, *rest = wrap(text, width) or [""]
    lines = [first, *(f"    {line}" for line in wrap(" ".join(rest), width - 4))]
    return [(doc.Span(line, style) if style else line,) for line in lines]

"""One screen: what was recorded, what to do first, what it is worth and where; for a terminal, at most a page of lines.

Lines are composed here, as wide as the terminal: nothing is cut in its middle, and only a place may run over the edge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from advisor.counting import counted
from advisor.regex import regex
from advisor.report import blocks as doc
from advisor.report import figures, holders, phases, step_time
from advisor.report.entries import Entry, entries_of, kept_forms, most_lines, page, room_of_waits, with_place
from advisor.report.limit_line import NOTHING_STEADY, distance_of
from advisor.report.lines import DOT, MARGIN, NARROW, Line, paragraphs, wrapped
from advisor.report.places import TENTH
from advisor.report.plain import clean, clean_lines, columns, wrap
from advisor.report.savings import LESS, all_fixes, duration, leading, of_each, together
from advisor.report.time_lines import (
    KERNELS,
    KERNELS_ALONE,
    PART,
    REST,
    SOME_LEFT,
    host_lines,
    kernels_lines,
    time_line,
    unprofiled_line,
)
from advisor.results.analysis import Analysis, Finding, Summary

LINES, LINES_OF_RANKS = 38, 40
_INSET = " " * 4
_MUCH_STARTUP, _SMALL_STARTUP = 0.2, 0.05
"""Part of the recording from which on start-up has its line, and where there is room for it."""
_STARTUP_SAID = " are start-up: "
_NAMES = regex(r" (?:in|under) ")
"""Words between names of the trace: "call in operator under range"."""


def one(analysis: Analysis, width: int) -> Iterator[doc.Block]:
    """Yield the screen of one trace."""
    analysis = _without_rest(analysis)
    head = [*_title(analysis, width), *_state(analysis, width)]
    shown = leading(analysis.findings)
    lead = _before(analysis, width) if shown else _remark(analysis, width)
    distance = distance_of(analysis)
    foot = paragraphs((figures.recording(analysis.summary), distance, _start_up(analysis, operators=False)), width)
    if width < NARROW:
        foot = kernels_lines(analysis.summary, width) + wrapped(step_time.too_short(analysis), width, "bad") + foot
    foot += _left_out(analysis, shown, width) + next_line(bool(shown), width)
    if late := step_time.lead_lost(analysis.summary):
        foot = wrapped(late, width) + foot
    unsaid, told = _elsewhere(analysis, width), phases.sentence(analysis.phases)
    entries, most = entries_of(analysis, shown, width), most_lines(LINES, width)
    first = wrapped(told, width) + wrapped(step_time.models(analysis.summary), width)
    copied = wrapped(step_time.copies(analysis.summary), width)
    # No finding is left out for what kernels without a limit are made of, nor for a note; the second keeps its place before the
    # first, and none loses its fix for small notes.
    rest, plain = most - sum(map(len, (head, lead, first, foot))), _elsewhere(analysis, width, tell="why")
    if with_place(entries, rest - len(unsaid)) < with_place(entries, rest - len(plain)):
        unsaid = plain
    spare = rest - len(unsaid) - len(host_lines(analysis.summary, width, most))
    noted = _noted(analysis, shown, width, _NOTED)
    if len(noted) > spare - sum(len(entry.forms[0]) for entry in entries):
        noted = _noted(analysis, shown, width, _LARGE)
    # No finding loses its fix or its place for these.
    if kept_forms(entries, rest - len(unsaid) - len(noted)) == kept_forms(entries, rest - len(unsaid)):
        foot = noted + foot
    summary = analysis.summary
    batch = step_time.batch_host(summary, batches=bool(analysis.phases))
    passes, blocked = wrapped(step_time.passes(summary), width), wrapped(step_time.blocked(analysis), width)
    marked = wrapped(step_time.ranges(summary), width)
    ends, slowed = wrapped(_ends(analysis), width), _slowed(analysis, width)
    launched = wrapped(step_time.launches(summary), width)
    cold, gap = (wrapped(told, width) for told in (step_time.first_layer(summary), step_time.recurring_gap(summary)))
    for more in (
        copied,
        launched,
        marked,
        cold,
        gap,
        blocked,
        ends,
        slowed,
        slow := wrapped(step_time.slow(summary), width),
        passes,
    ):
        left = most - sum(map(len, (head, lead, first, unsaid, foot)))
        first += more * (kept_forms(entries, left) == kept_forms(entries, left - len(more)))
    head, first = _beside_kernels(analysis, width, head, first, slow, [slow])
    # Where all passes have no room, those of a twentieth do.
    brief = [wrapped(step_time.passes(summary, brief=True, least=least), width) for least in (None, PART)]
    head, first = _beside_kernels(analysis, width, head, first, passes, brief)
    # For the host's time in a batch of an engine the later ones do.
    more = wrapped(batch, width)
    left = most - sum(map(len, (head, lead, first, unsaid, foot)))
    first += more * (with_place(entries, left) == with_place(entries, left - len(more)))
    room = most - sum(map(len, (head, lead, first, foot)))
    short = _elsewhere(analysis, width, tell="neither")
    rows, in_short = (room_of_waits(analysis.summary, entries, room - len(lines)) for lines in (unsaid, short))
    # That the limit of some kernels is not known is worth less than what the CPU does while the GPU waits for it, and than a fix.
    if not rows and host_lines(analysis.summary, width, in_short):
        rows, unsaid = in_short, short
    elif kept_forms(entries, room - len(unsaid)) != kept_forms(entries, room - len(short)):
        unsaid = short
    between = first + unsaid + (waiting := host_lines(analysis.summary, width, rows))
    if waiting:
        entries = entries_of(analysis, shown, width, _waiting_lines(summary))
    # These are said where nothing loses a line for them.
    small = "" if _start_up(analysis) else _start_up(analysis, _SMALL_STARTUP)
    few = "" if copied else step_time.copies(summary, step_time.LESS_COPIED)
    for text in (step_time.collectives(summary), few, _opened(analysis, small)):
        more = wrapped(text, width)
        spare = most - sum(map(len, (head, lead, between, foot))) - sum(len(entry.forms[0]) for entry in entries)
        between += more * (len(more) <= spare)
    foot = _with_operators(analysis, width, entries, foot, most - sum(map(len, (head, lead, between, foot))))
    head = _with_families(summary, width, entries, head, most - sum(map(len, (lead, between, foot))))
    yield from page(head, lead, entries, between + foot, most)


def _with_families(summary: Summary, width: int, entries: list[Entry], head: list[Line], room: int) -> list[Line]:
    """Give the kinds of kernels that one line leaves to the others a second one, where nothing loses a line or a place for it."""
    short, full = (kernels_lines(summary, width, much=much) for much in (None, SOME_LEFT))
    at = next((at for at in range(len(head)) if short and head[at : at + len(short)] == short), None)
    taken = sum(max(map(len, (entry.forms[0], *entry.detailed[:1]))) for entry in entries)
    if at is None or len(head) + len(full) - len(short) + taken > room:
        return head
    return head[:at] + full + head[at + len(short) :]


def _waiting_lines(summary: Summary) -> frozenset[str]:
    """Return the lines of the source that the waits for the CPU are divided among: ``model.py:37``."""
    parts = [part for part in summary.host_time if part.kind == "function" and part.share >= PART]
    return frozenset(step_time.host_part(part).split(" ")[0] for part in parts)


def _with_operators(analysis: Analysis, width: int, entries: list[Entry], foot: list[Line], room: int) -> list[Line]:
    """Name in the line of start-up the operators that it is spread over, where no finding loses a line for them."""
    short, full = (wrapped(_start_up(analysis, operators=operators), width) for operators in (False, True))
    if not short or kept_forms(entries, room) != kept_forms(entries, room - len(full) + len(short)):
        return foot
    at = next((at for at in range(len(foot)) if foot[at : at + len(short)] == short), None)
    return foot if at is None else foot[:at] + full + foot[at + len(short) :]


def _beside_kernels(
    analysis: Analysis, width: int, head: list[Line], first: list[Line], whole: list[Line], forms: list[list[Line]]
) -> tuple[list[Line], list[Line]]:
    """Put the first of some *forms* that fits where the smaller kinds of kernels stand, unless *first* holds the *whole*.

    All is as it was where none of these kinds is small.
    """
    summary = analysis.summary
    if not whole or any(first[at : at + len(whole)] == whole for at in range(len(first))):
        return head, first
    short = [*_title(analysis, width), *_state(analysis, width, rows=1)]
    brief = next((lines for lines in forms if lines and len(short) + len(lines) <= len(head)), [])
    row = "".join(str(piece) for line in kernels_lines(summary, width, rows=1) for piece in line)
    large = [clean(part.family) for part in summary.kernel_time if part.share >= TENTH and part.family != REST]
    fits = bool(brief) and all(name in row for name in large)
    return (short, first + brief) if fits else (head, first)


def _title(analysis: Analysis, width: int) -> list[Line]:
    """Return the trace's name, devices and steps."""
    name = clean(analysis.trace.path)
    aside = DOT.join(figures.circumstances(analysis))
    if columns(name) + len(DOT) + columns(aside) <= width:
        return [(doc.Span(name), DOT + aside)]
    return [(doc.Span(name),), *wrapped(aside, width)]


def _state(analysis: Analysis, width: int, rows: int = 2) -> list[Line]:
    """Return the headline, where the time goes, kernels in so many rows at most, and what reading lost."""
    lines = wrapped(analysis.headline.text, width, "strong") if analysis.headline is not None else []
    if not _captures_alone(analysis) and (causes := time_line(analysis.summary, width)):
        lines.append((causes,))
    # Where lines are narrow it stands below the findings: the first one's price has a place among the first lines.
    if width >= NARROW:
        least = KERNELS if leading(analysis.findings) else KERNELS_ALONE
        lines += kernels_lines(analysis.summary, width, least, rows)
        lines += wrapped(step_time.too_short(analysis), width, "bad")
    if unlike := unprofiled_line(analysis.summary, width):
        lines.append((unlike,))
    if analysis.memory_peak is not None:
        lines += wrapped(holders.sentence(analysis.memory_peak), width)
    for doubt in figures.doubts(analysis.quality):
        lines += wrapped(f"{doubt.name}, {doubt.meaning}: {doubt.messages}", width, "bad")
    if (prediction := analysis.what_if) is not None:
        lines += wrapped(f"What if {', '.join(prediction.rules)}: {all_fixes(analysis.summary, [prediction])}", width)
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
    said = headline is not None and (_STARTUP_SAID in headline.text or headline.kind in NOTHING_STEADY)
    return "" if said else figures.start_up(analysis.summary, least, operators=operators)


def _opened(analysis: Analysis, small: str) -> str:
    """Return the line *small* of start-up; without one, and without a longer one, which call creates the GPU's context."""
    return small or ("" if _start_up(analysis) else figures.context(analysis.summary))


def _ends(analysis: Analysis) -> str:
    """Return what else is not counted, where neither the headline nor the line of start-up says it."""
    headline = analysis.headline
    if headline is not None and ("not counted" in headline.text or headline.kind in NOTHING_STEADY):
        return ""
    return figures.ends(analysis.summary, first=not _start_up(analysis), span_ms=analysis.trace.span_ms)


def _slowed(analysis: Analysis, width: int) -> list[Line]:
    """Return when the GPU ran slower than it does otherwise."""
    return [line for note in analysis.quality if note.code == _SLOWED for line in wrapped(note.message, width)]


_SLOWED = "slowed-device"
"""Code of that note."""


def _remark(analysis: Analysis, width: int) -> list[Line]:
    """Lines that stand where no finding leads: how to record what one could speak of."""
    note = figures.remark(analysis)
    if note is None:
        return [("No findings.",)]
    (message, _, _), (title, _, _) = note.message.partition(" ("), note.advice.partition(". ")
    lines = wrapped(f"No findings. {message} ({note.code}).", width)
    lines += [(f"{_INSET}{line}",) for line in wrap(f"→ {title.rstrip('.')}", width - len(_INSET))]
    code = [_INSET + line for line in clean_lines(note.example)] if note.example else []
    return lines + [(doc.Span(line, "code"),) for line in code if max(map(columns, code)) <= width]


def _before(analysis: Analysis, width: int) -> list[Line]:
    """Return the line above the findings: all fixes together; where lines are short, without what savings do to later ones."""
    text, each = together(analysis), of_each(analysis)
    each = "; ".join(filter(None, (text, each if width >= _WIDE else each.removesuffix(f"; {LESS}"))))
    return wrapped(f"{each}:", width) if text else []


_WIDE = 80
"""Columns from which on the lines above the first finding leave room for more than what it needs."""


def _elsewhere(analysis: Analysis, width: int, *, tell: step_time.Tell = "made") -> list[Line]:
    """Return where time lies that no finding claims. A name is not cut: the whole report has what is longer than a line."""
    named = [
        part for part in analysis.elsewhere if max(map(columns, _NAMES.split(clean(part.where)))) + MARGIN <= width
    ]
    return wrapped(told, width) if (told := step_time.elsewhere(named, tell=tell)) else []


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
    return wrapped(f"{told} (gone with the fixes above)" if with_others else told, width)


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
    return wrapped(told + _to_record(analysis, shown), width)


def _to_record(analysis: Analysis, shown: Sequence[Finding]) -> str:
    """Say what to record for places of findings that have none."""
    features = analysis.trace.features
    if not shown or features.stacks or any(place.file for one in shown for place in one.where):
        return ""
    cpu = "For source lines record" if features.host else "For operators record the CPU too, for source lines"
    return f" {cpu} with with_stack=True."


def next_line(findings: bool, width: int) -> list[Line]:
    """Return what to type next."""
    parts = ["--explain 1"] if findings else []
    parts += ["-v (everything)", "-o report.html (page)", "advisor gate (CI)"]
    return wrapped("Next: " + DOT.join(parts), width, "dim")

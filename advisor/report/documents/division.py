"""The division of a difference: a line a part, which add up to it: what got slower, what got faster, then what is within noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor.counting import counted
from advisor.report.blocks import Block, Detail, Fold, Heading, Items, Paragraph, Span, Style, Table, Text
from advisor.report.plain import milliseconds, percent
from advisor.results.division import Division, Part

_LINES, _FEWER = 10, 5
_BELOW = 3
PER = {"step": "a step", "sample": "a sample", "window": "in the window"}


def signed(ms: float) -> str:
    """Return a change with its sign."""
    sign = "+" if ms > 0 else "-" if ms < 0 else ""
    return sign + milliseconds(abs(ms))


def line(part: Part) -> str:
    """Return the line of a part: ``Conv2d_0 conv2d backward +11.2 ms: memory format: NHWC → NCHW (+4 layout kernels)``."""
    return f"{part.label} {signed(part.change_ms)}: {part.because}"


def lines(division: Division, most: int = _LINES) -> list[str]:
    """Return the lines of what got slower beyond noise, the most first, with what the rest comes to."""
    slower = _grouped(division, slower=True)[:most]
    shown = [line(part) for part in slower]
    rest = division.change_ms - sum(part.change_ms for part in slower)
    if shown:
        shown.append(f"{signed(rest)} in the rest of the program" if division.change_ms else "")
    return [text for text in shown if text]


def _grouped(division: Division, *, slower: bool) -> list[Part]:
    """Return the parts beyond noise that got slower, or those that got faster, the most first."""
    return [part for part in division.parts if part.real and (part.change_ms > 0) == slower]


def blocks(division: Division | None, detail: Detail, *, failed: bool = False) -> Iterator[Block]:
    """Yield the division: what is beyond noise as tables with the GPU's and the host's time apart, the rest below them.

    What got slower has its own heading, and what got faster: first what the whole step did; of a gate that *failed* the former.
    """
    if division is None:
        return
    rest = [part for part in division.parts if not part.real]
    per, cpu = PER[division.per], _on_cpu(division.parts)
    shown: list[Part] = []
    for heading, parts, most in _groups(division, failed=failed):
        listed = parts if detail.everything else parts[:most]
        yield Heading(heading)
        yield _listed(listed, detail, per, cpu)
        shown += listed
    yield from _sum(division, shown, detail)
    if rest and detail.everything:
        table = _listed(rest, detail, per, cpu)
        title = f"Within noise, or of no note: {counted(len(rest), 'part')}"
        if detail.folds:
            yield Fold(title, [table])
        else:
            yield from (Heading(title, 3), table)
    if notes := _notes(division):
        yield Items(notes)


def _groups(division: Division, *, failed: bool) -> list[tuple[str, list[Part], int]]:
    """Return the parts that got slower and those that got faster, each with its heading and how many are shown; none empty."""
    slower, faster = (_grouped(division, slower=slower) for slower in (True, False))
    up = failed or division.change_ms > 0
    lead = f"Which change made it {'slower' if up else 'faster'}"
    if all(part.reason == "clock" for part in (*slower, *faster)):
        lead = f"No part changed: the same work, {'slower' if up else 'faster'}"
    if failed and division.change_ms <= 0:
        lead = "What got slower, though the step as a whole did not"
    first, second = (slower, faster) if up else (faster, slower)
    groups = [(lead, first, _LINES), (f"What got {'faster' if up else 'slower'}", second, _FEWER if first else _LINES)]
    return [group for group in groups if group[1]]


def _sum(division: Division, shown: Sequence[Part], detail: Detail) -> Iterator[Block]:
    """Yield what the parts come to that are not *shown*, and the whole."""
    whole = f"{signed(division.change_ms)} {PER[division.per]}{_noise(division.noise_ms)}"
    real = sum(part.real for part in division.parts)
    left = len(division.parts) - len(shown) + division.other_parts
    if not real:
        yield Heading("Parts of the difference")
        inside = abs(division.change_ms) <= (division.noise_ms or 0.0)
        text = "Nothing differs beyond noise" if inside else "No part differs by more than two runs of one program may"
        yield Paragraph(f"{text} ({whole}).")
    elif left:
        more = division.change_ms - sum(part.change_ms for part in shown)
        hidden = f", {real - len(shown)} of them beyond noise{detail.hint}" if real > len(shown) else ""
        yield Paragraph(f"{signed(more)} in {counted(left, 'part')} more{hidden}; in all {whole}.")
    else:
        yield Paragraph(f"In all {whole}.")


def _noise(width: float | None) -> str:
    return f" ± {milliseconds(width)}" if width is not None else ""


def _listed(parts: Sequence[Part], detail: Detail, per: str, cpu: bool) -> Block:
    """List parts: as a table where there is room for its columns, else a line each with its figures below."""
    if detail.wide or detail.folds:
        return _table(parts, detail, per, cpu)
    items: list[Text] = []
    for part in parts:
        style: Style = "dim" if not part.real else "bad" if part.change_ms > 0 else "good"
        alone = "" if part.paired else " (on one side only)"
        items.append((Span(part.label, "name"), " ", Span(signed(part.change_ms), style), f": {part.because}{alone}"))
    host = "CPU" if cpu else "host"
    return Items(items, [_below(part, detail, host) for part in parts])


def _below(part: Part, detail: Detail, host: str) -> str:
    """Return the figures of a part, the GPU's and the *host*'s time apart, and its heaviest parts."""
    figures = [
        f"{word} {_both(getattr(part.before, place), getattr(part.after, place))}"
        for word, place in (("GPU", "gpu_ms"), (host, "host_ms"))
        if getattr(part.before, place) or getattr(part.after, place)
    ]
    figures += [f"at best {_limit(part)}"] if _limit(part) else []
    heavy = _heavy(part, detail)
    return "; ".join([", ".join(figures), *([heavy] if heavy else [])])


def _table(parts: Sequence[Part], detail: Detail, per: str, cpu: bool) -> Table:
    """Make the table: where, and why; the difference; the GPU's and the host's time before and after; the hardware's limit."""
    limits = any(_limit(part) for part in parts)
    rows: list[tuple[Text, ...]] = []
    for part in parts:
        style: Style = "dim" if not part.real else "bad" if part.change_ms > 0 else "good"
        alone = "" if part.paired else " (on one side only)"
        heavy = _heavy(part, detail)
        where = (Span(part.label, "name"), f": {part.because}{alone}{f'; {heavy}' if heavy else ''}")
        times = [
            _both(*(getattr(side, place) for side in (part.before, part.after)))
            for place in ("gpu_ms", "host_ms")
            if not (cpu and place == "gpu_ms")
        ]
        rows.append((where, Span(signed(part.change_ms), style), *times, *([_limit(part)] if limits else [])))
    whose = ["on the CPU"] if cpu else ["on the GPU", "on the host"]
    head = ["where, and why", f"difference {per}", *whose, *(["at best"] if limits else [])]
    return Table(head, rows, "~" + ">" * (len(head) - 1))


def _heavy(part: Part, detail: Detail) -> str:
    """Say which of the parts that it was put together from weigh most; empty of a single one."""
    below = part.parts[: None if detail.verbosity > 0 else _BELOW]
    return f"most in {', '.join(f'{one.label} {signed(one.change_ms)}' for one in below)}" if below else ""


def _on_cpu(parts: Sequence[Part]) -> bool:
    """Tell whether no part owns any time of a GPU: it is a program on the CPU."""
    return not any(side.gpu_ms for part in parts for side in (part.before, part.after))


def _whose(parts: Sequence[Part]) -> str:
    return "operators on the CPU" if _on_cpu(parts) else "work on the device"


def _both(before: float, after: float) -> str:
    return f"{milliseconds(before)} → {milliseconds(after)}" if before or after else ""


def _limit(part: Part) -> str:
    """Return the hardware's limits of a part on both sides, or of the side where it is known."""
    values = [side.limit_ms for side in (part.before, part.after)]
    if values[0] is not None and values[1] is not None:
        return _both(values[0], values[1])
    return next((milliseconds(value) for value in values if value is not None), "")


def _notes(division: Division) -> list[str]:
    notes = [*division.notes]
    unpaired = sum(abs(part.change_ms) for part in division.parts if not part.paired)
    total = sum(abs(part.change_ms) for part in division.parts) + abs(division.other_ms)
    if total and unpaired >= 0.1 * total:
        alone = [part for part in division.parts if not part.paired]
        heavy = ", ".join(f"{part.label} {signed(part.change_ms)}" for part in alone[:3])
        notes.append(f"on one side only, and paired with nothing: {percent(unpaired / total)} of all changes ({heavy})")
    if any(ms >= 0.001 for ms in division.earlier_ms):
        notes.append(f"launched before the window, and on neither side: {_both(*division.earlier_ms)} a step")
    if any(division.startup_ms) and abs(division.startup_ms[1] - division.startup_ms[0]) >= 1.0:
        notes.append(f"start-up, which is part of no step: {_both(*division.startup_ms)} in the recording")
    if division.paired_share is not None and division.paired_share < 0.95:
        notes.append(
            f"paired: {percent(division.paired_share)} of the time of {_whose(division.parts)}; "
            f"{counted(len(division.parts), 'part')}"
        )
    return notes

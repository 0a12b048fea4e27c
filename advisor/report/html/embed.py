"""Data for the page's script, escaped here because the template's own escaping does not fit a script."""

from __future__ import annotations

import json
from collections.abc import Sequence

from markupsafe import Markup

from advisor.report.plain import clean, shorten
from advisor.results.analysis import Finding
from advisor.results.views import Timeline

LONGEST_NAME = 200

# Inside <script> only "<" can end the block, but none of these needs to be there at all.
_UNSAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def data(value: object) -> Markup:
    """Return *value* as JSON that can stand inside a script element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.translate(_UNSAFE))


def timeline(line: Timeline, findings: Sequence[Finding], prefix: str) -> Markup:
    """Return the timeline for the page's script, its text made safe to draw; each finding by its place on the page."""
    numbers = places(findings)
    titles = {finding.rule: finding.title for finding in reversed(findings)}

    def safe(text: str) -> str:
        return shorten(clean(text[: 2 * LONGEST_NAME]), LONGEST_NAME)

    told, calls = line.origins, line.launches
    return data(
        {
            "texts": [safe(text) for text in told.texts],
            "lines": [safe(text) for text in told.lines],
            "origins": [
                [*known, *stack]
                for *known, stack in zip(told.operator, told.shapes, told.module, told.stack, strict=True)
            ],
            "origin": line.origin,
            "launches": [
                [item, start, 100 * track + row if track >= 0 else -1]
                for item, start, track, row in zip(calls.item, calls.start, calls.track, calls.row, strict=True)
            ],
            "title": safe(line.title),
            "dur": line.dur_ns,
            "tracks": [[safe(track.label), track.kind, max(1, track.depth)] for track in line.tracks],
            "names": [safe(name) for name in line.names],
            "categories": [safe(name) for name in line.categories],
            "findings": [
                [f"{prefix}finding-{numbers[rule]}", f"{numbers[rule]}. {safe(titles[rule])}"]
                if rule in numbers
                else None
                for rule in line.rules
            ],
            "track": line.track,
            "row": line.row,
            "start": line.start,
            "len": line.dur,
            "name": line.name,
            "category": line.category,
            "count": line.count,
            "finding": line.finding,
        }
    )


def places(findings: Sequence[Finding]) -> dict[str, int]:
    """Number the rules whose finding has a place of its own on the page: those that the fixes before leave something of."""
    told = enumerate((finding for finding in findings if finding.after is None), 1)
    return {finding.rule: number for number, finding in reversed(list(told))}


def anchor(findings: Sequence[Finding], rules: Sequence[str], prefix: str) -> str:
    """Return the id of the first finding of *rules* that has a place on the page, or an empty text."""
    numbers = places(findings)
    return next((f"{prefix}finding-{numbers[rule]}" for rule in rules if rule in numbers), "")


def marks(line: Timeline | None) -> dict[str, int]:
    """Return the rules whose evidence the timeline shows, with the numbers by which its items name them."""
    if line is None:
        return {}
    present = set(line.finding)
    return {rule: number for number, rule in enumerate(line.rules) if number in present}

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
    numbers = {finding.rule: index for index, finding in reversed(list(enumerate(findings, 1)))}

    def safe(text: str) -> str:
        return shorten(clean(text[: 2 * LONGEST_NAME]), LONGEST_NAME)

    return data(
        {
            "dur": line.dur_ns,
            "tracks": [[safe(track.label), track.kind, max(1, track.depth)] for track in line.tracks],
            "names": [safe(name) for name in line.names],
            "categories": [safe(name) for name in line.categories],
            "findings": [
                [f"{prefix}finding-{numbers[rule]}", f"{numbers[rule]}. {safe(findings[numbers[rule] - 1].title)}"]
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


def marks(line: Timeline | None) -> dict[str, int]:
    """Return the rules whose evidence the timeline shows, with the numbers by which its items name them."""
    if line is None:
        return {}
    present = set(line.finding)
    return {rule: number for number, rule in enumerate(line.rules) if number in present}

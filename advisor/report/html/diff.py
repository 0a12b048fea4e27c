"""A fix as the lines that go and the lines that come."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from advisor.report.plain import clean_lines


class Line(NamedTuple):
    """A line of a diff. ``kind`` is of both sides, of the old code, or of the new."""

    kind: Literal["same", "old", "new"]
    text: str


def lines(before: str, after: str) -> list[Line]:
    """Return *before* and *after* as one list of lines, as a unified diff shows them; empty where there is no code."""
    old = clean_lines(before) if before.strip() else []
    new = clean_lines(after) if after.strip() else []
    diff: list[Line] = []
    for tag, low, high, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            diff += [Line("same", text) for text in old[low:high]]
            continue
        diff += [Line("old", text) for text in old[low:high]]
        diff += [Line("new", text) for text in new[first:last]]
    return diff

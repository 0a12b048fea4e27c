"""Releases that a recording was made with, as far as it tells: of torch the newest it can be, of Python the one."""

from __future__ import annotations

from advisor.regex import regex
from advisor.timeline.recording import Recording

Release = tuple[int, int]

_VERSION = regex(r"^v?(\d{1,3})\.(\d{1,3})")
# Operators were of category Operator before torch 1.12.
_EARLY: Release = (1, 11)
# The last torch for each Python 3.
_LAST: dict[int, Release] = {6: (1, 10), 7: (1, 13), 8: (2, 4), 9: (2, 8)}


def newest_torch(recording: Recording) -> Release | None:
    """Return the newest release of torch that the recording can be of; None where nothing bounds it."""
    match = _VERSION.match(recording.metadata.torch or "")
    if match:
        return int(match[1]), int(match[2])
    recorded = recording.recorded
    bounds = [_EARLY] if recorded.early else []
    if recorded.python_minor is not None and recorded.python_minor in _LAST:
        bounds.append(_LAST[recorded.python_minor])
    return min(bounds, default=None)

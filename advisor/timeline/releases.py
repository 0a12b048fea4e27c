"""Releases that a recording was made with, as far as it tells: of torch the newest it can be, of Python the one."""

from __future__ import annotations

from datetime import date

from advisor.regex import regex
from advisor.timeline.recording import Recording

Release = tuple[int, int]

_VERSION = regex(r"^v?(\d{1,3})\.(\d{1,3})")
# Operators were of category Operator before torch 1.12.
_EARLY: Release = (1, 11)
# The last torch for each Python 3.
_LAST: dict[int, Release] = {6: (1, 10), 7: (1, 13), 8: (2, 4), 9: (2, 8)}
# Days on which releases of torch came out. Its nightly builds carry the next number from about two months before.
_OUT: dict[Release, date] = {
    (1, 8): date(2021, 3, 4),
    (1, 9): date(2021, 6, 15),
    (1, 10): date(2021, 10, 21),
    (1, 11): date(2022, 3, 10),
    (1, 12): date(2022, 6, 28),
    (1, 13): date(2022, 10, 28),
    (2, 0): date(2023, 3, 15),
    (2, 1): date(2023, 10, 4),
    (2, 2): date(2024, 1, 30),
    (2, 3): date(2024, 4, 24),
    (2, 4): date(2024, 7, 24),
    (2, 5): date(2024, 10, 17),
    (2, 6): date(2025, 1, 29),
}
_AHEAD_DAYS = 60
_BASED: Release = (2, 4)
"""The first that counts its times from a base, which it writes: an earlier day beside one is none of a recording's."""
_FIRST_DAY = date(2020, 7, 1)
"""Before the profiler wrote traces at all: a clock that says so counts from something else."""
_DAY_NS = 86_400 * 10**9


def newest_torch(recording: Recording) -> Release | None:
    """Return the newest release of torch that the recording can be of; None where nothing bounds it."""
    match = _VERSION.match(recording.metadata.torch or "")
    if match:
        return int(match[1]), int(match[2])
    recorded = recording.recorded
    bounds = [_EARLY] if recorded.early else []
    if recorded.python_minor is not None and recorded.python_minor in _LAST:
        bounds.append(_LAST[recorded.python_minor])
    base_ns, written = recording.metadata.base_ns, recording.metadata.format == "json"
    dated = _of_day((recording.zero_ns + base_ns) // _DAY_NS) if written else None  # other formats have other clocks
    if dated is not None and not (base_ns and dated < _BASED):
        bounds.append(dated)
    return min(bounds, default=None)


def _of_day(days: int) -> Release | None:
    """Return the newest release of that day (since 1970), its nightly builds included; None where none known is newer."""
    day = days + date(1970, 1, 1).toordinal()
    if day < _FIRST_DAY.toordinal():
        return None
    # The first whose successor was not built yet.
    return next((release for release, out in _OUT.items() if out.toordinal() - _AHEAD_DAYS > day), None)

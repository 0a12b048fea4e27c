"""Work that takes most of the processor time of a loader's workers, and its place, as `advisor record` saw it in their frames."""

from __future__ import annotations

from typing import NamedTuple

from advisor.reading.program_settings import Recorded, WorkerLine

DECODES, READS, LARGE, SAME, OTHER = KINDS = ("decodes", "reads", "large", "same", "other")
MOSTLY = 0.4
"""Share of the workers' time from which on one kind of work is what they do: doing it otherwise then returns most."""
_RESIZED = 0.02


class WorkerTime(NamedTuple):
    """Kind of work, of :data:`KINDS`, and its heaviest line."""

    kind: str
    line: WorkerLine


def worker_time(recorded: Recorded | None) -> WorkerTime | None:
    """Return what the workers' time goes to; the heaviest line as other work where none is most; None where no line is known."""
    if recorded is None or not recorded.worker_lines:
        return None
    lines, again = recorded.worker_lines, recorded.worker_repeat
    shares = {
        DECODES: sum(_decoding(line) for line in lines) if any(line.decodes for line in lines) else 0.0,
        LARGE: sum(line.large or 0.0 for line in lines),
        SAME: again.share if again is not None else 0.0,
    }
    kind = max(shares, key=lambda name: shares[name])
    if shares[kind] < MOSTLY:
        return WorkerTime(OTHER, max(lines, key=lambda line: line.share))
    if kind == SAME and again is not None:
        inside = [line for line in lines if (line.file, line.function) == (again.file, again.function)]
        return WorkerTime(SAME, max(inside, key=lambda line: line.share, default=again))
    if kind == LARGE:
        return WorkerTime(LARGE, max(lines, key=lambda line: line.large or 0.0))
    resized = sum(line.resizes or 0.0 for line in lines) >= _RESIZED
    return WorkerTime(DECODES if resized else READS, max(lines, key=_decoding))


def _decoding(line: WorkerLine) -> float:
    return (line.decodes or 0.0) + (line.resizes or 0.0)

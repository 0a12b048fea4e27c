"""Work that a step does twice: operators of which one and the same step has computed all that they are given, by the same weights.

Calls of modules that compute again are told of by :mod:`advisor.record.repeats`. This is for what no module's call is around: a
method that propagates over a graph, a helper that encodes. Operators with the same mark (:mod:`advisor.record.unchanged`) compute
the same, and all but the first need not, as long as what the first left is there: a backward pass frees what it went through.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from advisor.reading.program_settings import MOST_ENTRIES, Again, Line
from advisor.record.callers import Place, shared
from advisor.record.unchanged import PICKS, Note, outermost

_LEAST_ENTRY = 0.005
_LAST = 3

Path = tuple[Place, ...]


@dataclass
class _Part:
    """Seconds of an operator that its step need not take, as those like it take on average; *graded*: of its backward pass, too."""

    mean: float
    spare: bool
    graded: bool
    start: int
    """Its first line in or below the call that all like it run in."""
    earlier: int
    """The line that had computed it, in the function of that first one; 0 where another function had."""


@dataclass
class _Sums:
    """Seconds of a line's operators, of those a gradient flows through, and of each those that need not be; and their number."""

    whole: float = 0.0
    flowing: float = 0.0
    spare: float = 0.0
    graded: float = 0.0
    calls: int = 0
    earlier: int = 0


def summary(noted: list[Note], filled: frozenset[str]) -> tuple[Again, ...]:
    """Return the lines that compute again what the step has computed, those of most time first.

    Memory that operators of these *filled* names make is there to be written into: it goes where what is written does. Constants
    are told of by :mod:`advisor.record.constants`.
    """
    notes = [note for note in noted if _counts(note) and note.name not in filled]
    parts = _parts(notes)
    again = [id(note) in parts for note in notes]
    # Where the step ends with what it did before, one batch goes through again and again on purpose.
    if all(again[-_LAST:]):
        return ()
    least = _LEAST_ENTRY * sum(note.seconds for note in notes)
    starts = [parts[id(note)].start if id(note) in parts else 0 for note in notes]
    spare: dict[Path, float] = {}
    for note, at in outermost(notes, again, starts):
        part = parts[id(note)]
        path = note.places[part.start : at + 1]
        spare[path] = spare.get(path, 0.0) + part.mean * part.spare
    paths = sorted((path for path, seconds in spare.items() if seconds > 0), key=lambda path: -spare[path])
    found = [
        (sums.spare, _entry(path, sums)) for path, sums in _sums(notes, parts, paths).items() if sums.spare > least
    ]
    return tuple(entry for _, entry in sorted(found, key=lambda each: -each[0])[:MOST_ENTRIES])


def _counts(note: Note) -> bool:
    """Tell whether an operator computes something, or picks it."""
    works = not note.free or (note.name in PICKS and not note.view)
    return works and bool(note.places) and not note.constant


def _parts(notes: list[Note]) -> dict[int, _Part]:
    """Return what of each operator's time need not be, of those that are not alone with their mark.

    Operators with one mark take the same time: what the first takes longer is cold caches.
    """
    alike: dict[int, list[Note]] = {}
    for note in notes:
        if note.within is not None:
            alike.setdefault(note.within, []).append(note)
    found: dict[int, _Part] = {}
    for group in alike.values():
        around = min(shared(group[0].callers, note.callers) for note in group)
        starts = [at for note in group if (at := note.callers.first_below(around)) is not None]
        flags = list(_spare(group))
        if len(starts) < len(group) or not any(spare for spare, _ in flags):
            continue  # a library's function that computes something twice, or what has to be computed again
        mean = sum(note.seconds for note in group) / len(group)
        first = group[0].callers
        for note, start, (spare, graded) in zip(group, starts, flags, strict=True):
            same = note.callers.depths[start] == around - 1 == first.depths[starts[0]]
            found[id(note)] = _Part(mean, spare, graded, start, first.places[starts[0]][1] if same else 0)
    return found


def _spare(group: list[Note]) -> Iterator[tuple[bool, bool]]:
    """Yield of each operator of those with one mark whether it need not run, and whether its backward pass need not.

    One result serves all that come behind it, and its graph the first pass that goes through it.
    """
    unused = False  # a graph that no pass went through
    passes: set[int] = set()
    for at, note in enumerate(group):
        if not note.flows:
            unused = unused or (not at and note.graded)
            yield at > 0, False
        elif note.passes in passes:
            yield True, True
        else:
            passes.add(note.passes)
            yield unused, False
            unused = False


def _sums(notes: list[Note], parts: dict[int, _Part], paths: list[Path]) -> dict[Path, _Sums]:
    """Add up what is below each of *paths*; of several that lead to an operator the first one has it."""
    found: dict[Path, _Sums] = {}
    known: dict[Path, Path | None] = {}
    ending: dict[Place, list[int]] = {}  # by its last line, each path's place among them
    for at, (*_, last) in enumerate(paths):
        ending.setdefault(last, []).append(at)
    for note in notes:
        if note.places not in known:
            likely = sorted(at for place in set(note.places) for at in ending.get(place, ()))
            known[note.places] = next((paths[at] for at in likely if _leads(paths[at], note.places)), None)
        path = known[note.places]
        if path is None:
            continue
        sums, part = found.setdefault(path, _Sums()), parts.get(id(note))
        seconds = note.seconds if part is None else part.mean
        sums.whole += seconds
        sums.flowing += seconds if note.flows else 0.0
        if part is not None and part.spare:
            sums.spare += seconds
            sums.graded += seconds if part.graded else 0.0
            sums.calls += 1
            sums.earlier = sums.earlier or part.earlier
    return found


def _leads(path: Path, places: Path) -> bool:
    """Tell whether the lines of a path are among *places*, in their order."""
    rest = iter(places)
    return all(place in rest for place in path)


def _entry(path: Path, sums: _Sums) -> Again:
    return Again(
        sums.calls,
        round(min(sums.spare / sums.whole, 1.0), 4),
        round(min(sums.graded / sums.flowing, 1.0), 4) if sums.flowing else 0.0,
        under=tuple(Line(file, line) for file, line in path[:-1]),
        earlier=sums.earlier,
        file=path[-1][0],
        line=path[-1][1],
    )

"""From the pass with stacks to the one with the timings: each operator of the latter gets the stack of its like.

Both passes ran the same loop, so the operators of a step come in the same order in both. Where they do not, only what is
certain is carried over: up to where the orders part, from where they meet again, and between the two what has one place only:
the operator itself, with its shapes, or the operator between those that come before and after it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from advisor.intervals import Bools, Ints
from advisor.reading.stream import Recorded
from advisor.record.collections import MARK as COLLECTION
from advisor.record.lines import MARK
from advisor.record.places import trace_path
from advisor.regex import regex
from advisor.timeline import writes
from advisor.timeline.calls import ANNOTATION, GROUPS, OP, PYTHON, Host

STEP = "ProfilerStep#"
_OWN = regex(r"(?:.*(?:site|dist)-packages/)?advisor/")
"""Frames of the recorder itself, in a checkout or installed."""
# Frames of libraries that are kept inside the user's innermost one, and frames of the user's around it.
_MOST_LIBRARY, _MOST_USER = 12, 24
_LONG_NS = 50_000
"""Python between two operators from which on it has a place of its own."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SAMPLES = 32
"""Moments of such a stretch at which it is looked up where Python was; most of them decide."""

_BESIDE = (1, 2, 4, 8, 16)
"""Operators before and after one that tell its place, where steps part: the fewest that have one place only."""

Texts = dict[str, list[str]]
Frame = Callable[[str], tuple[str, bool] | None]


def frame_text(name: str) -> tuple[str, bool] | None:
    """Turn a Python call's name in a trace into a frame of a call stack, and True where it is the user's; None for a built-in."""
    head, mark, function = name.partition("): ")
    path, bracket, line = head.rpartition("(")
    if not (mark and bracket and line.isdigit()):
        return None
    file, is_own = trace_path(path)
    return (f"{file}({line}): {function}".replace(";", ","), is_own)


def carry_over(
    timed: Recorded, stacked: Recorded, lines: Sequence[str] = (), frame: Frame = frame_text
) -> tuple[Texts, Texts, Texts]:
    """Return the call stack of each row of the timed trace's ``op`` and ``annotation`` tables, ``""`` where none is known.

    Beside it, likewise, the stack of the Python before it, where the like of it had much of that before it; and what of that
    wrote files.

    *lines* are the places that spans named :data:`advisor.record.lines.MARK` and a number stand for; without them the user's
    frames are torch's, which name the line where a function begins. A stack is written innermost frame first, frames divided
    by semicolons, as the profiler of 2021 did.
    """
    codes: dict[str, int] = {}
    target, source = _Sequence(timed, codes), _Sequence(stacked, codes)
    texts, before, written = _stacks_of(source, stacked.names, lines, frame)
    stacks: list[str] = [""] * target.size
    origins = np.full(target.size, -1, np.int64)
    for key, positions in target.parts.items():
        candidates = [part for (thread, _), part in source.parts.items() if thread == key[0]]
        if candidates:
            _match(target, positions, source, candidates, texts, stacks, origins)
            if before:
                _resemble(target, positions, source, candidates, before, origins)
    pythons = [before.get(origin, "") for origin in origins.tolist()]
    notes = [""] * target.size
    if written:
        for at, low, high in _stretches(target):
            if (found := written.get(int(origins[at]))) is not None:
                notes[at] = writes.note(found[0], high - low, found[1])
    return _by_group(timed, target, stacks), _by_group(timed, target, pythons), _by_group(timed, target, notes)


def _by_group(timed: Recorded, target: _Sequence, texts: list[str]) -> Texts:
    out: Texts = {}
    for group in ("op", "annotation"):
        if group in timed.tables:
            rows = [""] * len(timed.tables[group]["ts"])
            code = GROUPS.index(group)
            for position in np.flatnonzero(target.group == code).tolist():
                rows[target.row[position]] = texts[position]
            out[group] = rows
    return out


class _Sequence:
    """Operators and annotations of a trace by thread and start; ``parts`` are their positions by thread and step."""

    def __init__(self, recorded: Recorded, codes: dict[str, int]) -> None:
        zero = min(int(table["ts"].min()) for table in recorded.tables.values())
        self.host = host = Host(recorded, zero)
        names = np.array([codes.setdefault(name, len(codes)) for name in recorded.names], np.int64)
        is_step = np.array([name.startswith(STEP) for name in recorded.names], np.bool_)
        is_line = np.array([name.startswith(MARK) for name in recorded.names], np.bool_)
        is_collection = np.array([name.startswith(COLLECTION) for name in recorded.names], np.bool_)
        # Collections of garbage come where they like, and only in one of the passes.
        acts = ((host.group == OP) | (host.group == ANNOTATION)) & ~(is_line | is_collection)[host.name]
        self.frames = (host.group == PYTHON) | is_line[host.name]
        steps = np.flatnonzero(acts & is_step[host.name])
        self.node = np.flatnonzero(acts & ~is_step[host.name])
        self.group, self.row = host.group[self.node], host.row[self.node]
        self.size = len(self.node)
        raws = np.array([codes.setdefault("\0" + raw.decode("utf-8", "replace"), len(codes)) for raw in recorded.raws])
        dims = np.full(self.size, -1, np.int64)
        for code, group in enumerate(GROUPS):
            rows = self.group == code
            if rows.any():
                dims[rows] = raws[recorded.tables[group]["dims"][self.row[rows]]]
        act = np.where(acts & ~is_step[host.name], names[host.name], -1)
        outer = around(host, act)[self.node]
        operator = np.where(host.group == OP, act, -1)
        self.top = around(host, operator)[self.node] < 0  # annotations are around much that Python calls
        self.name = names[host.name[self.node]]
        self.known = _before_last(host, self.node, is_line[host.name])
        # What makes operators alike beyond their names: what is around them, and their shapes.
        self.key = np.stack([self.name, outer, dims], axis=1)
        starts = np.sort(host.start[steps])
        step = np.searchsorted(starts, host.start[self.node], side="right") - 1
        thread = host.thread[self.node]
        self.parts: dict[tuple[int, int], Ints] = {}
        self._beside: dict[tuple[int, int], npt.NDArray[np.uint64]] = {}
        for tid in np.unique(thread).tolist():
            for number in range(len(starts)) if len(starts) else [-1]:
                part = np.flatnonzero((thread == tid) & (step == number))
                if len(part):
                    self.parts[tid, number] = part

    def beside(self, part: Ints, count: int) -> npt.NDArray[np.uint64]:
        """Return a code for each operator of a part: of its name, what is around it, and *count* names on either side."""
        kept = self._beside.get((int(part[0]), count))  # a part is asked for by each step of the other pass
        if kept is not None:
            return kept
        names = np.zeros(len(part) + 2 * count, np.uint64)
        names[count : count + len(part)] = _scattered(self.name[part])
        code = _scattered(self.key[part, 1])
        for at in range(2 * count + 1):
            code = code * _FACTOR + names[at : at + len(part)]
        self._beside[int(part[0]), count] = code
        return code


def _scattered(values: Ints) -> npt.NDArray[np.uint64]:
    """Spread numbers over 64 bits, so that sums of them hardly ever agree (the mixer of SplitMix64)."""
    mixed = values.astype(np.uint64) * _FACTOR
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    out: npt.NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(27))
    return out


def _before_last(host: Host, node: Ints, lines: Bools) -> Bools:
    """Flag nodes that begin before the last marked line of their thread ends: after it no more lines were marked."""
    known = np.ones(len(node), np.bool_)
    for thread in np.unique(host.thread[lines]).tolist():
        last = host.end[lines & (host.thread == thread)].max()
        known &= (host.thread[node] != thread) | (host.start[node] < last)
    return known


def around(host: Host, values: Ints) -> Ints:
    """Return for each node the value in *values* of the nearest node around it that has one, -1 where none has."""
    out, nearest = np.full(host.size, -1, np.int64), values.copy()
    for level in host.levels[1:]:
        out[level] = nearest[host.parent[level]]
        nearest[level] = np.where(values[level] >= 0, values[level], out[level])
    return out


def _stacks_of(
    sequence: _Sequence, names: list[str], lines: Sequence[str], frame: Frame
) -> tuple[list[str], dict[int, str], dict[int, tuple[float, str]]]:
    """Return the stack of each operator of a sequence, and by its position that of the Python before it where that is long.

    Beside them, by the position, the part of that Python that wrote files, and the stack of the call that did most of it.
    """
    host = sequence.host
    frames: dict[int, tuple[str, bool] | None] = {}
    above = around(host, np.where(sequence.frames, np.arange(host.size, dtype=np.int64), -1))

    def read(name: str) -> tuple[str, bool] | None:
        if name.startswith(MARK):
            return lines[int(name.removeprefix(MARK))], True
        entry = frame(name)
        # Of the user's own code the lines that ran are known.
        return None if entry is not None and entry[1] and lines else entry

    def text(node: int) -> str:
        library: list[str] = []
        user: list[str] = []
        while node >= 0 and len(user) < _MOST_USER:
            code = int(host.name[node])
            if code not in frames:
                frames[code] = read(names[code])
            entry = frames[code]
            if entry is not None:
                if entry[1]:
                    user.append(entry[0])
                elif not user and len(library) < _MOST_LIBRARY and not _OWN.match(entry[0]):
                    library.append(entry[0])
            node = int(above[node])
        return ";".join(library + user)

    texts: dict[int, str] = {}
    out = []
    for node in above[sequence.node].tolist():
        if node not in texts:
            texts[node] = text(node) if node >= 0 else ""
        out.append(texts[node])
    whole = _whole(set(texts.values()))
    before = {at: text(node) for at, node in _python_before(sequence, above).items()}
    written = {}
    for at, (share, node) in _written_before(sequence, names, frame).items():
        written[at] = (share, f"{writes.label(names[host.name[node]])};{text(node)}")
    return [whole.get(one, one) for one in out], before, written


def _whole(texts: set[str]) -> dict[str, str]:
    """Return the stacks whose outer frames are missing, with the one stack that has them.

    A line that runs through several steps, as that which calls the loop does, may be seen in a part of them alone: what it calls
    would else have two stacks.
    """
    ordered, whole = sorted(texts), {}
    for text in ordered:
        first, last = bisect_left(ordered, text + ";"), bisect_left(ordered, text + "<")  # the character behind ";"
        longer = ordered[first:last]
        longest = max(longer, key=len, default="")
        if text and longest and all(longest == one or longest.startswith(one + ";") for one in longer):
            whole[text] = longest
    return whole


def _python_before(sequence: _Sequence, above: Ints) -> dict[int, int]:
    """Return the node of the frame that most of the Python before an operator was in, by the operator's position.

    *above* holds for each node the frame around it.
    """
    host, found = sequence.host, {}
    frame = np.where(sequence.frames, np.arange(host.size, dtype=np.int64), above)
    for at, low, high in _stretches(sequence):
        moments = np.linspace(low, high, _SAMPLES + 2).astype(np.int64)[1:-1]
        inside = host.innermost(int(host.thread[sequence.node[at]]), moments)
        frames = frame[inside[inside >= 0]]
        frames = frames[frames >= 0]
        if 2 * len(frames) >= _SAMPLES:
            nodes, count = np.unique(frames, return_counts=True)
            found[at] = int(nodes[np.argmax(count)])
    return found


def _stretches(sequence: _Sequence) -> Iterator[tuple[int, int, int]]:
    """Yield the position, the start and the end of each stretch of Python before an operator or an annotation that is long."""
    host = sequence.host
    for thread in np.unique(host.thread[sequence.node]).tolist():
        here = np.flatnonzero(sequence.top & (host.thread[sequence.node] == thread))
        here = here[np.argsort(host.start[sequence.node[here]], kind="stable")]
        start, end = host.start[sequence.node[here]], host.end[sequence.node[here]]
        end = np.maximum.accumulate(np.where(sequence.group[here] == OP, end, start))
        for at in (np.flatnonzero(start[1:] - end[:-1] >= _LONG_NS) + 1).tolist():
            yield int(here[at]), int(end[at - 1]), int(start[at])


def _written_before(sequence: _Sequence, names: list[str], frame: Frame) -> dict[int, tuple[float, int]]:
    """Return the part of the Python before an operator that wrote files, and the node of the call that did, by its position."""
    host = sequence.host
    own = np.zeros(max(len(names), 1), np.bool_)
    for code in np.unique(host.name[sequence.frames]).tolist():
        entry = frame(names[code])
        own[code] = names[code].startswith(MARK) or (entry is not None and entry[1])
    calls = writes.find(host, names, own)
    found: dict[int, tuple[float, int]] = {}
    for at, low, high in _stretches(sequence) if len(calls.node) else ():
        thread = int(host.thread[sequence.node[at]])
        ns = int(calls.within(host, thread, np.array([low]), np.array([high]))[0])
        if ns >= _LONG_NS:
            found[at] = (ns / (high - low), calls.longest(host, thread, low, high))
    return found


def _match(
    target: _Sequence,
    rows: Ints,
    source: _Sequence,
    candidates: list[Ints],
    texts: list[str],
    stacks: list[str],
    origins: Ints,
) -> None:
    """Give each operator of one step the stack of its like in the step of the other pass that is most like it.

    *origins* gets the position of that like, where operators are alike one by one.
    """
    best, head, tail, most = candidates[0], 0, 0, -1
    for part in candidates:
        first, last = _common(target.name[rows], source.name[part])
        known = source.known[part]
        # Of a step in whose middle the marking of lines ended, the first part alone tells anything.
        certain = int(known[:first].sum() + known[len(part) - last :].sum())
        # Of steps alike the later one: what Python did before its first operator was recorded, too.
        if certain >= most:
            best, head, tail, most = part, first, last, certain
    only: dict[tuple[int, ...], str] = {}
    keys: list[tuple[int, ...]] = []
    if most < len(rows) or most < len(best):
        # The steps part. Beside the gap what occurs in several places may belong to either side of it.
        positions = np.concatenate(candidates)
        only = _single_places(source, positions[source.known[positions]], texts)
        keys = [tuple(key) for key in target.key[rows].tolist()]
    if head < len(rows) or head < len(best):
        while head and keys[head - 1] not in only:
            head -= 1
        while tail and keys[-tail] not in only:
            tail -= 1
    origin_of = np.full(len(rows), -1, np.int64)
    origin_of[:head] = best[:head]
    origin_of[len(rows) - tail :] = best[len(best) - tail :]
    for at, (position, origin) in enumerate(zip(rows.tolist(), origin_of.tolist(), strict=True)):
        origins[position] = origin
        stacks[position] = texts[origin] if origin >= 0 else ""
        if origin < 0 or not source.known[origin]:
            stacks[position] = only.get(keys[at], stacks[position])
    _place(target, rows, source, candidates, texts, stacks, origin_of)


def _place(
    target: _Sequence,
    rows: Ints,
    source: _Sequence,
    candidates: list[Ints],
    texts: list[str],
    stacks: list[str],
    origin_of: Ints,
) -> None:
    """Give operators without a like, and without a stack, the one that all have that stand between the same operators."""
    unknown = np.array([not stacks[position] for position in rows.tolist()], np.bool_) & (origin_of < 0)
    for count in _BESIDE if unknown.any() else ():
        codes = target.beside(rows, count)
        place = {
            code: found.pop()
            for code, positions in _standing(source, candidates, codes[unknown], count).items()
            if len(found := {texts[position] for position in positions if source.known[position]}) == 1
        }
        for at in np.flatnonzero(unknown).tolist():
            if text := place.get(int(codes[at])):
                stacks[rows[at]], unknown[at] = text, False


def _standing(
    source: _Sequence, candidates: list[Ints], codes: npt.NDArray[np.uint64], count: int
) -> dict[int, list[int]]:
    """Return the positions in the other pass that stand between *count* operators as those of *codes* do, by code."""
    there = np.concatenate([source.beside(part, count) for part in candidates])
    kept = np.isin(there, codes)
    standing: dict[int, list[int]] = {}
    for code, position in zip(there[kept].tolist(), np.concatenate(candidates)[kept].tolist(), strict=True):
        standing.setdefault(code, []).append(position)
    return standing


def _resemble(
    target: _Sequence, rows: Ints, source: _Sequence, candidates: list[Ints], before: dict[int, str], origins: Ints
) -> None:
    """Give operators without a like, where steps part, one that stands as they do and has the Python before it that most have."""
    lost = origins[rows] < 0
    for count in _BESIDE if lost.any() else ():
        codes = target.beside(rows, count)
        origin = {
            code: likely
            for code, positions in _standing(source, candidates, codes[lost], count).items()
            if (likely := _likeliest(positions, before)) is not None
        }
        for at in np.flatnonzero(lost).tolist():
            if (found := origin.get(int(codes[at]))) is not None:
                lost[at], origins[rows[at]] = False, found


def _likeliest(positions: list[int], before: dict[int, str]) -> int | None:
    """Return the first position with the Python that over half have before them; -1 for none, None without a majority."""
    counts = Counter(before.get(position, "") for position in positions)
    text, most = counts.most_common(1)[0]
    if 2 * most <= len(positions):
        return None
    return next(position for position in positions if before.get(position, "") == text) if text else -1


def _common(a: Ints, b: Ints) -> tuple[int, int]:
    """Count the first elements in which two sequences agree, and the last beside those."""
    short = min(len(a), len(b))
    head = _agreeing(a[:short] == b[:short])
    left = short - head
    tail = _agreeing(a[len(a) - left :][::-1] == b[len(b) - left :][::-1])
    return head, tail


def _agreeing(same: Bools) -> int:
    return len(same) if same.all() else int(np.argmin(same))


def _single_places(sequence: _Sequence, positions: Ints, texts: list[str]) -> dict[tuple[int, ...], str]:
    """Return the stack of each kind of operator that has the same stack wherever it occurs."""
    only: dict[tuple[int, ...], str] = {}
    several = set()
    for position in positions.tolist():
        key = tuple(sequence.key[position].tolist())
        if only.setdefault(key, texts[position]) != texts[position]:
            several.add(key)
    return {key: text for key, text in only.items() if key not in several}

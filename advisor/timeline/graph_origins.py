"""Origins of replayed kernels: the operator, module and line that launched them when their graph was captured.

A replay is one call for many kernels, so that its own place says nothing of them. A capture holds the same launches one by one,
and so does an eager step; both have operators and stacks around each. Sequences of kernels are matched by name, and by grid
where both sides have grids; what has several possible origins has what these agree on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from advisor.intervals import Bools, Ints, distinct, fetch
from advisor.regex import regex
from advisor.timeline.alignment import Candidates, align
from advisor.timeline.calls import RUNTIME
from advisor.timeline.context import Context
from advisor.timeline.recording import KERNEL, Recording
from advisor.timeline.waits import GRAPH

ANNOTATED, CAPTURE, EAGER = "annotation", "capture", "eager"
_BEGIN = regex(r"^(?:cuda|hip|cu)StreamBeginCapture")
_END = regex(r"^(?:cuda|hip|cu)StreamEndCapture")
_MOST_PIECES = 8
_COLUMNS = ("op", "module", "user", "library")


class Reference(Struct, frozen=True):
    """Launches, one by one: those of a capture, or of an eager step."""

    kind: str
    source: Recording
    nodes: Ints  # forest nodes of the launches, in order of time
    names: Ints
    sized: Ints | None  # codes of name, grid and block; None where a launch has no grid

    @property
    def whole(self) -> bool:
        """True where it begins and ends with the graph."""
        return self.kind == CAPTURE


class Origins(Struct):
    """Origin of each kernel: codes into the tables of texts; -1 where it is not known, and for what no graph replayed."""

    kind: list[str | None]
    op: list[str | None]
    module: list[str | None]
    file: list[str | None]
    line: Ints
    function: list[str | None]
    library: list[str | None]
    replayed: Bools

    @classmethod
    def unknown_of(cls, replayed: Bools) -> Origins:
        """Make the table of kernels of which nothing is known yet."""

        def nothing() -> list[str | None]:
            return [None] * len(replayed)

        lines = np.full(len(replayed), -1, np.int64)
        return cls(nothing(), nothing(), nothing(), nothing(), lines, nothing(), nothing(), replayed)

    @property
    def unknown(self) -> int:
        """Replayed kernels of which nothing is known but the replay."""
        return sum(1 for at in np.flatnonzero(self.replayed).tolist() if self.kind[at] is None)


class _Words(dict[object, int]):
    """Codes of kernels, alike in all recordings that are compared."""

    def codes(self, texts: Sequence[object]) -> Ints:
        return np.array([self.setdefault(text, len(self)) for text in texts], np.int64)


def graph_origins(context: Context) -> Origins | None:
    """Find the origins of the kernels that graphs replayed, by row of `kernels`; None where none did."""
    recording = context.recording
    work, rows = recording.work, context.kernel_rows
    launch = work.launch[rows]
    replayed = np.isin(launch, context.graph_nodes) if len(context.graph_nodes) else np.zeros(len(rows), np.bool_)
    if not replayed.any():
        return None
    origins = Origins.unknown_of(replayed)
    _annotated(recording, work.row[rows], replayed, origins)
    words = _Words()
    names, sized = _codes_of_work(recording, rows, words)
    references: list[Reference] | None = None
    found: dict[bytes, tuple[Reference, _Agreed] | None] = {}
    for members in _replays(recording, rows, replayed):
        key = names[members].tobytes() + (sized[members].tobytes() if sized is not None else b"")
        if key not in found:
            references = list(_references(recording, words)) if references is None else references
            found[key] = _resolve(names[members], None if sized is None else sized[members], references)
        if (answer := found[key]) is not None:
            _put(origins, members, *answer)
    return origins


def _annotated(recording: Recording, row: Ints, replayed: Bools, origins: Origins) -> None:
    """Take what the program wrote on captured kernels (torch.cuda's mark_kernels, joined by graph node id)."""
    table, texts = recording.tables["kernel"], recording.recorded.texts
    if "annotation" not in table:
        return
    for at in np.flatnonzero(replayed & (table["annotation"][row] > 0)).tolist():
        if text := texts[table["annotation"][row[at]]]:
            origins.kind[at], origins.op[at] = ANNOTATED, text


def _codes_of_work(recording: Recording, rows: Ints, words: _Words) -> tuple[Ints, Ints | None]:
    """Codes of kernels by name; by name, grid and block too, None where a grid is missing."""
    work, table = recording.work, recording.tables["kernel"]
    texts = [recording.names[code] for code in work.name[rows].tolist()]
    names = words.codes(texts)
    grid, block = (table[key][work.row[rows]].tolist() for key in ("grid", "block"))
    raws = [b"".join(raw.split()) for raw in recording.recorded.raws]
    if not all(raws[code] for code in grid):
        return names, None
    return names, words.codes([(n, raws[g], raws[b]) for n, g, b in zip(texts, grid, block, strict=True)])


def _replays(recording: Recording, rows: Ints, replayed: Bools) -> Iterator[Ints]:
    """Rows of the kernels of each replay: in the order of the graph's nodes where they have numbers, else of time."""
    work = recording.work
    node = recording.tables["kernel"].get("graph_node")
    number = node[work.row[rows]] if node is not None else np.full(len(rows), -1, np.int64)
    chosen = np.flatnonzero(replayed)
    launch = work.launch[rows[chosen]]
    order = np.lexsort((work.start[rows[chosen]], number[chosen], launch))
    chosen, launch = chosen[order], launch[order]
    yield from np.split(chosen, np.flatnonzero(np.diff(launch)) + 1)


def _references(recording: Recording, words: _Words) -> Iterator[Reference]:
    """Launches that replays may be of: captures first, those of the file given beside before the trace's own."""
    sources = [source for source in (recording.capture, recording) if source is not None and source.host.size]
    for source in sources:
        yield from _captures(source, words)
    for source in reversed(sources):
        yield from _eager(source, words)


def _captures(source: Recording, words: _Words) -> Iterator[Reference]:
    """Captures whose launches say their kernels, as ROCm's do; CUDA's have no name."""
    host, calls = source.host, source.tables.get("runtime")
    if calls is None or "kernel" not in calls:
        return
    names = source.names
    begins, ends = (
        np.sort(host.start[np.flatnonzero(np.isin(host.name, codes) & (host.group == RUNTIME))])
        for codes in ([c for c, name in enumerate(names) if pattern.match(name)] for pattern in (_BEGIN, _END))
    )
    texts = source.recorded.texts
    named = np.array([text != "" for text in texts], np.bool_)
    rows = np.flatnonzero((calls["kernel"] >= 0) & named[calls["kernel"]])
    nodes = host.node_of["runtime"][rows]
    ran = np.isin(nodes, source.work.launch)
    order = np.argsort(host.start[nodes], kind="stable")
    order = order[~ran[order]]
    nodes, rows = nodes[order], rows[order]
    codes = words.codes([texts[code] for code in calls["kernel"][rows].tolist()])
    for begin in begins.tolist():
        behind = ends[ends > begin]
        if not len(behind):
            continue
        low, high = np.searchsorted(host.start[nodes], [begin, behind[0]])
        if high > low:
            yield Reference(CAPTURE, source, nodes[low:high], codes[low:high], None)


def _eager(source: Recording, words: _Words) -> Iterator[Reference]:
    """Kernels that were launched one by one, a reference a step where there are steps."""
    work = source.work
    rows = work.indices(KERNEL)
    graphs = [code for code, name in enumerate(source.names) if GRAPH.match(name)]
    launch = work.launch[rows]
    rows = rows[(launch >= 0) & ~np.isin(fetch(source.host.name, launch), graphs)]
    if not len(rows):
        return
    begun = source.host.start[work.launch[rows]]
    order = np.argsort(begun, kind="stable")
    rows, begun = rows[order], begun[order]
    names, sized = _codes_of_work(source, rows, words)
    step = source.host_step_of(begun) if source.steps else np.zeros(len(rows), np.int64)
    pieces = np.split(np.arange(len(rows)), np.flatnonzero(np.diff(step)) + 1)
    for piece in sorted(pieces, key=len, reverse=True)[:_MOST_PIECES]:
        sizes = None if sized is None else sized[piece]
        yield Reference(EAGER, source, work.launch[rows[piece]], names[piece], sizes)


def notes(context: Context) -> list[tuple[str, str]]:
    """Count the replayed kernels whose origin is known, and those of which it is not."""
    origins, capture = context.once(graph_origins), context.recording.capture
    if any(code == "graphs-whole" for code, _ in context.recording.recorded.notes):
        return []  # a replay that is one piece of work has no kernel that could have an operator
    if origins is None:
        return (
            [("graph-capture", "No graph is replayed here: the trace of the capture is not needed")] if capture else []
        )
    count, unknown = int(origins.replayed.sum()), origins.unknown
    kinds = [kind for kind in (CAPTURE, EAGER, ANNOTATED) if kind in origins.kind]
    where = {CAPTURE: "their capture", EAGER: "eager steps", ANNOTATED: "their annotations"}
    if not unknown or kinds:
        by = " and ".join(where[kind] for kind in kinds)
        text = f"{count - unknown:,} of {count:,} kernels that graphs replayed have their operator from {by}"
        return [("graph-capture", f"{text}; of {unknown:,} it is not sure" if unknown else text)]
    if capture is not None:
        return [("graph-capture", f"None of the {count:,} kernels that graphs replayed is surely one of the capture's")]
    return [
        (
            "graph-origins",
            f"{unknown:,} kernels were replayed by graphs: the trace does not say which operators they are",
        )
    ]


# ---- answers


class _Agreed(Struct, frozen=True):
    """Values that all candidates of a place agree on: place in the replay, and codes of the source's tables."""

    place: Ints
    values: dict[str, Ints]


def _resolve(names: Ints, sized: Ints | None, references: list[Reference]) -> tuple[Reference, _Agreed] | None:
    """Find the first kind of reference that tells of most of a replay, and what it tells."""
    best: tuple[Reference, _Agreed] | None = None
    groups: dict[tuple[str, int], list[Reference]] = {}
    for reference in references:
        groups.setdefault((reference.kind, id(reference.source)), []).append(reference)
    for group in groups.values():
        agreed = _agree(names, sized, group)
        if len(agreed.place) > (len(best[1].place) if best is not None else 0):
            best = group[0], agreed
        if best is not None and len(best[1].place) == len(names):
            break
    return best


def _agree(names: Ints, sized: Ints | None, group: list[Reference]) -> _Agreed:
    """Put together what references of one kind and source say of a replay."""
    source = group[0].source
    exact = [reference for reference in group if reference.whole and np.array_equal(reference.names, names)]
    places: list[Ints] = []
    nodes: list[Ints] = []
    most = 0
    for reference in exact or group:
        found = _candidates(names, sized, reference)
        told = len(distinct(found.place))
        if told < most:
            continue
        if told > most:
            places, nodes, most = [], [], told
        places.append(found.place)
        nodes.append(reference.nodes[found.reference])
    if not most:
        return _Agreed(np.zeros(0, np.int64), {})
    place, node = np.concatenate(places), np.concatenate(nodes)
    order = np.argsort(place, kind="stable")
    place, node = place[order], node[order]
    first = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
    attributes, host = source.host.attributes, source.host
    columns = {
        "op": fetch(host.name, fetch(attributes.op, node)),
        "module": fetch(attributes.module, node),
        "user": fetch(attributes.user, node),
        "library": fetch(attributes.library, node),
    }
    values = {}
    for name, column in columns.items():
        low, high = np.minimum.reduceat(column, first), np.maximum.reduceat(column, first)
        values[name] = np.where(low == high, low, -1)
    known = np.any([values[name] >= 0 for name in _COLUMNS], axis=0)
    return _Agreed(place[first][known], {name: column[known] for name, column in values.items()})


def _candidates(names: Ints, sized: Ints | None, reference: Reference) -> Candidates:
    """Align by names and grids where both sides have them, by names where that tells less."""
    by_name = align(names, reference.names, whole=reference.whole)
    if sized is None or reference.sized is None:
        return by_name
    by_size = align(sized, reference.sized, whole=reference.whole)
    return by_size if len(distinct(by_size.place)) >= len(distinct(by_name.place)) else by_name


def _put(origins: Origins, members: Ints, reference: Reference, agreed: _Agreed) -> None:
    """Write what is agreed into the rows of a replay."""
    host, names = reference.source.host, reference.source.names
    places, paths = host.places, host.module_paths
    values = [agreed.values[name].tolist() for name in _COLUMNS]
    for at, op, module, user, library in zip(members[agreed.place].tolist(), *values, strict=True):
        origins.kind[at] = origins.kind[at] or reference.kind
        origins.op[at] = origins.op[at] or (names[op] if op >= 0 else None)
        origins.module[at] = paths[module] if module >= 0 else None
        if user >= 0:
            origins.file[at], origins.line[at] = places[user].file, places[user].line
            origins.function[at] = places[user].function
        origins.library[at] = places[library].text if library >= 0 else None

"""The host's side as one forest: python frames, annotations, operators and runtime calls, nested per thread.

Nesting is worked out with arrays. On one thread, spans that nest have as depth the number of spans begun before minus
the number ended by then; the parent of a span at depth *d* is the last one before it at depth *d* - 1. Clock jitter
lets spans overlap without nesting; the smaller overhang is cut, and nothing is thrown away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, takewhile

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from advisor.intervals import Bools, Ints, coded, compact, distinct, fetch
from advisor.reading import machine
from advisor.reading.columns import Table
from advisor.reading.stream import Recorded
from advisor.regex import regex
from advisor.threads import both
from advisor.timeline import closures
from advisor.timeline.source import LIBRARIES, Place, parse_frame

PYTHON, ANNOTATION, OP, RUNTIME = range(4)
GROUPS = ("python", "annotation", "op", "runtime")
FORWARD, BACKWARD, OPTIMIZER, ZERO_GRAD = range(4)
STEP = "ProfilerStep#"
RANGES = ("Optimizer.", "enumerate(")
"""Starts of the names of ranges that torch marks in a step, which traces of 2021 hold as operators."""
MARKS = (STEP, *RANGES)
"""Starts of the names of all that torch marks by itself."""
_MOST_ATTEMPTS = 6
_AT_A_TIME = 1 << 18
"""Nodes that are worked on together where all of them would take more room than their result."""
_AT_ONCE_NS = 1_000_000
"""Frames that were open before a recording begin in it one after the other, within this."""
_COMPARED = 200
"""Frames of a stack that are compared with others: a hostile one must not cost its length squared."""
# No program nests so deep; what does is taken in one pass, node by node, rather than level by level again and again.
_DEEPEST = 2000
# Nodes of the autograd graph, which the autograd profiler of 2021 records without the engine around them.
_MOST_ORDERS = 4
"""Orders of derivatives beyond which no place is sought."""
_AUTOGRAD_NODE = regex(r"(?:^|::)\w+Backward\d*$|^torch::autograd::AccumulateGrad$")
PHASES = ("forward", "backward", "optimizer", "zero_grad", "other")


def stack_rows(tables: Mapping[str, Table], groups: Sequence[str], columns: Sequence[str]) -> dict[str, Ints]:
    """Rows of several tables, one after the other: some *columns*, ``kind`` (place in *groups*), ``row`` (in its table)."""
    present = [(kind, tables[group]) for kind, group in enumerate(groups) if group in tables]
    parts = {column: [table[column] for _, table in present] for column in columns}
    parts["kind"] = [np.full(len(table["ts"]), kind, np.int8) for kind, table in present]
    parts["row"] = [np.arange(len(table["ts"]), dtype=np.int32) for _, table in present]
    return {key: np.concatenate(arrays) if arrays else np.zeros(0, np.int64) for key, arrays in parts.items()}


class Attributes(Struct):
    """Attributes that a node inherits from the nodes around it: codes into the tables of :class:`Host`, -1 for none."""

    user: Ints
    library: Ints
    module: Ints
    op: Ints
    phase: Ints


def of_autograd(name: str) -> bool:
    """Tell whether an operator's name is that of a node of the autograd graph at work."""
    return name.startswith("autograd::engine::evaluate_function") or _AUTOGRAD_NODE.search(name) is not None


class Host:
    """The forest, sorted by thread and start. Times are ns since the first event of the trace.

    ``group``/``row`` say which event a node is; ``node_of[group]`` is the way back, but for Python. ``end`` is cut to the parent's.
    """

    name: Ints
    thread: Ints
    start: Ints
    end: Ints
    group: Ints
    row: Ints
    user_before: Ints | None = None
    """Places of the Python before each node, where `advisor record` found them; known with the attributes."""
    library_before: Ints | None = None
    _stack_users: Ints | None = None
    _stack_libraries: Ints | None = None

    def __init__(self, recorded: Recorded, zero_ns: int, libraries: Iterable[str] = ()) -> None:
        self.libraries = LIBRARIES | frozenset(libraries)
        self._recorded = recorded
        tables = recorded.tables
        self._take(tables, zero_ns)
        self.size = len(self.start)
        # Millions of nodes: codes and indices are kept in 32 bits, times in 64.
        self.node_of: dict[str, Ints] = {}
        for code, key in enumerate(GROUPS):
            if key in tables and code != PYTHON:
                nodes = np.flatnonzero(self.group == code)
                back = np.empty(len(nodes), np.int32)
                back[self.row[nodes]] = nodes
                self.node_of[key] = back
        edges = np.flatnonzero(np.diff(self.thread)) + 1
        self._bounds = [0, *edges.tolist(), self.size] if self.size else []
        self._thread_ids = [int(self.thread[low]) for low in self._bounds[:-1]]
        self.parent = np.full(self.size, -1, np.int32)
        self.levels = _levels(self._nest())
        """The nodes of each depth, in their order."""
        for level in self.levels[1:]:
            late = level[self.end[level] > self.end[self.parent[level]]]
            self.end[late] = np.maximum(self.end[self.parent[late]], self.start[late])
        self.places: list[Place] = []
        self.module_paths: list[str] = []
        found = self._inherit()
        # Codes of millions of nodes, of a few thousand values.
        codes = {key: compact(getattr(found, key)) for key in ("user", "library", "module")}
        self.attributes = replace(found, **codes)

    def _take(self, tables: Mapping[str, Table], zero_ns: int) -> None:
        """Take the events in their order, few columns at a time: all of them at once would take twice the room."""
        columns = stack_rows(tables, GROUPS, ("thread", "ts", "dur"))
        times = [columns.pop("ts") - zero_ns]
        times.append(times[0] + np.maximum(columns.pop("dur"), 0))
        order = _order(columns["thread"], *times)

        def take_times() -> None:
            self.end = times.pop()[order]
            self.start = times.pop()[order]

        def take_rest() -> None:
            self.group, self.row, self.thread = (columns.pop(key)[order] for key in ("kind", "row", "thread"))
            small = self.thread.astype(np.int32)  # as ids of Linux are; those of pthread are addresses
            if np.array_equal(small, self.thread):
                self.thread = small
            self.name = compact(stack_rows(tables, GROUPS, ("name",))["name"])[order]

        both(take_times, take_rest, beside=machine.has_room_for_threads(len(order)))

    # ---- nesting

    def _nest(self) -> Ints:
        """Find parents, cut ends to theirs, and return the depth of each node."""
        depths = np.zeros(self.size, np.int32)
        for low, high in zip(self._bounds[:-1], self._bounds[1:], strict=True):
            depth, parent, end = _nest_all(self.start[low:high], self.end[low:high], self.group[low:high] == PYTHON)
            depths[low:high], self.end[low:high] = depth, end
            self.parent[low:high] = np.where(parent >= 0, parent + low, -1)
            del depth, parent, end  # before there are those of another thread
        return depths

    # ---- inheritance

    def flow(self, own: Ints, *, reset: Bools | None = None) -> Ints:
        """Each node's own value, else its parent's. Where *reset*, -1 starts afresh instead of inheriting."""
        out = own.copy()
        wanting = out < 0
        if wanting.all():  # of a program on a GPU nobody has what frames of the CPU's operators ask for
            return out
        if reset is not None:
            wanting &= ~reset
        for level in self.levels[1:]:
            nodes = level[wanting[level]]
            out[nodes] = out[self.parent[nodes]]
        return out

    def _inherit(self) -> Attributes:
        recorded = self._recorded
        module: Ints = np.full(self.size, -1, np.int32)
        user, library = module.copy(), module.copy()
        is_python, beside = self.group == PYTHON, machine.has_room_for_threads(self.size)
        if is_python.any():
            codes = self._place_codes(distinct(self.name[is_python]))
            place = self._without_lines(np.where(is_python, codes[self.name], -1))
            by_user = np.array([p.user for p in self.places], np.bool_)
            is_user = (place >= 0) & by_user[np.maximum(place, 0)] if len(by_user) else np.zeros(self.size, np.bool_)
            user = np.where(is_user, place, -1)
            user = self.flow(user)
            # A library that is not torch itself says more than the torch function below it.
            own_torch = np.array([p.file.startswith("torch/") for p in self.places], np.bool_)
            torch = (place >= 0) & own_torch[np.maximum(place, 0)] if len(own_torch) else is_user
            library, module = both(
                lambda: self._libraries(place, is_user, torch), lambda: self._modules(is_python), beside=beside
            )
        if len(recorded.stacks) > 1 or (recorded.stacks and recorded.stacks[0]):
            user, library = self._from_stacks(user, library)
        op, phase = both(self._operators, self._phases, beside=beside)
        user, library, module = self._backward_inherits(user, library, module, phase)
        return Attributes(user, library, module, op, phase)

    def _operators(self) -> Ints:
        """The innermost operator or range around each node, or itself; steps are none."""
        acts = (self.group == OP) | (self.group == ANNOTATION)
        steps = np.array([name.startswith(STEP) for name in self._recorded.names], np.bool_)
        acts &= ~steps[self.name] if len(steps) else False
        return self.flow(np.where(acts, np.arange(self.size, dtype=np.int32), np.int32(-1)))

    def _libraries(self, place: Ints, is_user: Bools, torch: Bools) -> Ints:
        """The place in a library below the user's own, one of torch only where there is no other."""
        other = self.flow(np.where(is_user | torch, -1, place), reset=is_user)
        within = self.flow(np.where(is_user | ~torch, -1, place), reset=is_user)
        return np.where(other >= 0, other, within)

    def _without_lines(self, place: Ints) -> Ints:
        """Places in which frames that were open all the time have no line.

        Of a function that was called while the profiler ran, torch writes the line where it is defined; of those that had been
        called before, the line at which the recording began, which is where the program starts it: no place of what it does.
        """
        open_before = np.zeros(self.size, np.bool_)
        for thread in distinct(self.thread[place >= 0]).tolist():
            mine = np.flatnonzero((self.group == PYTHON) & (self.thread == thread))
            first, last = int(self.start[mine].min()), int(self.end[mine].max())
            slack = min((last - first) // 100, _AT_ONCE_NS)
            others = self.start[(self.group != PYTHON) & (self.thread == thread)]
            begun = min(first + slack, int(others.min()) - 1 if len(others) else first + slack)
            open_before[mine] = (self.start[mine] <= begun) & (self.end[mine] >= last - slack)
        open_before &= place >= 0
        lineless = {
            code: self._place(replace(self.places[code], line=-1)) for code in distinct(place[open_before]).tolist()
        }
        out = place.copy()
        out[open_before] = [lineless[code] for code in place[open_before].tolist()]
        return out

    def _place(self, place: Place) -> int:
        code = self._place_index.get(place)
        if code is None:
            code = self._place_index[place] = len(self.places)
            self.places.append(place)
        return code

    def _place_codes(self, used: Ints) -> Ints:
        """Name code -> place code, for the name codes in use."""
        self._place_index: dict[Place, int] = {}
        codes = np.full(len(self._recorded.names), -1, np.int32)
        for code in used.tolist():
            place = parse_frame(self._recorded.names[code], self.libraries)
            if place:
                codes[code] = self._place(place)
        return codes

    def _modules(self, is_python: Bools) -> Ints:
        """The path of nn.Module calls around each node, as a code into ``module_paths``."""
        names = self._recorded.names
        used = distinct(self.name[is_python]).tolist()
        short = {code: names[code][11:] for code in used if names[code].startswith("nn.Module: ")}
        if not short:
            return np.full(self.size, -1, np.int32)
        known = np.zeros(len(names), np.bool_)
        known[list(short)] = True
        own = np.full(self.size, -1, np.int32)
        around = np.full(self.size, -1, np.int32)
        index: dict[tuple[int, int], int] = {}
        for number, level in enumerate(self.levels):
            if number:
                around[level] = own[self.parent[level]]
            own[level] = around[level]
            for node in level[known[self.name[level]] & is_python[level]].tolist():
                key = (int(around[node]), int(self.name[node]))
                path = index.get(key)
                if path is None:
                    path = index[key] = len(self.module_paths)
                    above = self.module_paths[key[0]] + "/" if key[0] >= 0 else ""
                    self.module_paths.append((above + short[key[1]])[-300:])
                own[node] = path
        return own

    def _from_stacks(self, user: Ints, library: Ints) -> tuple[Ints, Ints]:
        """Places of operators that carry their stack as text, innermost frame first: of the 2021 dialect, and of compiled graphs.

        The lines of the model that a graph was made of say more than the call of the graph.
        """
        if not hasattr(self, "_place_index"):
            self._place_index = {}
        stacks = self._recorded.stacks
        users = np.full(len(stacks), -1, np.int32)
        libraries = np.full(len(stacks), -1, np.int32)
        place_of: dict[str, Place | None] = {}
        for code, stack in enumerate(stacks):
            for text in stack.split(";") if stack else ():
                if text not in place_of:
                    place_of[text] = parse_frame(text, self.libraries)
                place = place_of[text]
                if place is None:
                    continue
                if place.user:
                    users[code] = self._place(place)
                    break
                if libraries[code] < 0 or (
                    self.places[libraries[code]].file.startswith("torch/") and not place.file.startswith("torch/")
                ):
                    libraries[code] = self._place(place)
        self._places_before(users, libraries)
        self._stack_users, self._stack_libraries = users, libraries
        python = self.group == PYTHON
        own = python & ((self.parent < 0) | (user != fetch(user, self.parent)))
        given = np.zeros(self.size, np.bool_)
        for key in ("op", "annotation"):
            if key in self.node_of:
                codes: Ints = self._recorded.tables[key]["stack"]
                nodes = self.node_of[key]
                has = (users[codes] >= 0) | (libraries[codes] >= 0)
                user[nodes[has]], library[nodes[has]] = users[codes][has], libraries[codes][has]
                given[nodes[has]] = True
        own, python = own | given, python | given
        return self.flow(np.where(own, user, -1), reset=own), self.flow(np.where(python, library, -1), reset=python)

    def within_frames(self, paths: Sequence[Sequence[tuple[str, int]]]) -> tuple[Ints, list[str]]:
        """Return for each node the first of *paths* in its recorded stack or that around it, -1 for none.

        A path is of places (file and line), the outermost first. Beside it the function of the last place of each, ``""`` where no
        stack has it.
        """
        stacks = self._recorded.stacks
        index = np.full(len(stacks), -1, np.int64)
        heads = [[f"{file}({line})" for file, line in path] for path in paths]
        sought = {head for path in heads for head in path}
        functions = [""] * len(paths)
        for code, stack in enumerate(stacks):
            frames = [(head, function) for text in reversed(stack.split(";")) if stack
                      for head, _, function in [text.partition(": ")] if head in sought]  # fmt: skip
            for at, path in enumerate(heads) if frames else ():
                rest = iter(frames)
                last = [next((function for head, function in rest if head == each), None) for each in path]
                if None not in last:
                    functions[at] = last[-1] or ""
                    index[code] = at
                    break
        own = np.full(self.size, -1, np.int64)
        for key in ("op", "annotation"):
            if key in self.node_of and len(stacks):
                own[self.node_of[key]] = index[self._recorded.tables[key]["stack"]]
        return self.flow(own), functions

    def called_from(self, nodes: Ints) -> Ints:
        """Return for each node the user's place (code) in its own recorded stack, -1 where it has none.

        A backward operator's place is that of its forward operator; its stack is that of the call that began the pass.
        """
        out = np.full(len(nodes), -1, np.int64)
        if self._stack_users is None or "op" not in self.node_of or not len(nodes):
            return out
        ops = self.group[nodes] == OP
        out[ops] = self._stack_users[self._recorded.tables["op"]["stack"][self.row[nodes[ops]]]]
        return out

    def around_both(self, first: Ints, last: Ints, before: Ints) -> Ints:
        """Return for each pair of nodes the user's innermost place (code) that both are called from, -1 where unknown.

        By calls of Python where they were recorded. Else by the frames that both recorded stacks end with: calls of one line look
        alike there, so of those only the frames whose functions also called the node *before* them.
        """
        if not (self.group == PYTHON).any():
            return self._by_stacks(first, last, before)
        up = self.parent[first].astype(np.int64)
        for _ in range(len(self.levels)):
            on = np.flatnonzero((up >= 0) & (fetch(self.end, up) < self.end[last]))
            if not len(on):
                break
            up[on] = self.parent[up[on]]
        return fetch(self.attributes.user, up)

    def _by_stacks(self, first: Ints, last: Ints, before: Ints) -> Ints:
        stacks, out = self._recorded.stacks, np.full(len(first), -1, np.int64)
        code_of = np.full(self.size, -1, np.int64)
        code_of[self.node_of["op"]] = self._recorded.tables["op"]["stack"]

        def frames(node: int) -> list[Place | None]:
            code = int(code_of[node])
            texts = stacks[code].split(";")[:_COMPARED] if code >= 0 and stacks[code] else []
            return [parse_frame(text, self.libraries) for text in reversed(texts)]

        for at, nodes in enumerate(zip(first.tolist(), last.tolist(), before.tolist(), strict=True)):
            one, other, earlier = map(frames, nodes)
            same = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
            known = {(place.file, place.function) for place in earlier if place is not None}
            found = [place for place, _ in same if place is not None and place.user]
            found = [place for place in found if (place.file, place.function) in known]
            out[at] = self._place(found[-1]) if found else -1
        return out

    def parting(self, known: Ints, asked: Ints) -> Ints:
        """Return for each of *asked* the place (code) where the stacks of *known* nodes part from its own, -1 where unknown.

        It is the user's frame that follows, from the innermost on, the frames that the two have in common, where all that have
        as many in common agree.
        """
        stacks, out = self._recorded.stacks, np.full(len(asked), -1, np.int64)
        if "op" not in self.node_of or not len(asked):
            return out
        code_of = np.full(self.size, -1, np.int64)
        code_of[self.node_of["op"]] = self._recorded.tables["op"]["stack"]
        follow: dict[tuple[str, ...], set[str]] = {}
        for code in distinct(code_of[known]).tolist():
            frames = tuple(stacks[code].split(";")) if code >= 0 and stacks[code] else ()
            for depth in range(1, min(len(frames), _COMPARED)):
                follow.setdefault(frames[:depth], set()).add(frames[depth])
        parted: dict[int, int] = {}
        for code in distinct(code_of[asked]).tolist():
            frames = tuple(stacks[code].split(";")[:_COMPARED]) if code >= 0 and stacks[code] else ()
            depth = next((depth for depth in range(len(frames), 0, -1) if frames[:depth] in follow), 0)
            others = follow[frames[:depth]] - set(frames[depth : depth + 1]) if depth else set()
            place = parse_frame(next(iter(others)), self.libraries) if len(others) == 1 else None
            parted[code] = self._place(place) if place is not None and place.user else -1
        return np.array([parted[code] for code in code_of[asked].tolist()], np.int64)

    def _places_before(self, users: Ints, libraries: Ints) -> None:
        """Keep the places of the Python before operators: of its own line, and of the library's function that it called."""
        self.user_before, self.library_before = np.full((2, self.size), -1, np.int32)
        if "op" in self.node_of:
            codes: Ints = self._recorded.tables["op"]["python_before"]
            nodes = self.node_of["op"]
            self.user_before[nodes], self.library_before[nodes] = users[codes], libraries[codes]
            if "annotation" in self.node_of:
                self._before_annotations(users, libraries)

    def notes_of_writes(self) -> tuple[Ints, list[str], Ints, Ints]:
        """Nodes before which the recorder saw files written, what it noted, and the places of the calls: own line, and library."""
        node, code = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        stacks = self._recorded.stacks
        for key in ("op", "annotation"):
            if key in self.node_of:
                codes: Ints = self._recorded.tables[key]["written_before"].astype(np.int64)
                noted = np.flatnonzero(np.array([bool(stack) for stack in stacks], np.bool_)[codes])
                node.append(self.node_of[key][noted])
                code.append(codes[noted])
        nodes, of = np.concatenate(node), np.concatenate(code)
        texts = [stacks[at] for at in of.tolist()]
        none = np.zeros(0, np.int64)
        users = none if self._stack_users is None else self._stack_users
        return (
            nodes,
            texts,
            fetch(users, of),
            fetch(none if self._stack_libraries is None else self._stack_libraries, of),
        )

    def _before_annotations(self, users: Ints, libraries: Ints) -> None:
        """Give the first operator inside an annotation the place of the Python before the annotation, if it has none itself."""
        assert self.user_before is not None
        assert self.library_before is not None
        codes: Ints = self._recorded.tables["annotation"]["python_before"]
        known = users[codes] >= 0
        around, codes, ops = self.node_of["annotation"][known], codes[known], self.node_of["op"]
        ops = ops[np.lexsort((self.start[ops], self.thread[ops]))]
        for thread in distinct(self.thread[around]).tolist():
            here, mine = self.thread[around] == thread, ops[self.thread[ops] == thread]
            at = np.searchsorted(self.start[mine], self.start[around[here]])
            first = fetch(mine, np.where(at < len(mine), at, -1))
            inside = (first >= 0) & (fetch(self.start, first) < self.end[around[here]])
            inside &= fetch(self.user_before, first) < 0
            self.user_before[first[inside]] = users[codes[here][inside]]
            self.library_before[first[inside]] = libraries[codes[here][inside]]

    def _phases(self) -> Ints:
        names = self._recorded.names
        own = np.full(len(names), -1, np.int8)
        for code, name in enumerate(names):
            if name.startswith("Optimizer."):
                own[code] = ZERO_GRAD if name.startswith("Optimizer.zero_grad") else OPTIMIZER
            elif of_autograd(name):
                own[code] = BACKWARD
        phase = own[self.name] if len(names) else np.zeros(0, np.int8)
        phase = np.where((self.group == OP) | (self.group == ANNOTATION), phase, -1)
        if "op" in self.node_of:
            nodes = self.node_of["op"]
            late = self._recorded.tables["op"]["forward_thread"] > 0
            phase[nodes[late]] = np.where(phase[nodes[late]] < 0, BACKWARD, phase[nodes[late]])
        phase = self.flow(phase)
        self._closures_are_none_of_the_step(phase, (own[self.name] == OPTIMIZER) if len(names) else phase == OPTIMIZER)
        return np.where(phase < 0, FORWARD, phase)

    def _closures_are_none_of_the_step(self, phase: Ints, steps: Bools) -> None:
        """Take what an optimizer's closure does for the forward pass that it is, in place; *steps* flags names of steps."""
        nodes = np.flatnonzero(((self.group == OP) | (self.group == ANNOTATION)) & steps)
        times = closures.begun(self, nodes, phase == BACKWARD, self._recorded.names).tolist()
        for step, begun in zip(nodes.tolist(), times, strict=True):
            if begun <= self.start[step]:
                continue
            high = int(self._bounds[self._thread_ids.index(int(self.thread[step])) + 1])
            until = step + 1 + int(np.searchsorted(self.start[step + 1 : high], begun))
            inside = phase[step + 1 : until]
            inside[inside == OPTIMIZER] = FORWARD

    def _backward_inherits(self, user: Ints, library: Ints, module: Ints, phase: Ints) -> tuple[Ints, Ints, Ints]:
        """Backward operators take the place of the forward operator with their sequence number.

        Of a gradient's gradient that operator is one of a backward pass (create_graph=True), which has its place of another: once
        more for each further order.
        """
        source, target = self._forward_of(phase)
        out = self._inherited((user, library, module), phase, source, target)
        first, later = self._forward_of(phase, orders=True)
        if not len(first):
            return out
        source, target = np.concatenate([source, first]), np.concatenate([target, later])
        for _ in range(_MOST_ORDERS):
            before, out = out, self._inherited((user, library, module), phase, source, target, known=out)
            if all((one == other).all() for one, other in zip(before, out, strict=True)):
                break
        return out

    def _inherited(
        self,
        values: tuple[Ints, Ints, Ints],
        phase: Ints,
        source: Ints,
        target: Ints,
        known: tuple[Ints, Ints, Ints] | None = None,
    ) -> tuple[Ints, Ints, Ints]:
        """Return *values* in which each *target*, and what runs below, has what is *known* of its *source*."""
        user, library, module = known or values
        useful = (user[source] >= 0) | (library[source] >= 0) | (module[source] >= 0)
        source, target = source[useful], target[useful]
        if not len(source):
            return values
        reset = np.zeros(self.size, np.bool_)
        reset[target] = True
        # Whatever runs below such a node, python frames of its own apart, inherits from it.
        inherits = (phase == BACKWARD) & ~reset & (self.group != PYTHON)
        out = []
        for own_values, theirs in zip(values, known or values, strict=True):
            own = np.where(inherits, -1, own_values)
            own[target] = theirs[source]
            flowed = self.flow(own, reset=reset)
            out.append(np.where(flowed < 0, np.where(reset, -1, own_values), flowed))
        return out[0], out[1], out[2]

    def with_backward(self, own: Ints, *, orders: bool = False) -> Ints:
        """Each node's own value, else its parent's; backward nodes without one take that of their forward operator.

        With *orders* so do those of further derivatives, whose forward operators ran in a backward pass.
        """
        flowed, given = self.flow(own), own.copy()
        for order in range(1 + orders):
            source, target = self._forward_of(self.attributes.phase, orders=order > 0)
            wanting = (flowed[target] < 0) & (flowed[source] >= 0)
            if wanting.any():
                given[target[wanting]] = flowed[source[wanting]]
                del flowed  # each has an entry a node
                flowed = self.flow(given)
        return flowed

    def of_further_derivatives(self) -> Ints:
        """Operators of backward passes through what another backward pass computed."""
        return self._forward_of(self.attributes.phase, orders=True)[1]

    def _forward_of(self, phase: Ints, *, orders: bool = False) -> tuple[Ints, Ints]:
        """Forward operators and, for each, a backward one with its sequence number: of the node of the graph that it made.

        With *orders* operators of backward passes that made nodes, and the backward ones of those.
        """
        none = np.zeros(0, np.int64)
        if "op" not in self.node_of:
            return none, none
        nodes = self.node_of["op"]
        sequence = self._recorded.tables["op"]["sequence"]
        backward = phase[nodes] == BACKWARD
        makes = ~backward
        if orders:
            late = self._recorded.tables["op"]["forward_thread"] > 0
            if not (backward & ~late & (sequence >= 0)).any():
                return none, none
            named = np.array([of_autograd(name) for name in self._recorded.names], np.bool_)
            engine = late | named[self.name[nodes]]
            makes, backward = backward & ~engine, backward & engine
        forward = np.flatnonzero((sequence >= 0) & makes)
        wanting = np.flatnonzero((sequence >= 0) & backward)
        if not len(forward) or not len(wanting):
            return none, none
        # The latest forward operator of a number is the one that made the autograd node.
        forward = forward[np.lexsort((self.start[nodes[forward]], sequence[forward]))]
        numbers = sequence[forward]
        at = np.searchsorted(numbers, sequence[wanting], side="right") - 1
        hit = (at >= 0) & (numbers[np.maximum(at, 0)] == sequence[wanting])
        return nodes[forward[at[hit]]], nodes[wanting[hit]]

    def without_forward(self, nodes: Ints) -> Bools:
        """Tell of each node whether it is of a backward pass, for a forward operator that was not recorded.

        Such have the place of the call that began the pass, which says nothing of what they are for. Gradients are added up for
        no operator.
        """
        if "op" not in self.node_of:
            return np.zeros(len(nodes), np.bool_)
        phase, ops = self.attributes.phase, self.node_of["op"]
        adds = np.array(["AccumulateGrad" in name for name in self._recorded.names], np.bool_)
        numbered = self._recorded.tables["op"]["sequence"] >= 0
        own = np.full(self.size, -1, np.int8)
        own[ops[numbered & (phase[ops] == BACKWARD)]] = 1
        for orders in (False, True):
            own[self._forward_of(phase, orders=orders)[1]] = 0
        own[adds[self.name]] = 0
        known: Bools = self.flow(own)[nodes] == 1
        return known

    # ---- queries

    def innermost(self, thread: int, times: Ints) -> Ints:
        """The innermost node open on *thread* at each time, or -1."""
        if thread not in self._thread_ids:
            return np.full(len(times), -1, np.int64)
        at = self._thread_ids.index(thread)
        low, high = self._bounds[at], self._bounds[at + 1]
        node = np.searchsorted(self.start[low:high], times, side="right") - 1
        node = np.where(node >= 0, node + low, -1)
        for _ in range(len(self.levels) + 1):
            closed = (node >= 0) & (self.end[np.maximum(node, 0)] <= times)
            if not closed.any():
                break
            node = np.where(closed, self.parent[np.maximum(node, 0)], node)
        return node

    def above(self, nodes: Ints, chosen: Bools, most: int = 1 << 31) -> Ints:
        """The nearest *chosen* node around each of *nodes*, no further up than *most*; -1 for none."""
        up = self.parent[nodes].astype(np.int64)
        on = np.flatnonzero((up >= 0) & ~chosen[up])
        for _ in range(min(most, len(self.levels))):
            if not len(on):
                return up
            higher = self.parent[up[on]]
            up[on] = higher
            on = on[(higher >= 0) & ~chosen[higher]]
        return np.where((up >= 0) & chosen[up], up, -1) if len(chosen) else up

    def nearest(self, nodes: Ints, chosen: Bools) -> Ints:
        """The nearest *chosen* node around each of *nodes*, itself counted; -1 for none, and where *nodes* has -1.

        As :meth:`flow` has it for all nodes: of the few that somebody asks for it takes less room.
        """
        if not self.size:
            return np.full(len(nodes), -1, np.int64)
        own = np.maximum(nodes, 0)
        return np.where(nodes >= 0, np.where(chosen[own], own, self.above(own, chosen)), -1)

    def outermost(self, nodes: Ints, chosen: Bools) -> Ints:
        """The outermost *chosen* node that is or holds each of *nodes*; -1 for none, and where *nodes* has -1."""
        found = self.nearest(nodes, chosen)
        rising = np.flatnonzero(found >= 0)
        while len(rising):
            above = self.above(found[rising], chosen)
            rising = rising[above >= 0]
            found[rising] = above[above >= 0]
        return found

    def nodes_of(self, group: int) -> Ints:
        """Nodes of a group in order of start: the rows of `ops`, of `launches` and of `python`."""
        nodes = np.flatnonzero(self.group == group)
        return nodes[np.argsort(self.start[nodes], kind="stable")]

    def launching_thread(self) -> int:
        """The thread with most operators and runtime calls: the one whose place explains an idle GPU."""
        busy = (self.group == RUNTIME) | (self.group == OP)
        if not busy.any():
            return int(self.thread[0]) if self.size else -1
        ids, counts = np.unique(self.thread[busy], return_counts=True)
        return int(ids[np.argmax(counts)])

    def ns(self, nodes: Ints) -> Ints:
        """Time that some nodes take, in ns."""
        length: Ints = self.end[nodes] - self.start[nodes]
        return length

    def lasting(self, chosen: Bools, least_ns: int) -> Ints:
        """Chosen nodes that take so long and longer."""
        nodes = np.flatnonzero(chosen)
        return nodes[self.ns(nodes) >= least_ns]

    def own_ns(self, nodes: Ints) -> Ints:
        """Time that some nodes take without their direct children, in ns. Of a few it takes less room than :meth:`children_ns`."""
        held = np.zeros(self.size + 1, np.bool_)  # none, -1, has the last place
        held[nodes] = True
        children = np.flatnonzero(held[self.parent])
        holders, back = coded(nodes)
        total = np.zeros(len(holders), np.int64)
        np.add.at(total, np.searchsorted(holders, self.parent[children]), self.ns(children))
        own: Ints = self.ns(nodes) - total[back]
        return own

    def children_ns(self) -> Ints:
        """Time that a node's direct children take, in ns."""
        # What has no parent is summed up at the last place, which is left out: it has the index -1.
        total = np.zeros(self.size + 1, np.int64)
        for low in range(0, self.size, _AT_A_TIME):
            part = slice(low, low + _AT_A_TIME)
            np.add.at(total, self.parent[part], self.end[part] - self.start[part])
        return total[:-1]


def _order(thread: Ints, start: Ints, end: Ints) -> Ints:
    """Order by thread, start and falling end; what starts and ends alike stays in the order of GROUPS, and of the file.

    Each table is nearly in order of start, which a sort by that alone makes use of; few events start at one ns.
    """
    order, (threads, code) = both(
        lambda: np.argsort(start, kind="stable"),
        lambda: coded(thread),
        beside=machine.has_room_for_threads(len(start)),
    )
    if len(threads) > 1:
        narrow = code.astype(np.int16 if len(threads) < 1 << 15 else np.int64)
        order = order[np.argsort(narrow[order], kind="stable")]
    same = np.zeros(len(order) + 1, np.bool_)
    same[1:-1] = (np.diff(start[order]) == 0) & (np.diff(code[order]) == 0)
    tied = np.flatnonzero(same[:-1] | same[1:])
    rows = order[tied]
    order[tied] = rows[np.lexsort((-end[rows], start[rows], code[rows]))]
    return order


def _levels(depth: Ints) -> list[Ints]:
    """The nodes of each depth, in their order."""
    if not len(depth):
        return []
    small = (
        depth.astype(np.int16) if depth.max() < 1 << 15 else depth
    )  # numpy sorts 16 bits by radix: several times as fast
    order = np.argsort(small, kind="stable").astype(np.int32)
    return np.split(order, np.cumsum(np.bincount(depth))[:-1])


def _nest_all(start: Ints, end: Ints, python: Bools) -> tuple[Ints, Ints, Ints]:
    """Depth, parent and ends of spans of one thread, which are cut until all of them nest; *python* flags Python frames."""
    end = end.copy()
    known: Ints | None = None
    for attempt in range(_MOST_ATTEMPTS + 1):
        depth, parent, levels = _nest_thread(start, end, known)
        over = np.flatnonzero((parent >= 0) & (end > end[np.maximum(parent, 0)]))
        if not len(over):
            return depth, parent, end
        if attempt == _MOST_ATTEMPTS or depth.max() > _DEEPEST:
            break
        cut, ends = _trim(start, end, over, levels, parent, python)
        known = _shallower(depth, start, cut, ends, end[cut])
        del depth, parent, levels  # before there are others
    return _nest_one_by_one(start, end)


def _shallower(depth: Ints, start: Ints, cut: Ints, before: Ints, after: Ints) -> Ints | None:
    """Depth once spans end earlier, in place: of all that begins between both ends; None where one has no length any more."""
    if bool((after <= start[cut]).any()) or not len(cut):
        return depth if not len(cut) else None
    low, high = (np.searchsorted(start, ends, side="left") for ends in (after, before))
    first, last = int(low.min()), int(high.max())
    less = np.zeros(last - first + 1, np.int32)
    np.add.at(less, low - first, 1)
    np.add.at(less, high - first, -1)
    depth[first:last] -= np.cumsum(less[:-1], out=less[:-1])
    return depth


def _nest_thread(start: Ints, end: Ints, known: Ints | None = None) -> tuple[Ints, Ints, list[Ints]]:
    """Depth and parent of spans of one thread, sorted by start and then by falling end; and the spans of each depth.

    The depth may be *known*.
    """
    size = len(start)
    # Spans without length open nothing: they are placed among the others afterwards.
    long = end > start
    depth = _depths(start, end, long) if known is None else known
    parent = np.full(size, -1, np.int32)
    levels = _levels(depth)

    def climb(first: int, last: int) -> None:
        for level, below in pairwise(levels[first:last]):
            above = level[long[level]]
            if len(above):
                at = np.searchsorted(above, below) - 1
                parent[below] = np.where(at >= 0, above[np.maximum(at, 0)], -1)

    middle = int(np.searchsorted(np.cumsum([len(level) for level in levels]), size // 2)) + 1
    beside = machine.has_room_for_threads(size)
    both(lambda: climb(0, middle), lambda: climb(middle - 1, len(levels)), beside=beside)
    return depth, parent, levels


def _depths(start: Ints, end: Ints, long: Bools) -> Ints:
    """Depth of spans of one thread: the number begun before less that ended by then, of those that are *long*."""
    size = len(start)
    depth = np.zeros(size, np.int32)
    spans = np.flatnonzero(long)
    ends = np.sort(end[spans], kind="stable")  # nearly in order already

    def count(first: int, last: int) -> None:
        for low in range(first, last, _AT_A_TIME):
            part = spans[low : min(low + _AT_A_TIME, last)]
            depth[part] = np.arange(low, low + len(part)) - np.searchsorted(ends, start[part], side="right")

    beside, half = machine.has_room_for_threads(size), len(spans) // 2
    both(lambda: count(0, half), lambda: count(half, len(spans)), beside=beside)
    points = np.flatnonzero(~long)
    if len(points):
        before = np.searchsorted(spans, points)
        closed = np.searchsorted(ends, start[points], side="right")
        depth[points] = np.maximum(before - closed, 0)
    return depth


def _trim(start: Ints, end: Ints, over: Ints, levels: Sequence[Ints], parent: Ints, python: Bools) -> tuple[Ints, Ints]:
    """Cut overlaps that do not nest, in place: *over* are spans that outlast what they began in.

    Returns the spans that were cut, each once, and their ends before.

    Where such a span lies mostly beside its parent the two were siblings, and the earlier ends where the later starts:
    an annotation opened in an ``__enter__`` frame outlasts several frames so, all the way up. Else the child ends with
    its parent. Between an annotation and a python frame it is the frame that is cut: the ``__exit__`` that closes an
    annotation begins inside it.
    """
    cuts: list[Ints] = []
    ends: list[Ints] = []

    def note(spans: Ints) -> None:
        cuts.append(spans)
        ends.append(end[spans])

    climber, above = over, parent[over]
    while len(climber):
        still_open = end[above] > start[climber]
        outlasts = end[climber] > end[above]
        beside = still_open & outlasts & (end[above] - start[climber] < end[climber] - end[above])
        beside &= python[above] | ~python[climber]
        note(above[beside])
        np.minimum.at(end, above[beside], start[climber[beside]])
        on = outlasts & (parent[above] >= 0)
        climber, above = climber[on], parent[above[on]]
    # The rest lie inside what they began in, and end with it; so does all that lies in them.
    for level in levels[1:]:
        late = level[end[level] > end[parent[level]]]
        above = parent[late]
        held = (above >= 0) & (end[above] > start[late])
        note(late[held])
        end[late[held]] = end[above[held]]
    cut, kind = coded(np.concatenate(cuts))
    before = end[cut]
    np.maximum.at(before, kind, np.concatenate(ends))  # of several cuts of one span, as it was before the first
    return cut, before


def _nest_one_by_one(start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Depth, parent and ends of spans that no trimming untangles: with a stack, every child cut to its parent."""
    depth, parent, ends = np.zeros(len(start), np.int64), np.full(len(start), -1, np.int64), end.copy()
    stack: list[tuple[int, int]] = []
    for at, (first, last) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while stack and stack[-1][1] <= first:
            stack.pop()
        if stack:
            parent[at] = stack[-1][0]
            last = min(last, stack[-1][1])
            ends[at] = last
        depth[at] = len(stack)
        if last > first:
            stack.append((at, last))
    return depth, parent, ends

"""Backward passes that run the same graph again: one for each loss, for each column of one gradient, for each sample.

Autograd numbers the nodes of a graph, and the engine's operators bear the numbers: a node that two passes ran was kept by
retain_graph (or create_graph). A pass through a gradient of the first order runs the graph under it once more, which it must.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct, field

from advisor.frames.patterns.passes import THREAD_BITS, Runs, called_at, repeated_runs, stores
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, size_of, spread
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Bools, Ints, distinct, fetch, starts_run
from advisor.regex import regex
from advisor.timeline.calls import BACKWARD, OPTIMIZER, ZERO_GRAD

SUMMED, SAME, SAMPLES, ROWS = "summed", "same", "samples", "rows"
_ONES = frozenset({"aten::ones_like", "aten::ones"})
_ZERO = regex(r"^aten::(?:_foreach_)?zero_$")
_READS = regex(
    r"^aten::(?:_foreach_)?(?:clone|copy_?|norm|linalg_vector_norm|cat|stack|dot|pow|square|abs|mul_?|sub_?|div_?)$"
)
_PARTS = regex(
    r"(?:Unbind|Split|Chunk|Unsafe|Lstm|LSTM|Gru|GRU|Rnn|RNN|Meshgrid|VarMean|StdMean|Linalg|Svd|Eig|Qr)\w*Backward"
)
"""Nodes with several outputs: two passes that begin at one need not be of the same output."""
_JOINED = regex(r"(?:Unbind|Split|Chunk)\w*Backward\d*$")
_JOINS, _ZEROS = regex(r"^aten::(?:cat|stack)$"), regex(r"^aten::(?:zeros|zeros_like|new_zeros)$")
_FULL = regex(r"(?:^|: )\w+Backward\d*$")
_PICK = regex(r"(?:Select|Unbind|Index)Backward\d*$")
_LINEAR = regex(
    r"^(?:Sum|Mean|Select|Slice|View|UnsafeView|Reshape|Squeeze|Unsqueeze|Expand|Transpose|Permute)Backward\d*$"
)
"""Nodes with one input whose gradient follows from that of their output, and from what their forward operator was asked for."""
_TOTAL = regex(r"^(?:Sum|Mean)Backward")
_MOST_AHEAD = 4
_LEAST_SAMPLES = 4
_MOST_PASSES = 20_000


class _Again(Struct, eq=False):
    """A pass that runs nodes of earlier ones again: its number, the places of those nodes, how often they run, and what for."""

    number: int
    places: Ints
    runs: int
    kind: str
    first: bool = False
    """It is the first of two that are the same, of which the second stores gradients of weights too: the first is spared."""
    later: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Places of nodes in later passes, of the graph that this one made."""


def repeated_backward(tree: Tree) -> Occurrences | None:
    """One row per backward pass that runs nodes which an earlier pass has run.

    ``detail`` says what for: summed (gradients are added up to those of the earlier pass: the losses could be), same (autograd.grad
    of the same output, with ones), samples (of elements of a batch's losses) or rows (of other outputs, or with other vectors).
    ``repeats`` says how many passes run these nodes, ``length`` how many nodes they are.
    """
    runs = tree.once(repeated_runs)
    if runs is None or not 1 < len(runs) <= _MOST_PASSES:
        return None
    found = _Graphs(tree, runs).again()
    if not found:
        return None
    host = tree.host
    row = np.repeat(np.arange(len(found)), [len(one.places) + len(one.later) for one in found])
    places = np.concatenate([part for one in found for part in (one.places, one.later)])
    inside = tree.launched_below(runs.nodes[places])
    inside = Pairs(row[inside.row], inside.index).each_once()
    first = np.array([runs.nodes[one.places[0]] for one in found], np.int64)
    return Occurrences(
        kind="repeated-backward",
        node=first,
        begin=host.start[first],
        end=np.array([host.end[runs.nodes[one.places]].max() for one in found], np.int64),
        inside=inside,
        own=inside,
        idle=True,
        python=_stretches(tree, runs, row, places) if tree.context.cpu_program else NOTHING,
        user=_callers(tree, runs, np.array([one.number for one in found], np.int64)),
        figures={
            "repeats": np.array([one.runs for one in found], np.int64),
            "length": np.array([len(one.places) for one in found], np.int64),
        },
        details=[one.kind for one in found],
    )


def _stretches(tree: Tree, runs: Runs, row: Ints, places: Ints) -> Pairs:
    """Segments of the ledger from the first to the last of nodes that run one after the other: the engine between them as well."""
    order = np.lexsort((places, row))
    row, places = row[order], places[order]
    fresh = starts_run(row, runs.of[places], places - np.arange(len(places)))
    first = np.flatnonzero(fresh)
    begin = tree.host.start[runs.nodes[places[first]]]
    end = np.maximum.reduceat(tree.host.end[runs.nodes[places]], first)
    ledger = tree.context.ledger
    low = np.searchsorted(ledger.start_ns, begin, side="left")
    meanwhile = spread(low, np.searchsorted(ledger.end_ns, end, side="right"))
    return Pairs(row[first][meanwhile.row], meanwhile.index).each_once()


def _callers(tree: Tree, runs: Runs, which: Ints) -> Ints:
    return called_at(tree, runs.nodes[runs.first[which]], runs.thread, runs.last_call()[which])


class _Graphs:
    """Passes through graphs that were run before."""

    def __init__(self, tree: Tree, runs: Runs) -> None:
        self.tree, self.runs = tree, runs
        self.stored = stores(tree, runs)
        self.places = np.split(np.arange(len(runs.nodes)), runs.first[1:])
        stored = self.stored >= 0
        self.accumulates = np.bincount(runs.of[stored], minlength=len(runs)) > 0
        self._maker = self._makers()
        _, of, count = np.unique(runs.key, return_inverse=True, return_counts=True)
        once = count[of.ravel()] == 1
        begun = [self._root(places, once) for places in self.places]
        self.root = np.array([place for place, _ in begun], np.int64)
        """Place of the node that each pass begins at, behind what it alone makes of that node's output; -1 for none."""
        ahead = {made: number for number, made in enumerate(dict.fromkeys(made for _, made in begun))}
        self._ahead = np.array([ahead[made] for _, made in begun], np.int64)
        self.ones = self._of_ones()
        self.made = self._made_in()

    def again(self) -> list[_Again]:
        """Passes that run nodes again, in order."""
        runs, found = self.runs, []
        order = np.lexsort((runs.of, runs.key))
        same = (runs.key[order][1:] == runs.key[order][:-1]) & (runs.key[order][1:] >= 0)
        previous = np.full(len(runs.nodes), -1, np.int64)
        previous[order[1:][same]] = order[:-1][same]
        for number in distinct(runs.of[previous >= 0]).tolist():
            one = self._judge(number, previous)
            if one is not None:
                found.append(one)
        for one in found:
            if one.kind == SAME and not one.first:
                one.later = self._run_later(one.number)
            elif one.kind == SAMPLES:
                # One pass for all makes one graph for the pass through these gradients, too.
                one.later = np.flatnonzero(self.made == one.number)
        return found

    def _run_later(self, number: int) -> Ints:
        """Nodes that a pass made and a later one runs, which runs those that the first of its kind made as well."""
        later = np.flatnonzero(self.made == number)
        twin = int(self._alike(number)[0])
        both = np.isin(self.runs.of[later], self.runs.of[self.made == twin])
        chosen: Ints = later[both]
        return chosen

    def _alike(self, number: int) -> Ints:
        """Earlier passes that begin at the same node, with ones."""
        return np.flatnonzero(self._begins_alike(number)[:number] & self.ones[:number])

    def _begins_alike(self, number: int) -> Bools:
        """Flag the passes that begin at the same node as one of them, with the same made of its output."""
        root, key = self.root, self.runs.key
        alike: Bools = (root >= 0) & (key[root] == key[root[number]]) & (self._ahead == self._ahead[number])
        return alike

    def _root(self, places: Ints, once: Bools) -> tuple[int, tuple[tuple[int, int, int], ...]]:
        """Place of the node that a pass begins at, -1 for none with a number, and the operators ahead of it.

        These are run by no other pass (u.sum() of each call), but their gradient follows from what they are asked for: they are
        told by their names, shapes and numbers.
        """
        numbered = places[self.runs.key[places] >= 0].tolist()
        ahead: list[tuple[int, int, int]] = []
        for place in numbered[: _MOST_AHEAD + 1]:
            maker = self._maker[[place]]
            kind = self._name(place).rpartition(": ")[2]
            if not once[place] or maker[0] < 0 or not _LINEAR.match(kind):
                return place, tuple(ahead)
            asked = int(self.tree.context.op_column(maker, "concrete")[0])
            words = (self.tree.texts(asked) or [])[1:]
            # A sum of all is asked for nothing, a part for its number.
            if not words or not (all(words) or _TOTAL.match(kind)):
                return place, tuple(ahead)
            ahead.append((int(self.tree.host.name[maker[0]]), int(self.tree.dims(maker)[0]), asked))
        return (numbered[0] if numbered else -1), ()

    def _makers(self) -> Ints:
        """The forward operator that made each node, -1 where unknown.

        Every thread numbers for itself; which one a number of the engine's is of shows in the operators that bear it.
        """
        tree, runs, host = self.tree, self.runs, self.tree.host
        forward = np.flatnonzero((tree.sequence >= 0) & ~tree.engine)
        found = np.full(len(runs.nodes), -1, np.int64)
        wanted = tree.sequence[runs.nodes]
        of_thread = runs.key >> THREAD_BITS
        hits = dict.fromkeys(distinct(of_thread[runs.key >= 0]).tolist(), 0)
        for thread in distinct(host.thread[forward]).tolist():
            own = forward[host.thread[forward] == thread]
            own = own[np.lexsort((host.start[own], tree.sequence[own]))]
            numbers = tree.sequence[own]
            last = np.append(numbers[1:] != numbers[:-1], True)
            own, numbers = own[last], numbers[last]
            at = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
            known = (numbers[at] == wanted) & (host.start[own[at]] < host.start[runs.nodes])
            for number, most in hits.items():
                mine = known & (of_thread == number) & (runs.key >= 0)
                if mine.sum() > most:
                    hits[number] = int(mine.sum())
                    found[of_thread == number] = -1
                    found[mine] = own[at][mine]
        return found

    def _made_in(self) -> Ints:
        """The pass in which the graph of each node was made; -1 for the forward pass."""
        runs, host, maker = self.runs, self.tree.host, self._maker
        begun = fetch(host.start, maker)
        inside = np.searchsorted(runs.start, begun, side="right") - 1
        late = (maker >= 0) & (fetch(host.attributes.phase, maker) == BACKWARD)
        late &= (inside >= 0) & (begun < runs.end[np.maximum(inside, 0)])
        return np.where(late, inside, -1)

    def _judge(self, number: int, previous: Ints) -> _Again | None:
        """Tell what a pass runs again, and what kind of repetition that is."""
        runs, places = self.runs, self.places[number]
        own = places[previous[places] >= 0]
        through = distinct(self.made[places][self.made[places] >= 0])
        if len(through):
            below = np.concatenate([runs.key[self.places[one]] for one in through.tolist()])
            own = own[~np.isin(runs.key[own], below)]
        if not len(own):
            return None
        earlier = distinct(runs.of[previous[own]])
        last = int(earlier[-1])
        if self._same(number, previous):
            return self._twice(number, own)
        count = self._times(number, own)
        if self.accumulates[number]:
            adds = earlier[self.accumulates[earlier]]
            if not len(adds) or not self._added(int(adds[-1]), number, own):
                return None
            own = own[np.isin(runs.key[own], np.concatenate([runs.key[self.places[one]] for one in adds.tolist()]))]
            return _Again(number, self._with_stores(places, own), count, SUMMED) if len(own) else None
        if self.accumulates[last] or self._stepped(last, number):
            return None
        samples = count >= _LEAST_SAMPLES and self._samples(number, own, count)
        return _Again(number, own, count, SAMPLES if samples else ROWS)

    def _twice(self, number: int, own: Ints) -> _Again:
        runs = self.runs
        count = int(self._begins_alike(number).sum())
        if not self.accumulates[number]:
            return _Again(number, own, count, SAME)
        twin = int(self._alike(number)[0])
        places = self.places[twin]
        return _Again(twin, places[np.isin(runs.key[places], runs.key[own])], count, SAME, first=True)

    def _times(self, number: int, own: Ints) -> int:
        """Count the passes that store gradients (or do not), as this one, run the node of its own that most of them run."""
        alike = self.accumulates[self.runs.of] == self.accumulates[number]
        keys = self.runs.key[alike & np.isin(self.runs.key, self.runs.key[own])]
        return int(np.unique(keys, return_counts=True)[1].max())

    def _same(self, number: int, previous: Ints) -> bool:
        """Tell whether a pass begins at the node that an earlier one began at, and both with ones."""
        root = int(self.root[number])
        if root < 0 or previous[root] < 0:
            return False
        if not self.ones[number] or not _FULL.search(self._name(root)):
            return False
        alike = self._alike(number)
        if _JOINED.search(self._name(root)):
            # Of more passes than there are outputs, each from one of them, some are from the same.
            outputs = self._outputs(root)
            if not outputs or len(alike) < outputs:
                return False
        elif _PARTS.search(self._name(root)):
            return False
        return len(alike) > 0 and not (self.accumulates[number] and self.accumulates[alike].any())

    def _outputs(self, place: int) -> int:
        """Count the outputs of a node that joins their gradients; 0 where not just one of them was given.

        It makes zeros for those that were not, and joins all.
        """
        tree = self.tree
        nodes = tree.context.op_rows[tree.ops_below(self.runs.nodes[[place]]).index]
        names = [tree.context.names[code] for code in tree.host.name[nodes].tolist()]
        joins = [node for node, name in zip(nodes.tolist(), names, strict=True) if _JOINS.match(name)]
        if len(joins) != 1:
            return 0
        joined = [one for one in tree.shapes.operands(int(tree.dims(np.array(joins))[0])) if one]
        zeros = sum(_ZEROS.match(name) is not None for name in names)
        return len(joined) if zeros == len(joined) - 1 else 0

    def _of_ones(self) -> Bools:
        before = self.runs.last_call()
        ones = self.tree.codes_of(_ONES.__contains__)
        host = self.tree.host
        return (before >= 0) & ones[host.name[np.maximum(before, 0)]]

    def _between(self, first: int, second: int) -> Ints:
        """Nodes of the calling thread that begin between two passes."""
        host, runs = self.tree.host, self.runs
        at = np.searchsorted(runs.starts, [runs.end[first], runs.start[second]])
        return runs.calls[at[0] : at[1]] if host.size else runs.calls[:0]

    def _stepped(self, first: int, second: int) -> bool:
        """Tell whether an optimizer steps, or zeroes gradients, between two passes."""
        host, runs = self.tree.host, self.runs
        if "annotation" not in host.node_of:
            return False
        notes = host.node_of["annotation"]
        notes = notes[np.isin(host.attributes.phase[notes], (OPTIMIZER, ZERO_GRAD))]
        inside = (host.start[notes] >= runs.end[first]) & (host.start[notes] < runs.start[second])
        return bool(inside.any())

    def _added(self, first: int, second: int, own: Ints) -> bool:
        """Tell whether the gradients of a pass are added to those of an earlier one, which nobody reads in between."""
        tree, host = self.tree, self.tree.host
        if self._stepped(first, second):
            return False
        behind = self._stores_of(self.places[second], own)
        if len(behind) and not (self.stored[behind] == 1).any():
            return False
        between = self._between(first, second)
        names = [tree.context.names[code] for code in host.name[between].tolist()]
        if any(_ZERO.match(name) for name in names):
            return False
        reads = between[[_READS.match(name) is not None for name in names]] if names else between
        if not len(reads):
            return True
        gradients = self._gradients(first)
        return not any(
            gradients.intersection(tree.shapes.operands(code)) for code in distinct(tree.dims(reads)).tolist()
        )

    def _gradients(self, number: int) -> set[Shape]:
        """Shapes of the gradients that a pass stores, and their lengths when they are laid out flat."""
        tree, places = self.tree, self.places[number]
        nodes = self.runs.nodes[places[self.stored[places] >= 0]]
        inner = tree.ops_below(nodes).index
        codes = distinct(tree.dims(tree.context.op_rows[inner])) if len(inner) else inner
        shapes = {tree.shapes.operands(code)[:1] for code in codes.tolist()}
        found = {one[0] for one in shapes if one and one[0]}
        found |= {(size_of(shape),) for shape in found}
        return {shape for shape in found if size_of(shape) > 1}

    def _stores_of(self, places: Ints, own: Ints) -> Ints:
        """Places at which gradients of some nodes are stored: right behind the node that made them."""
        key = self.runs.key[places]
        before = np.maximum.accumulate(np.where(key >= 0, np.arange(len(places)), 0))
        chosen: Ints = places[(key < 0) & np.isin(places[before], own)]
        return chosen

    def _with_stores(self, places: Ints, own: Ints) -> Ints:
        return np.union1d(own, self._stores_of(places, own))

    def _samples(self, number: int, own: Ints, count: int) -> bool:
        """Tell whether a pass is of one element of a vector whose length is that of the batch which the nodes run over."""
        places = self.places[number]
        numbered = places[self.runs.key[places] >= 0]
        head = [place for place in numbered[:4].tolist() if _PICK.search(self._name(place))]
        if not head or any(self._summed_over_rows(place) for place in numbered[:4].tolist()):
            return False
        batches = {shape[0][0] for place in head if (shape := self._operands(place)) and len(shape[0]) == 1}
        deep = [shapes[0] for place in own[:12].tolist() if (shapes := self._operands(place)) and len(shapes[0]) >= 2]
        return any(
            batch >= max(count, _LEAST_SAMPLES) and any(shape[0] == batch for shape in deep) for batch in batches
        )

    def _summed_over_rows(self, place: int) -> bool:
        """Tell whether a node's forward operator was a sum or a mean over the first dimension: over a batch."""
        maker = int(self._maker[place])
        if maker < 0 or not _TOTAL.match(self._name(place).rpartition(": ")[2]):
            return False
        asked = self.tree.texts(int(self.tree.context.op_column(np.array([maker]), "concrete")[0])) or []
        return len(asked) > 1 and asked[1] == "[0]"

    def _name(self, place: int) -> str:
        name: str = self.tree.context.names[self.tree.host.name[self.runs.nodes[place]]]
        return name

    def _operands(self, place: int) -> tuple[Shape, ...]:
        """Shapes of the operands of a node's forward operator."""
        maker = int(self._maker[place])
        return self.tree.shapes.operands(int(self.tree.dims(np.array([maker]))[0])) if maker >= 0 else ()

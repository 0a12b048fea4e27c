"""Backward work behind the last gradient that an optimizer uses: layers that are not frozen, images that are not detached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from msgspec import Struct, field

from advisor.frames.patterns.passes import calls_between
from advisor.frames.patterns.tree import HIGHEST, NOTHING, Occurrences, Tree, spread
from advisor.frames.patterns.updates import LISTED, Shape, Update, first_operand, recorded_updates, targets
from advisor.intervals import Bools, Ints
from advisor.regex import regex
from advisor.timeline.calls import BACKWARD, FORWARD, OP, OPTIMIZER

_NODE, _RUN = "torch::autograd::AccumulateGrad", "autograd::engine::evaluate_function"
_ADD = regex(r"^aten::add_?$")
_ZERO = regex(r"^aten::(?:_foreach_)?zero_$")
# What a program does with a gradient, or with a parameter, that no optimizer of torch updates. Clipping multiplies, and is none.
_USES = regex(
    r"^aten::(?:_foreach_)?(?:add_?|sub_?|lerp_?|addcmul_?|addcdiv_?|copy_|clone|sign_?|abs_?|pow_?|square_?|mul)$|^c10d::send"
)
_PRODUCT = "aten::mul"
_LAYERS = regex(
    r"^aten::(?:linear|addmm|mm|matmul|bmm|conv\w*|_convolution|embedding|lstm|gru|scaled_dot_product_attention)$"
)
_LEAST_STEPS = 2
_LEAST_ALIKE = 2
"""Passes of a kind that show what becomes of their gradients, from which on the last one, that does not, is taken for one."""
_LEAST_RUN = 3
"""Nodes of the graph from which on two runs of the same names are taken for one network's."""
_MOST = 100_000
USED, UNUSED, SHARED, UNKNOWN = range(4)
NEVER = int(np.iinfo(np.int64).max)


class Pass(Struct, eq=False):
    """One backward pass: its nodes of the graph in order, and its gradients, each with its shape and the node it is stored in."""

    start: int
    nodes: Ints
    shapes: list[Shape] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)
    fresh: Counter[Shape] = field(default_factory=Counter)
    added: Counter[Shape] = field(default_factory=Counter)


class Zeroing(Struct, eq=False):
    """Tensors that are filled with zeros between passes, by shape."""

    start: int
    shapes: Counter[Shape]


def unused_gradients(tree: Tree) -> Occurrences | None:
    """One row per backward pass that goes on behind the last gradient that a step of an optimizer uses.

    Gradients are known by their shape. One is unused if no step updates a tensor of its shape before it is dropped (the next
    one of that shape is stored, not added) or zeroed, or none ever does. Where tensors of one shape are updated, but fewer than
    gradients were stored, it is not known which, and all count as used; but if what the step updates is, shape by shape, what
    the pass stores first, those are the ones. None where an optimizer does not show what it updates.
    """
    steps = tree.context.once(recorded_updates)
    if steps is None or len(steps) < _LEAST_STEPS:
        return None
    passes = tree.once(backward_passes)
    shapes = {shape for one in passes for shape in one.shapes}
    updated = Counter[Shape]()
    for step in steps:
        updated.update({shape: step.upto(shape) for shape in step.most})
    # Of shards and of flat copies nobody can tell whose gradients they are.
    if not shapes or set(updated) - shapes:
        return None
    uses = _used_otherwise(tree, shapes)
    events: list[Pass | Update | Zeroing] = [*passes, *steps, *_zeroings(tree)]
    events.sort(key=lambda event: event.start)
    in_between = {shape: times[~_forward_runs(tree, times)] for shape, times in uses.items()}
    life = _Life(events, passes, updated, uses, in_between)
    found = [(one, last) for one in passes if (last := _last_used(one, life)) is not None]
    tails = [_behind(tree, one, last, updated) for one, last in found]
    known = {one.start for one, _ in found}
    tails += [tail for one in passes if one.start not in known and (tail := _amid(tree, one, life)) is not None]
    known |= {tail.of.start for tail in tails}
    tails += [tail for tail in _run_again(tree, events) if tail.of.start not in known]
    return _occurrences(tree, tails + _at_the_end(tree, events, life, tails))


class _Tail(Struct, eq=False):
    """The part of a pass that no step uses: its nodes, and the places of its gradients among those that the pass stores.

    ``dropped``: a step updates what such gradients are of, only not with these.
    """

    of: Pass
    nodes: Ints
    unused: list[int]
    dropped: bool


def _amid(tree: Tree, one: Pass, life: _Life) -> _Tail | None:
    """Return a part of a pass between two runs of the network that the next step updates, whose gradients come before its own.

    A loss of two parts (real + fake) runs back through the network twice, and stores its gradients in the second run. What the
    first run goes on into comes between: it made that run's input. Where a gradient only leads on to the network that is
    updated, no second run follows.
    """
    at = life.events.index(one)
    step = life.next_step(at)
    count = len(one.shapes) - step.total() if step is not None else 0
    if count <= 0 or Counter(one.shapes[count:]) != step:
        return None
    fates = {life.of(at, shape, one.shapes.count(shape)) for shape in set(one.shapes[:count])}
    if not fates <= {UNUSED, SHARED} or UNUSED not in fates:
        return None
    names = tree.host.name[one.nodes]
    stores = tree.codes_of(lambda name: name.endswith(_NODE))[names]
    if stores.sum() != len(one.shapes):
        return None
    first, last = np.flatnonzero(stores)[[0, count - 1]].tolist()
    before, second = names[:first], names[last + 1 :][~stores[last + 1 :]]
    size = len(second)
    ends = [end for end in range(size, len(before) + 1) if np.array_equal(before[end - size : end], second)]
    if size < _LEAST_RUN or not ends:
        return None
    dropped = any(map(life.updated.__getitem__, set(one.shapes[:count]) - set(one.shapes[count:])))
    return _Tail(one, one.nodes[ends[0] : last + 1], list(range(count)), dropped)


def _run_again(tree: Tree, events: Sequence[Pass | Update | Zeroing]) -> list[_Tail]:
    """Parts of passes through a graph that a later pass runs through again, behind a step of another optimizer.

    A graph that is kept cannot be run again once its own parameters were updated, so that step used none of their gradients;
    and where the later pass stores its gradients anew, or they were filled with zeros, no step uses the earlier ones. So a
    discriminator's pass through a generator is found, whatever the order of the graph, and shapes that both have.
    """
    found = []
    sequence = {id(one): tree.context.op_column(one.nodes, "sequence") for one in events if isinstance(one, Pass)}
    for at, one in enumerate(events):
        if not isinstance(one, Pass):
            continue
        stepped = zeroed = False
        for other in events[at + 1 :]:
            if isinstance(other, Pass):
                break
            stepped, zeroed = stepped or isinstance(other, Update), zeroed or isinstance(other, Zeroing)
        else:
            continue
        if not stepped or not (zeroed or other.fresh):
            continue
        own = sequence[id(one)]
        again = (own >= 0) & np.isin(own, sequence[id(other)])
        stores = np.isin(one.nodes, tree.host.parent[np.array(one.stored, np.int64)]) | np.isin(one.nodes, one.stored)
        # A gradient is stored right behind the node that made it.
        before = np.maximum.accumulate(np.where(stores, 0, np.arange(len(again))))
        again = again[before]
        places = [place for place, store in enumerate(one.stored) if again[_at(tree, one, store)]]
        if places and not again.all():
            found.append(_Tail(one, one.nodes[again], places, dropped=True))
    return found


def _at_the_end(
    tree: Tree, events: Sequence[Pass | Update | Zeroing], life: _Life, tails: Sequence[_Tail]
) -> list[_Tail]:
    """The unused part of the last pass of a recording that ends before anything shows what becomes of its gradients.

    Where two or more passes before it are of its kind, and all of these have an unused part, of the same nodes, so has the last.
    """
    of = {tail.of.start: tail for tail in tails}
    at, last = [(at, event) for at, event in enumerate(events) if isinstance(event, Pass)][-1]
    if last.start in of:
        return []
    before = _of_its_kind(tree, events[:at], last)
    parts = [of[one.start] for one in before if one.start in of]
    run = {np.isin(part.of.nodes, part.nodes).tobytes() for part in parts}
    if len(before) < _LEAST_ALIKE or len(parts) < len(before) or len(run) > 1:
        return []
    first = parts[0]
    unused = Counter(last.shapes[place] for place in first.unused)
    alone = [shape for shape in unused if unused[shape] == last.shapes.count(shape)]
    used = any(life.of(at, shape, unused[shape]) == USED for shape in alone)
    if used or any(part.unused != first.unused for part in parts):
        return []
    return [_Tail(last, last.nodes[np.frombuffer(run.pop(), np.bool_)], first.unused, first.dropped)]


def _of_its_kind(tree: Tree, events: Sequence[Pass | Update | Zeroing], last: Pass) -> list[Pass]:
    """Return the passes that run nodes of the same names as the *last*, and store gradients of the same shapes, in its order."""
    name = tree.host.name
    passes = [event for event in events if isinstance(event, Pass) and event.shapes == last.shapes]
    return [one for one in passes if name[one.nodes].tobytes() == name[last.nodes].tobytes()]


def _behind(tree: Tree, one: Pass, last: int, updated: Counter[Shape]) -> _Tail:
    """Return what a pass runs behind the gradient at the place *last*; *updated* counts what steps update, whenever."""
    nodes = one.nodes[tree.host.start[one.nodes] >= tree.host.end[one.stored[last]]]
    apart = set(one.shapes[last + 1 :]) - set(one.shapes[: last + 1])
    dropped = any(map(updated.__getitem__, apart))
    return _Tail(one, nodes, list(range(last + 1, len(one.shapes))), dropped)


def _at(tree: Tree, one: Pass, store: int) -> int:
    return int(np.searchsorted(tree.host.start[one.nodes], tree.host.start[store], side="right")) - 1


class _Life:
    """Fate of gradients: the events in order, and what of them holds for the whole recording.

    *uses* are times at which the program computes with tensors of a shape, *in_between* those of them that lie in no forward pass.
    """

    def __init__(
        self,
        events: Sequence[Pass | Update | Zeroing],
        passes: list[Pass],
        updated: Counter[Shape],
        uses: dict[Shape, Ints],
        in_between: dict[Shape, Ints],
    ):
        self.events, self.updated, self.uses = events, updated, uses
        self.in_between = in_between
        self.stored = Counter(shape for one in passes for shape in one.shapes)
        self.number = Counter[Shape]()
        together = Counter[Shape]()
        for event in events:
            if isinstance(event, Update):
                together.update({shape: event.upto(shape) for shape in event.most})
                self.number |= together
            elif isinstance(event, Pass):
                together = Counter()
                self.number |= Counter(event.shapes)

    def of(self, at: int, shape: Shape, count: int) -> int:
        """Return what becomes of *count* gradients of a shape that the event *at* stores."""
        if self.stored[shape] <= self.updated[shape]:
            return USED
        if not self.updated[shape]:
            return USED if shape in self.uses else UNUSED
        fate, until = self._fate(at, shape, count)
        times = self.in_between.get(shape)
        if times is not None and np.searchsorted(times, until) > np.searchsorted(times, self.events[at].start):
            return USED
        return fate

    def _fate(self, at: int, shape: Shape, count: int) -> tuple[int, int]:
        """Return what steps and later passes make of *count* gradients of a shape, and when they are gone."""
        used = 0
        for event in self.events[at + 1 :]:
            if isinstance(event, Update):
                used += event.upto(shape)
                if used >= count:
                    return USED, event.start
                continue
            begun = event.shapes[shape] if isinstance(event, Zeroing) else event.fresh[shape]
            if begun and (begun < self.number[shape] or (isinstance(event, Pass) and event.added[shape])):
                return SHARED if used else UNKNOWN, event.start
            if begun:
                return SHARED if used else UNUSED, event.start
        return SHARED if used else UNKNOWN, NEVER

    def next_step(self, at: int) -> Counter[Shape] | None:
        """Return what the steps behind a pass update, up to the pass behind them; None where that is not known by number."""
        total = Counter[Shape]()
        for event in self.events[at + 1 :]:
            if isinstance(event, Update):
                if event.count is None:
                    return None
                total.update(event.count)
            elif isinstance(event, Pass) and total:
                break
        return total or None


def _last_used(one: Pass, life: _Life) -> int | None:
    """Place of the last gradient of a pass that is used, among those that it stores; None where none is, or all are."""
    at = life.events.index(one)
    counts = Counter(one.shapes)
    fate = {shape: life.of(at, shape, count) for shape, count in counts.items()}
    if USED not in fate.values():
        return None
    kept = [place for place, shape in enumerate(one.shapes) if fate[shape] != UNUSED]
    last = kept[-1]
    if SHARED in fate.values() and (step := life.next_step(at)) is not None:
        first = step.total()
        begins = Counter(one.shapes[:first]) == step and first > 1
        sure = any(fate[shape] == USED for shape in step)
        if begins and sure and all(fate[shape] in (UNUSED, SHARED) for shape in one.shapes[first:]):
            last = first - 1
    return last if last + 1 < len(one.shapes) else None


def _occurrences(tree: Tree, found: list[_Tail]) -> Occurrences | None:
    """Rows of the passes of which no step uses a part, with all that runs in it."""
    host = tree.host
    stores = tree.codes_of(lambda name: name.endswith(_NODE))
    found = [tail for tail in found if not stores[host.name[tail.nodes]].all()]
    if not found:
        return None
    tails = [tail.nodes for tail in found]
    row = np.repeat(np.arange(len(tails)), [len(tail) for tail in tails])
    nodes = np.concatenate(tails)
    first = np.array([_telling(tree, tail) for tail in tails], np.int64)
    inside = tree.launched_below(nodes)
    inside.row = row[inside.row]
    ops = tree.ops_below(nodes) if tree.context.cpu_program else NOTHING
    stored = np.array([tail.of.stored[tail.unused[0]] for tail in found], np.int64)
    return Occurrences(
        kind="unused-gradients",
        node=first,
        begin=np.array([host.start[tail[0]] for tail in tails], np.int64),
        end=np.array([host.end[tail].max() for tail in tails], np.int64),
        inside=inside.each_once(),
        own=inside.each_once(),
        idle=True,
        ops=ops if ops is NOTHING else type(ops)(row[ops.row], ops.index).each_once(),
        figures={
            "repeats": np.array([len(tail.unused) for tail in found], np.int64),
            "length": np.array([len(tail.of.shapes) for tail in found], np.int64),
            "dims": tree.dims(stored),
        },
        details=["dropped" if tail.dropped else "never updated" for tail in found],
    )


def _telling(tree: Tree, nodes: Ints) -> int:
    """Return the first operator that some nodes of the graph run: its place is that of its forward operator."""
    below = spread(nodes, tree.after(nodes))
    inner = below.index[(tree.host.group[below.index] == OP) & ~tree.engine[below.index]]
    return int(inner[0] if len(inner) else nodes[0])


def backward_passes(tree: Tree) -> list[Pass]:
    """All backward passes with the gradients that they store; between two of them the program runs operators of its own."""
    host = tree.host
    runs = tree.ops(tree.codes_of(lambda name: name.startswith(_RUN)))
    stores = tree.ops(tree.codes_of(_NODE.__eq__))
    if not 0 < len(stores) <= _MOST or len(runs) > _MOST:
        return []
    flags = _flags(tree, runs)
    runs = runs[host.above(runs, flags, HIGHEST) < 0]
    runs = runs[np.argsort(host.start[runs], kind="stable")]
    _, calls = calls_between(tree)
    if not len(calls) or not len(runs):
        return []
    before = np.searchsorted(host.start[calls], host.start[runs])
    cuts = np.flatnonzero(np.diff(before)) + 1
    found = [Pass(int(host.start[part[0]]), part) for part in np.split(runs, cuts)]
    stores = stores[np.argsort(host.start[stores], kind="stable")]
    adds = tree.ops(tree.codes_of(lambda name: _ADD.match(name) is not None))
    added = set(host.above(adds, _flags(tree, stores), HIGHEST).tolist())
    begun = np.array([one.start for one in found])
    for store, at in zip(
        stores.tolist(), (np.searchsorted(begun, host.start[stores], side="right") - 1).tolist(), strict=True
    ):
        shapes = first_operand(tree, store, listed=False)
        if shapes and at >= 0:
            one, shape = found[at], shapes[0]
            one.shapes.append(shape)
            one.stored.append(store)
            (one.added if store in added else one.fresh)[shape] += 1
    return [one for one in found if one.shapes]


def _flags(tree: Tree, nodes: Ints) -> Bools:
    flags = np.zeros(tree.host.size, np.bool_)
    flags[nodes] = True
    return flags


def zero_fills(tree: Tree) -> list[tuple[int, list[Shape] | None]]:
    """Start and shapes of each fill with zeros outside of backward passes and steps of optimizers; None where not recorded."""
    host = tree.host
    nodes = tree.ops(tree.codes_of(lambda name: _ZERO.match(name) is not None))
    nodes = nodes[~np.isin(host.attributes.phase[nodes], (BACKWARD, OPTIMIZER))]
    nodes = nodes[host.above(nodes, _flags(tree, nodes), HIGHEST) < 0]
    return [(int(host.start[node]), targets(tree, node)) for node in nodes.tolist()]


def _zeroings(tree: Tree) -> list[Zeroing]:
    """Those fills whose shapes are recorded."""
    return [Zeroing(start, Counter(shapes)) for start, shapes in zero_fills(tree) if shapes]


def _used_otherwise(tree: Tree, shapes: set[Shape]) -> dict[Shape, Ints]:
    """When, by shape, the program itself computes with tensors, neither forward nor in a step.

    An update by hand, gradients of inputs, a moving average of parameters: gradients of such a shape that are there at that
    time count as used.
    """
    host = tree.host
    nodes = tree.outermost
    nodes = nodes[~np.isin(host.attributes.phase[nodes], (BACKWARD, OPTIMIZER))]
    nodes = nodes[tree.codes_of(lambda name: _USES.match(name) is not None)[host.name[nodes]]]
    used: dict[Shape, list[Ints]] = {}
    kind = host.name[nodes].astype(np.int64) << 32 | tree.dims(nodes) & 0xFFFFFFFF
    _, firsts, of = np.unique(kind, return_index=True, return_inverse=True)
    for number, node in enumerate(nodes[firsts].tolist()):
        name = tree.context.names[host.name[node]]
        listed = LISTED.match(name) is not None or name.startswith(("aten::_foreach", "c10d::"))
        found = first_operand(tree, node, listed=listed)
        if found is None:
            if listed:  # of a list of more than 30 tensors no shape is recorded: any of them may be in it
                for shape in shapes:
                    used.setdefault(shape, []).append(host.start[nodes[of == number]])
            continue
        if name == _PRODUCT and tree.shapes.operands(int(tree.dims(np.array([node]))[0]))[1:2] != (found[0],):
            continue
        for shape in set(found) & shapes:
            used.setdefault(shape, []).append(host.start[nodes[of == number]])
    return {shape: np.sort(np.concatenate(times)) for shape, times in used.items()}


def _forward_runs(tree: Tree, times: Ints) -> Bools:
    """Flag the times behind a layer, with no backward pass since: what a forward pass computes with is no gradient.

    So spectral normalization copies its vectors in each call, and what a layer gives for each sample may have a parameter's shape.
    """
    layers, passes = tree.once(_forward_starts)
    layer = np.r_[-1, layers][np.searchsorted(layers, times)]
    backward = np.r_[-1, passes][np.searchsorted(passes, times)]
    flags: Bools = layer > backward
    return flags


def _forward_starts(tree: Tree) -> tuple[Ints, Ints]:
    """Starts of the layers of forward passes, and of the backward passes, each in the order of time."""
    host, outer = tree.host, tree.outermost
    layers = outer[tree.codes_of(lambda name: _LAYERS.match(name) is not None)[host.name[outer]]]
    layers = np.sort(host.start[layers[host.attributes.phase[layers] == FORWARD]])
    return layers, np.array([one.start for one in tree.once(backward_passes)], np.int64)

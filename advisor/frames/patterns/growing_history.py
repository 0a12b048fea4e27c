"""Histories that go through a model once more with every turn of a loop that makes them one longer.

A rollout, or a decoder that is fed what it gave, calls ``model(torch.stack(observations, 1))[:, -1]`` in each turn. What a model
of one direction computes of the earlier positions is what the turn before computed: a recurrent layer's state, or the keys and
values of an attention with a causal mask, can be carried, and a turn then goes over its new position alone. Sequences that are
known before the loop are :mod:`advisor.frames.patterns.growing_prefix`'s: one call is enough for those.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from advisor.frames.patterns.dense_embedding import Floats
from advisor.frames.patterns.growing_prefix import (
    LAYERS,
    PRODUCTS,
    WRITES,
    Prefixes,
    alike_turns,
    allowed,
    attends,
    ends_at_last,
    growing_prefixes,
    masked,
)
from advisor.frames.patterns.loop import items_of
from advisor.frames.patterns.operands import numbers
from advisor.frames.patterns.tree import NOTHING, Occurrences, Tree, size_of
from advisor.frames.patterns.turns import JOINS, LEAST, owned
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Ints
from advisor.regex import regex
from advisor.timeline.operator_names import is_view

_SLICE = "aten::slice"
_RANDOM = regex(
    r"^aten::(?:rand(?:n|int)?(?:_like)?|normal_?|uniform_?|bernoulli_?|multinomial|poisson|exponential_?)$"
)
_MOST = 200_000
"""Operators that a turn may begin with, from which on nothing is looked for."""


def growing_histories(tree: Tree) -> Occurrences | None:
    """One row per loop on the CPU that calls a causal model on a history which each turn makes longer.

    ``repeats`` are its turns, ``length`` the positions of the longest history, and ``part`` what goes of what the row owns where a
    turn goes over one position: what operators take longer with more positions, and their backward pass.
    """
    if not tree.context.cpu_program:
        return None
    known = tree.once(growing_prefixes)
    begun = set() if known is None else set(known.node.tolist())
    found = [one for one in _loops(tree) if int(one.nodes[0, 0]) not in begun and _carries(one)]
    if not found:
        return None
    host = tree.host
    own, rate = np.full(host.size, -1, np.int64), np.zeros(host.size)
    alike: dict[tuple[int, ...], list[int]] = {}
    for row, one in enumerate(found):
        alike.setdefault((int(host.attributes.user[one.nodes[0, 0]]), *one.nodes.shape, *one.ends), []).append(row)
    for rows in alike.values():
        # An interrupted operator tells nothing: of the loops of all steps the usual one.
        spared = _spared(found[rows[0]], np.median([found[row].times for row in rows], axis=0))
        for row in rows:
            more = np.array(found[row].grows)
            own[found[row].nodes[:, more]] = row
            rate[found[row].nodes[:, more]] = spared[more]
    marked = np.flatnonzero(own >= 0)
    source = np.full(host.size, -1, np.int64)
    source[marked] = marked
    of = host.with_backward(source)[tree.context.op_rows]
    ops, _, part = owned(tree, of, own, rate, len(found), led=False)
    node = np.array([one.nodes[0, 0] for one in found], np.int64)
    return Occurrences(
        kind="growing-history",
        node=node,
        begin=host.start[node],
        end=host.end[np.array([one.nodes[-1, -1] for one in found])],
        inside=NOTHING,
        own=NOTHING,
        ops=ops,
        user=_called_at(tree, found),
        figures={
            "repeats": np.array([one.count for one in found], np.int64),
            "length": np.array([one.ends[-1] for one in found], np.int64),
            "part": part,
            "dims": tree.dims(node),
        },
        details=["recurrent" if _recurrent(one) else "attention" for one in found],
    )


def _called_at(tree: Tree, found: list[Prefixes]) -> Ints:
    """The line that calls all that grows in a turn but what puts the history together: mostly the model's call."""
    ends = []
    for one in found:
        computing = [
            at
            for at, more in enumerate(one.grows)
            if more and not is_view(one.names[at]) and not JOINS.match(one.names[at])
        ]
        ends.append((one.nodes[0, computing[0]], one.nodes[0, computing[-1]]))
    first, last = np.array(ends, np.int64).T
    return tree.host.around_both(first, last, first)


def _loops(tree: Tree) -> list[Prefixes]:
    """Runs of eight turns or more of the same operators, each of which begins with something longer along one dimension."""
    items, token = items_of(tree)
    heads = tree.codes_of(lambda name: name == _SLICE or any(kind.match(name) for kind in (JOINS, LAYERS, PRODUCTS)))
    places = np.flatnonzero(heads[tree.host.name[items]])
    if not LEAST <= len(places) <= _MOST:
        return []
    order = places[np.argsort(token[places], kind="stable")]
    edges = np.flatnonzero(np.diff(token[order])) + 1
    chains: list[tuple[Ints, Ints]] = []
    for members in np.split(order, edges):
        if len(members) >= LEAST:
            chains += _chains(tree, items, members)
    taken = np.zeros(len(items), np.bool_)
    found = []
    for chain, ends in sorted(chains, key=lambda one: int(one[0][0])):
        for first, count, period in alike_turns(token, chain):
            whole = chain[first] + np.arange(period)[None, :] + (chain[first : first + count] - chain[first])[:, None]
            if not taken[whole].any():
                taken[whole] = True
                found.append(Prefixes(tree, items[whole], ends[first : first + count]))
    return found


def _chains(tree: Tree, items: Ints, members: Ints) -> list[tuple[Ints, Ints]]:
    """Stretches of calls from one line whose length grows by the same number each time: places and lengths."""
    nodes = items[members]
    name = tree.context.names[tree.host.name[nodes[0]]]
    told = zip(tree.dims(nodes).tolist(), tree.context.op_column(nodes, "concrete").tolist(), strict=True)
    shapes = [_shape(name, tree.shapes.operands(dims), tree.texts(values)) for dims, values in told]
    grown = [_grown(old, new) for old, new in pairwise(shapes)]
    found: list[tuple[Ints, Ints]] = []
    first = 0
    for last in range(1, len(grown) + 1):
        if last < len(grown) and grown[last] is not None and grown[last] == grown[first]:
            continue
        more = grown[first]
        if more is not None and last - first >= LEAST - 1:
            dim, by = more
            ends = shapes[last][dim] - by * np.arange(last - first, -1, -1, dtype=np.int64)
            found.append((members[first : last + 1], ends))
        first = last
    return found


def _shape(name: str, operands: tuple[Shape, ...], texts: list[str] | None) -> Shape:
    """The shape of what a turn begins with: of what is put together, of a part from the start, or of what is given; or none."""
    whole = operands[0] if operands else ()
    if name == "aten::stack":
        tensors = [shape for shape in operands if shape]
        return (len(tensors), *whole) if whole and all(shape == whole for shape in tensors) else ()
    if name not in ("aten::cat", _SLICE):
        return () if JOINS.match(name) else whole
    along = numbers(texts, 1)
    dim = along[0] if along and len(along) == 1 else len(whole)
    if not -len(whole) <= dim < len(whole):
        return ()
    if name == "aten::cat":
        length = sum(shape[dim] for shape in operands if len(shape) == len(whole))
    else:
        length = _from_start(texts, whole[dim])
    return (*whole[: dim % len(whole)], length, *whole[dim % len(whole) + 1 :]) if length else ()


def _from_start(texts: list[str] | None, most: int) -> int:
    """The length of a slice from the start; 0 for others."""
    start, end = numbers(texts, 2), numbers(texts, 3)
    return end[0] if start and end and start[0] == 0 and 0 < end[0] <= most else 0


def _grown(old: Shape, new: Shape) -> tuple[int, int] | None:
    """The one dimension that is longer, and by how much; None where another differs, or none does."""
    differ = [at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other]
    if len(old) != len(new) or len(differ) != 1 or new[differ[0]] <= old[differ[0]]:
        return None
    return differ[0], new[differ[0]] - old[differ[0]]


def _carries(one: Prefixes) -> bool:
    """Tell whether all that grows is of a model of which each position sees only those before it, and the last one is taken."""
    growing = [place for place, more in enumerate(one.grows) if more]
    if not one.works or not all(allowed(one, at) or _puts_behind(one, at) for at in growing):
        return False
    if not _continues(one, growing) or one.updates:
        return False
    if not ends_at_last(one, growing):
        return False
    if attends(one):  # what generates outside of training has keys and values to keep: inference/no-cache
        return masked(one, growing) and (_recurrent(one) or one.tree.context.training())
    return _recurrent(one)


def _continues(one: Prefixes, growing: list[int]) -> bool:
    """Tell whether a turn's own operators make the history longer: what only comes longer may be another batch each time."""
    if any(_RANDOM.match(name) and one.values(at) != one.values(at, -2) for at, name in enumerate(one.names)):
        return False
    return any(_filled(one, at) for at in range(len(one.names))) or any(_puts_behind(one, at) for at in growing)


def _puts_behind(one: Prefixes, place: int) -> bool:
    """Tell whether an operator puts the history together: of a list that is longer, or of the last one with what is new."""
    name, now, old = one.names[place], one.operands[place], one.before[place]
    if name not in ("aten::stack", "aten::cat"):
        return False
    if len(now) > len(old):
        return True
    if name == "aten::stack" or not one.growing(place, 0):
        return False
    # What joins as many positions as the history is longer each time: another batch with a mark behind it does mostly not.
    grown = _grown(old[0], now[0])
    more = [shape for shape in now[1:] if len(shape) == len(now[0])]
    return grown is not None and sum(shape[grown[0]] for shape in more) == grown[1]


def _filled(one: Prefixes, place: int) -> bool:
    """Tell whether an operator takes a longer part of a buffer, into which the turn writes as much as that is longer."""
    shapes, texts = one.operands[place], one.values(place)
    along = numbers(texts, 1)
    if one.names[place] != _SLICE or not shapes or not along or not -len(shapes[0]) <= along[0] < len(shapes[0]):
        return False
    whole, dim = shapes[0], along[0]
    now, old = _from_start(texts, whole[dim]), _from_start(one.values(place, -2), whole[dim])
    new = size_of(whole) // max(whole[dim], 1) * (now - old)
    return 0 < old < now and any(
        name != "aten::fill_" and WRITES.match(name) and any(size_of(shape) == new for shape in given if shape)
        for name, given in zip(one.names, one.operands, strict=True)
    )


def _recurrent(one: Prefixes) -> bool:
    """Tell whether a recurrent layer goes over the history: sequences of one length, of a batch or alone."""
    return any(
        LAYERS.match(name) and grows and len(operands[0]) == 3
        for name, grows, operands in zip(one.names, one.grows, one.operands, strict=True)
    )


def _spared(one: Prefixes, times: Floats) -> Floats:
    """Part of each operator's *times* that goes where each turn goes over one position, as long as it takes by a straight line."""
    away = one.ends - one.ends.mean()
    slope = np.maximum((away[:, None] * times).sum(axis=0) / (away**2).sum(), 0)
    alone = times.mean(axis=0) - slope * (one.ends.mean() - 1)
    alone = np.maximum(alone, times.min(axis=0) / one.ends[0])
    spared: Floats = np.clip(1 - alone * one.count / np.maximum(times.sum(axis=0), 1), 0.0, 1.0)
    return spared

"""Weights that are worked out anew in each call of a program that only infers: weight normalization, and spectral normalization.

``weight_norm`` makes a layer's weight of a direction and a length whenever the layer is called, ``spectral_norm`` divides it by
its largest singular value. Where nothing is trained both give the same weight each time.
"""

from __future__ import annotations

import numpy as np

from advisor.frames.patterns.operands import with_python
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, size_of
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Bools, Ints
from advisor.regex import regex
from advisor.timeline.calls import BACKWARD
from advisor.timeline.operator_names import is_view
from advisor.timeline.program import INFERENCE, program_of

_WEIGHT = "aten::_weight_norm"
_DOTS = frozenset({"aten::dot", "aten::vdot"})
_ITERATES = regex(
    r"^aten::(?:mv|matmul|vdot|dot|clone|contiguous|linalg_vector_norm|norm|clamp_min_?|div|copy_|expand_as)$"
)
"""Operators by which a spectral norm gets at the singular value, besides views."""
_MOST = 20_000
_REACH = 40
"""Calls before the division by a singular value that can be of it: two products, and the lengths of what they give."""


def attached_norms(tree: Tree) -> Occurrences | None:
    """One row per weight that is normalized for a call of its layer, in a program that only infers.

    It owns the operators, their GPU work, the idle time that they and the Python before them cause, and on the CPU that Python.
    """
    named = tree.codes_of(lambda name: name in (_WEIGHT, *_DOTS))
    if not named.any() or tree.context.once(program_of).kind != INFERENCE:
        return None
    host = tree.host
    tops = tree.outermost[host.attributes.phase[tree.outermost] != BACKWARD]
    weight = np.flatnonzero(tree.codes_of(_WEIGHT.__eq__)[host.name[tops]])
    chains = [(at, at) for at in weight.tolist()] + _spectral(tree, tops)
    if not 0 < len(chains) <= _MOST:
        return None
    chains.sort()
    first, last = np.array(chains, np.int64).T
    node, end = tops[first], host.end[tops[last]]
    low, high = node, tree.after(tops[last])
    own = tree.launched(low, high)
    # Python between the call before and this one: the parametrization's modules run in it, and end with what they call.
    before = np.where(first > 0, tops[np.maximum(first - 1, 0)], node)
    beside = (host.thread[before] == host.thread[node]) & (before != node)
    ops, python = _on_cpu(tree, tops, first, last)
    return Occurrences(
        kind="weight-norm",
        node=tops[last],
        begin=np.where(beside, host.end[before], host.start[node]),
        end=end,
        inside=own,
        own=own,
        idle=True,
        ops=ops,
        python=python,
        figures={"dims": tree.dims(tops[last])},
        details=["weight norm" if one == other else "spectral norm" for one, other in chains],
    )


def _on_cpu(tree: Tree, tops: Ints, first: Ints, last: Ints) -> tuple[Pairs, Pairs]:
    """Rows of `ops`, and the segments of Python that lead to them, of a program on the CPU."""
    if not tree.context.cpu_program:
        return NOTHING, NOTHING
    chosen = [np.arange(low, high + 1) for low, high in zip(first.tolist(), last.tolist(), strict=True)]
    row = np.repeat(np.arange(len(first)), [len(some) for some in chosen])
    nodes = Pairs(row, tops[np.concatenate(chosen)])
    return with_python(tree, nodes)


def _spectral(tree: Tree, tops: Ints) -> list[tuple[int, int]]:
    """First and last call of each spectral norm: W v, then u . (W v), then W divided by that number."""
    host = tree.host
    dots: Bools = tree.codes_of(_DOTS.__contains__)[host.name[tops]]
    places = np.flatnonzero(dots)
    if not 0 < len(places) <= _MOST:
        return []
    return [chain for at in places.tolist() if (chain := _around(tree, tops, at)) is not None]


def _around(tree: Tree, tops: Ints, dot: int) -> tuple[int, int] | None:
    """The calls of one spectral norm by the place of its scalar product; None where it is none."""
    host, names = tree.host, tree.context.names
    before, behind = dot - 1, dot + 1
    if before < 0 or behind >= len(tops) or host.thread[tops[before]] != host.thread[tops[behind]]:
        return None
    if names[host.name[tops[before]]] != "aten::mv" or names[host.name[tops[behind]]] != "aten::div":
        return None
    known = _known(*(_shapes(tree, tops, at) for at in (before, dot, behind)))
    if known is None:
        return None
    first = before
    while first > 0 and before - first < _REACH and host.thread[tops[first - 1]] == host.thread[tops[dot]]:
        name = names[host.name[tops[first - 1]]]
        if not (is_view(name) or _ITERATES.match(name)) or not known.issuperset(_shapes(tree, tops, first - 1)):
            break
        first -= 1
    return first, behind


def _shapes(tree: Tree, tops: Ints, at: int) -> tuple[Shape, ...]:
    return tree.shapes.operands(int(tree.dims(tops[at : at + 1])[0]))


def _known(product: tuple[Shape, ...], dot: tuple[Shape, ...], division: tuple[Shape, ...]) -> set[Shape] | None:
    """Shapes of a spectral norm, by those of W v, of u . (W v) and of W over that number; None where they do not meet."""
    if not len(product) == len(dot) == len(division) == 2 or len(product[0]) != 2 or division[1]:
        return None
    matrix, vector = product
    if dot[0] != dot[1] or dot[0] != matrix[:1] or vector != matrix[1:] or size_of(division[0]) != size_of(matrix):
        return None
    return {matrix, matrix[::-1], vector, dot[0], division[0], ()}

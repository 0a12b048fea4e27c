"""Full Fourier transforms of real numbers, there and back, of which the real part alone is used: ``ifft(fft(x) * h).real``.

The transform of real numbers holds each value twice, the second time conjugate. rfft leaves these out, and irfft makes real numbers
of the rest: half the arithmetic and half the memory, in the transforms and in the products between them.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np
from msgspec import Struct

from advisor.frames.patterns.operands import around, keys, numbers, owned
from advisor.frames.patterns.tree import Occurrences, Tree, size_of
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Ints
from advisor.regex import regex
from advisor.timeline.calls import BACKWARD, OP
from advisor.timeline.operator_names import moves_no_data

_CALLS = regex(r"^aten::fft_(i?)fft[2n]?$")
_KERNELS = frozenset({"aten::_fft_c2c", "aten::_fft_r2c"})
_BETWEEN = regex(
    r"^aten::(?:mul|multiply|div|divide|true_divide|add|sub|rsub|addcmul|addcdiv|sum|_?conj(?:_physical)?|clone|neg)_?$"
)
"""Operators that give a Hermitian spectrum of Hermitian ones: each value is treated as its conjugate is."""
_COMPLEX = regex(r"complex|^Complex")
_MOST = 200_000
_FORWARD, _INVERSE, _REAL, _KEPT, _OTHER = range(5)


class _Item(Struct, eq=False):
    """An operator on complex numbers, or a transform: its node, what it is, and the sizes that a transform runs over."""

    node: int
    what: int
    sizes: Shape = ()
    elements: int = 0


def full_transforms(tree: Tree) -> Occurrences | None:
    """One row per convolution by full transforms of real numbers: transforms, the operators between them, and the backward pass.

    It begins with transforms of real numbers and ends before the next ones. Between are operators that keep the spectrum that of
    real numbers, if their operands are; and each transform back is followed by its real part. A spectrum that goes anywhere else
    (its magnitude, its phase, a shift) makes it none. ``repeats`` are the transforms, ``length`` the elements of the largest.
    """
    runs = [run for items in _callers(tree) for run in _runs(items)]
    if not runs:
        return None
    runs.sort(key=lambda run: run[0].node)
    host = tree.host
    own = np.full(host.size, -1, np.int64)
    for row, run in enumerate(runs):
        own[[item.node for item in run]] = row
    inside, ops, _ = owned(tree, host.with_backward(own))
    node = np.array([run[0].node for run in runs], np.int64)
    turned = [[item for item in run if item.what in (_FORWARD, _INVERSE)] for run in runs]
    return Occurrences(
        kind="full-transform",
        node=node,
        begin=host.start[node],
        end=np.array([host.end[run[-1].node] for run in runs], np.int64),
        inside=inside,
        own=inside,
        ops=ops,
        figures={
            "repeats": np.array([len(run) for run in turned], np.int64),
            "length": np.array([max(item.elements for item in run) for run in turned], np.int64),
            "dims": tree.dims(node),
        },
    )


def _runs(items: list[_Item]) -> list[list[_Item]]:
    """The runs of one caller's items that are such convolutions: each from transforms of real numbers to the last real part."""
    found, run = [], list[_Item]()
    for item in items:
        if item.what == _FORWARD and any(one.what == _INVERSE for one in run):
            found.append(run)
            run = []
        if run or item.what == _FORWARD:
            run.append(item)
    return [run for run in (*found, run) if _whole(run)]


def _whole(run: list[_Item]) -> bool:
    """Tell whether a run has transforms back, each followed by its real part, over the sizes of one there, and nothing else."""
    there = {item.sizes for item in run if item.what == _FORWARD}
    back = [item for item in run if item.what == _INVERSE]
    pairs = [(item.what, after.what) for item, after in pairwise(run)]
    return (
        bool(back)
        and all(item.sizes in there for item in back)
        and not any(item.what == _OTHER for item in run)
        and run[-1].what != _INVERSE
        and all((first == _INVERSE) == (second == _REAL) for first, second in pairs)
    )


def _callers(tree: Tree) -> list[list[_Item]]:
    """Transforms and operators on complex numbers of one caller, thread and step each, in their order, outside of backward."""
    host = tree.host
    kernels = tree.ops(tree.codes_of(_KERNELS.__contains__))
    kernels = kernels[host.attributes.phase[kernels] != BACKWARD]
    calls = around(tree, kernels)
    called = tree.codes_of(lambda name: _CALLS.match(name) is not None)
    kept = (calls >= 0) & called[host.name[np.maximum(calls, 0)]]
    if not kept.any():
        return []
    over = around(tree, calls[kept])
    nodes: Ints = np.flatnonzero((host.group == OP) & (host.attributes.phase != BACKWARD) & ~tree.engine)
    parents = around(tree, nodes)
    here = np.isin(parents, over)
    nodes, parents = nodes[here], parents[here]
    if len(nodes) > 5 * _MOST:
        return []
    transforms = _transforms(tree, kernels[kept], calls[kept])
    step = tree.context.recording.host_step_of(host.start[nodes])
    kinds, of = keys(tree, nodes, "types", "dims")
    what = np.array([_what(tree, name, types) for name, types, _ in kinds], np.int64)[of]
    groups: dict[tuple[int, ...], list[_Item]] = defaultdict(list)
    order = np.argsort(host.start[nodes], kind="stable")
    for node, code, *key in zip(
        *(column[order].tolist() for column in (nodes, what, parents, host.thread[nodes], step)), strict=True
    ):
        item = transforms.get(node) or (_Item(node, code) if code >= 0 else None)
        if item is not None:
            groups[tuple(key)].append(item)
    return list(groups.values())


def _what(tree: Tree, name: int, types: int) -> int:
    """Return what an operator is to a spectrum; -1 for none that reads complex numbers, and for views of them."""
    words, label = tree.words(types) or [], tree.context.names[name]
    if not any(_COMPLEX.search(word) for word in words):
        return -1
    if label == "aten::real":
        return _REAL
    if label in ("aten::imag", "aten::view_as_real", "aten::select", "aten::slice", "aten::narrow", "aten::roll"):
        return _OTHER
    if _BETWEEN.match(label):
        return _KEPT
    return -1 if moves_no_data(label) else _OTHER


def _transforms(tree: Tree, kernels: Ints, calls: Ints) -> dict[int, _Item]:
    """Transforms by the node of their call: real numbers there, complex numbers back, others."""
    names = tree.context.names
    columns = (
        kernels,
        calls,
        tree.context.op_column(calls, "types"),
        tree.dims(kernels),
        tree.context.op_column(kernels, "concrete"),
    )
    found: dict[int, _Item] = {}
    for kernel, call, told, dims, values in zip(*(column.tolist() for column in columns), strict=True):
        operands, texts = tree.shapes.operands(dims), tree.texts(values)
        shape, over = operands[0] if operands else (), numbers(texts, 1)
        words = tree.words(told) or [""]
        match = _CALLS.match(names[tree.host.name[call]])
        what = _OTHER
        if match and shape and over and words[0] and all(-len(shape) <= dim < len(shape) for dim in over):
            real = not _COMPLEX.search(words[0])
            if not match[1] and real:
                what = _FORWARD
            elif match[1] and not real and names[tree.host.name[kernel]] == "aten::_fft_c2c":
                what = _INVERSE
        sizes = tuple(shape[dim] for dim in over) if what != _OTHER and over else ()
        found[call] = _Item(call, what, sizes, size_of(shape))
    return found

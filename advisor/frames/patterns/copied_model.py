"""Copies of a whole model or of its state in Python: by copy.deepcopy, or by load_state_dict from another model.

Both walk all modules and make, or look up, every tensor by itself. Where the copy is needed, its tensors can be listed once, and
written in one call.
"""

from __future__ import annotations

import re

import numpy as np

from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.loop import items_of
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, spread
from advisor.frames.patterns.unused_gradients import backward_passes
from advisor.frames.patterns.updates import Shape
from advisor.intervals import Bools, Ints
from advisor.regex import regex
from advisor.timeline.ledger import OWNED

_DEEP = regex(r"^(?:__deepcopy__|_?deepcopy\w*)$")
_STORED = regex(r"^(?:__deepcopy__|_deepcopy|clone)$")
"""Functions of torch/storage.py by which the numbers of a tensor that is no parameter are deep-copied."""
_LOADS = regex(r"^_?load_(?:from_)?state_dict$")
_SAVES = regex(r"^(?:_save_to_)?state_dict$")
_FILES = ("copy.py", "torch/nn/modules/module.py", "torch/nn/parameter.py", "torch/_tensor.py")
_DEEPLY, _LOADED, _SAVED = 1, 2, 3
_LEAST = 8
"""Parameters from which on a copy is that of a model, and not of a layer or of samples."""


def copied_models(tree: Tree) -> Occurrences | None:
    """One row per copy of a model of eight parameters or more, in a program on the CPU.

    ``repeats`` are the parameters that it copies, and ``part`` what of its time is not spent on copying their numbers: the row owns
    its operators, and all of the Python from the first to the last of them.
    """
    if not tree.context.cpu_program:
        return None
    deep, loads, saves = (_within(tree, called) for called in (_DEEP, _LOADS, _SAVES))
    deep |= _within(tree, _STORED, ("torch/storage.py",))
    if not deep.any() and not loads.any():
        return None
    items = items_of(tree, modules=False)[0]
    kind = np.select(
        [each[tree.host.attributes.library[items]] for each in (deep, loads, saves)], [_DEEPLY, _LOADED, _SAVED], 0
    )
    trained = {shape for one in tree.once(backward_passes) for shape in one.shapes} if deep.any() else set()
    found = []
    for first, last in _stretches(tree, items, kind):
        count, how = _copied(tree, items[first:last], kind[first:last], trained)
        if count >= _LEAST:
            found.append((first, last, count, how))
    if not found:
        return None
    low, high, copied, ways = (np.array(column, np.int64) for column in zip(*found, strict=True))
    details = ["load_state_dict" if one == _LOADED else "deepcopy" for one in ways.tolist()]
    return _occurrences(tree, items, (low, high), copied, details)


def _within(tree: Tree, called: re.Pattern[str], files: tuple[str, ...] = _FILES) -> Bools:
    """For each place, whether it is one of these functions of Python's or torch's own; the last entry stands for none."""
    places = tree.host.places
    own = [place.file.endswith(files) for place in places]
    named = [called.match(place.function or "") is not None for place in places]
    return np.array([one and other for one, other in zip(own, named, strict=True)] + [False], np.bool_)


def _stretches(tree: Tree, items: Ints, kind: Ints) -> list[tuple[int, int]]:
    """Operators of copies with no other between them, of one thread and step: first and last (exclusive)."""
    host = tree.host
    step = tree.context.recording.host_step_of(host.start[items])
    same = (
        (kind[1:] > 0) & (kind[:-1] > 0) & (step[1:] == step[:-1]) & (host.thread[items][1:] == host.thread[items][:-1])
    )
    starts = np.flatnonzero((kind > 0) & np.append(True, ~same)) if len(items) else items
    ends = np.flatnonzero((kind > 0) & np.append(~same, True)) if len(items) else items
    return list(zip(starts.tolist(), (ends + 1).tolist(), strict=True))


def _copied(tree: Tree, nodes: Ints, kind: Ints, trained: set[Shape]) -> tuple[int, int]:
    """The number of parameters that a stretch copies, and how; *trained* are shapes of which the program makes gradients."""
    names = [tree.context.names[code] for code in tree.host.name[nodes].tolist()]
    # copy.deepcopy clones a parameter and wraps the clone, which detaches it; of other tensors it makes new ones and sets them.
    wrapped = sum(
        one == "aten::clone" and two == "aten::detach" and how == _DEEPLY
        for one, two, how in zip(names, names[1:], kind.tolist(), strict=False)
    )
    # Of a state_dict, a model's or an optimizer's, each tensor is no parameter: as large as one, it is a weight or its moment.
    plain = nodes[[one == "aten::new_empty" and how == _DEEPLY for one, how in zip(names, kind.tolist(), strict=True)]]
    sizes = [tree.shapes.operands(code)[:1] for code in tree.dims(plain).tolist()]
    states = sum(size[0] in trained for size in sizes if size)
    wrapped = max(wrapped, states)
    # What is loaded without a state_dict() just before it comes from a file, or is kept.
    saved = bool((kind == _SAVED).any())
    loaded = sum(name == "aten::copy_" and how == _LOADED for name, how in zip(names, kind.tolist(), strict=True))
    return (wrapped, _DEEPLY) if wrapped else (loaded if saved else 0, _LOADED)


def _occurrences(tree: Tree, items: Ints, found: tuple[Ints, Ints], copied: Ints, how: list[str]) -> Occurrences:
    host, context, (low, high) = tree.host, tree.context, found
    begin, end = host.start[items[low]], host.end[items[high - 1]]
    places = spread(low, high)
    ops = tree.rows_of_ops(Pairs(places.row, items[places.index]))
    ledger = context.ledger
    first = np.searchsorted(ledger.start_ns, begin, side="left")
    python = spread(first, np.maximum(np.searchsorted(ledger.end_ns, end, side="right"), first))
    python = python.where(ledger.through("host")[python.index])
    own = ledger.cost(len(context.op_rows), *OWNED)
    numbers = tree.codes_of("aten::copy_".__eq__)[host.name[context.op_rows]]
    copying = ops.where(numbers[ops.index]).total(own, len(low))
    cost = ops.total(own, len(low)) + python.total(ledger.dur_ns, len(low))
    return Occurrences(
        kind="copied-model",
        node=items[low],
        begin=begin,
        end=end,
        inside=NOTHING,
        own=NOTHING,
        ops=ops,
        python=python,
        figures={
            "repeats": copied,
            "part": np.rint((1 - copying / np.maximum(cost, 1)) * MILLION).astype(np.int64),
        },
        details=how,
    )

"""Operators that need the data on the host, for a size or a value: each breaks what a compiler could take in one piece."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor.intervals import Bools, Ints, distinct, fetch
from advisor.regex import regex
from advisor.timeline.calls import OP, PHASES
from advisor.timeline.context import Context
from advisor.timeline.waits import SCALAR, nodes_by_name

_SIZED = regex(r"^aten::(?:nonzero|masked_select|_unique2|unique_dim|unique_consecutive)$")
_READ = regex(r"^aten::_local_scalar_dense$")
_PIECE = 30
"""Launches between two such operators that are worth compiling: fewer leave little to fuse, and no graph to speak of."""
_FEW = 4
"""Operators a step, from which on they are the program's way and no accident of its end."""
_MANY = 16
"""Values read back a step, likewise: metrics and logging read ten, and lie around the model."""


def count(context: Context) -> float | None:
    """Count the operators of a step whose output is as large as the data says; None where no operators were recorded."""
    if context.tables.get("op") is None:
        return None
    return len(nodes_by_name(context.recording, _SIZED, (OP,))) / context.recording.step_count


def of_library(context: Context) -> bool | None:
    """Tell whether most of these operators are a library's own, not torch's and not the user's; None without stacks."""
    nodes = nodes_by_name(context.recording, _SIZED, (OP,))
    if "python" not in context.tables or not len(nodes):
        return None
    host = context.recording.host
    places = [place.file for place in host.places]
    codes = host.attributes.library[nodes]
    foreign = np.array([not file.startswith("torch/") for file in places] + [False], np.bool_)
    return bool(2 * int(foreign[codes].sum()) > len(nodes))


def readback(context: Context) -> str | None:
    """Return the place that most values are read back at inside of modules: ``model.py:12 in forward``; None where there is none.

    No graph of the model can hold that. None without stacks, which alone tell what lies inside of a module.
    """
    host, syncs = context.recording.host, context.waits.syncs
    nodes = syncs.node[syncs.kind == SCALAR]
    nodes = nodes[fetch(host.attributes.module, nodes) >= 0] if len(nodes) else nodes
    if "python" not in context.tables or not len(nodes):
        return None
    foreign = np.array([not place.file.startswith("torch/") for place in host.places] + [False], np.bool_)
    library = host.attributes.library[nodes]
    places = np.where(foreign[library], library, host.attributes.user[nodes])
    known, count = np.unique(places[places >= 0], return_counts=True)
    if not len(known):
        return None
    place = host.places[int(known[np.argmax(count)])]
    return f"{place.file.rpartition('/')[2]}:{place.line} in {place.function}"


def unbroken(context: Context, at: Ints, phase: Ints) -> npt.NDArray[np.float64]:
    """Return the part of what is launched around some times that a compiler can take in one piece.

    Forward that is all or nothing: 1 in a stretch of many launches between two operators that need the data. A backward pass is
    compiled with the forward pass that it belongs to, so it has the part of that. Without such operators it is 1.

    The optimizer lies outside of the model: an optimizer that reads its step counts breaks nothing of it, and its launches make
    no piece of it long. It is judged by its own operators.
    """
    found = np.ones(len(at))
    optimizers = _of_optimizer(phase)
    for here, of_optimizer in ((~optimizers, False), (optimizers, True)):
        found[here] = _unbroken(context, at[here], phase[here], of_optimizer=of_optimizer)
    return found


def _of_optimizer(phase: Ints) -> Bools:
    return np.isin(phase, [PHASES.index("optimizer"), PHASES.index("zero_grad")])


def _unbroken(context: Context, at: Ints, phase: Ints, *, of_optimizer: bool) -> npt.NDArray[np.float64]:
    """Return the part around times of the optimizer's, or of all else: by operators and launches of the same."""
    host, work, steps = context.recording.host, context.recording.work, context.recording.step_count

    def same(nodes: Ints) -> Ints:
        kept: Ints = nodes[_of_optimizer(context.phases(nodes)) == of_optimizer]
        return kept

    sized, reads = (same(nodes_by_name(context.recording, names, (OP,))) for names in (_SIZED, _READ))
    if len(sized) < _FEW * steps and len(reads) < _MANY * steps:
        return np.ones(len(at))
    breaks = np.sort(host.start[np.concatenate([sized, reads])])
    calls = same(distinct(work.launch[work.launch >= 0]))
    backward = context.phases(calls) == PHASES.index("backward")
    forward = host.start[calls[~backward]]
    sizes = np.bincount(np.searchsorted(breaks, forward), minlength=len(breaks) + 1)
    whole = sizes >= _PIECE
    part = float(sizes[whole].sum() / max(sizes.sum(), 1))
    behind = phase == PHASES.index("backward")
    return np.where(behind, part, whole[np.searchsorted(breaks, at)].astype(np.float64))

"""Copies that need not be: tensors made on the host only to be sent to the device, and tensors sent there and back."""

from __future__ import annotations

import numpy as np

from advisor.frames.copies import parse
from advisor.frames.patterns.tree import HIGHEST, Occurrences, Pairs, Tree, spread
from advisor.intervals import Bools, Ints, coded, distinct
from advisor.timeline.calls import FORWARD, OP
from advisor.timeline.recording import COPY

_CREATE = frozenset(
    f"aten::{name}"
    for name in (
        "zeros", "ones", "full", "rand", "randn", "randint", "randperm", "arange", "linspace", "logspace", "eye",
        "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "scalar_tensor", "fill_", "zero_", "normal_",
        "uniform_", "tril_indices", "triu_indices",
    )
)  # fmt: skip
_SENDS = frozenset({"aten::to", "aten::_to_copy", "aten::copy_"})
_LEAST_BYTES = 4096  # of a tensor that goes to the host and comes back; scalars are another rule's


def created_on_host(tree: Tree) -> Occurrences | None:
    """Copies to the device of a tensor that the operator right before has made."""
    create = tree.codes_of(_CREATE.__contains__)
    copies = copies_of(tree, "HtoD", pinned=False) if create.any() else np.zeros(0, np.int64)
    copies, sends = senders(tree, copies)
    if not len(copies):
        return None
    items = tree.outermost
    at = np.searchsorted(items, sends) - 1
    makers = items[np.maximum(at, 0)]
    host = tree.host
    good = (at >= 0) & (host.thread[makers] == host.thread[sends]) & create[host.name[makers]]
    good &= _launches_nothing(tree, makers)
    copies, sends, makers = copies[good], sends[good], makers[good]
    alike = np.array(
        [_has_shape(tree, maker, send) for maker, send in zip(makers.tolist(), sends.tolist(), strict=True)], np.bool_
    )
    if not alike.any():
        return None
    copies, sends, makers = copies[alike], sends[alike], makers[alike]
    own = Pairs(np.arange(len(copies)), copies)
    return Occurrences(
        kind="cpu-created",
        node=makers,
        begin=host.start[makers],
        end=host.end[sends],
        inside=own,
        own=own,
        idle=True,
        figures={"bytes": _bytes(tree, copies), "dims": tree.dims(sends)},
        details=[tree.context.names[code].removeprefix("aten::") for code in host.name[makers].tolist()],
    )


def sent_back_and_forth(tree: Tree) -> Occurrences | None:
    """A copy to the host, and the next copy to the device of a tensor of the same shape, in one step.

    Not those of pinned memory, of the backward pass and of the optimizer, nor into tensors that stand ready (`copy_`):
    so activations, gradients and states are offloaded on purpose.
    """
    down, first = _plain(tree, *senders(tree, copies_of(tree, "DtoH", pinned=False)))
    up, second = _plain(tree, *senders(tree, copies_of(tree, "HtoD", pinned=False)))
    if not len(down) or not len(up):
        return None
    down_bytes, up_bytes = _bytes(tree, down), _bytes(tree, up)
    _, codes = coded(np.concatenate([down_bytes, up_bytes]))
    # The next copy of as many bytes, by node: a thread's nodes follow each other in time.
    span = tree.host.size + 1
    key = codes[len(down) :] * span + second
    order = np.argsort(key, kind="stable")
    up, second, key = up[order], second[order], key[order]
    at = np.searchsorted(key, codes[: len(down)] * span + first)
    good = (at < len(key)) & (down_bytes >= _LEAST_BYTES)
    at = np.minimum(at, len(key) - 1)
    host, step = tree.host, tree.context.recording.host_step_of
    good &= (key[at] // span == codes[: len(down)]) & (host.thread[second[at]] == host.thread[first])
    good &= step(host.start[first]) == step(host.start[second[at]])
    shape = tree.shapes.column(tree.dims(first), _first_shape)
    good &= (shape == tree.shapes.column(tree.dims(second[at]), _first_shape)) & (shape >= 0)
    # One copy to the device answers one copy to the host: the last before it.
    rows = np.flatnonzero(good)
    rows = rows[np.lexsort((-first[rows], at[rows]))]
    rows = np.sort(rows[np.unique(at[rows], return_index=True)[1]])
    down, first, up, second, size = down[rows], first[rows], up[at[rows]], second[at[rows]], down_bytes[rows]
    behind = tree.after(first)
    same = [_may_be_same(tree, *trip) for trip in zip(first.tolist(), behind.tolist(), second.tolist(), strict=True)]
    keep = np.flatnonzero(np.array(same, np.bool_))
    down, first, up, second, size = down[keep], first[keep], up[keep], second[keep], size[keep]
    behind = behind[keep]
    if not len(down):
        return None
    row = np.arange(len(down))
    own = Pairs(np.repeat(row, 2), np.stack([down, up], axis=1).reshape(-1))
    return Occurrences(
        kind="pingpong",
        node=first,
        begin=host.start[first],
        end=host.end[second],
        inside=own,
        own=own,
        idle=True,
        figures={"bytes": size, "dims": tree.dims(first)},
        details=[_between(tree, *trip) for trip in zip(behind.tolist(), second.tolist(), strict=True)],
    )


def copies_of(tree: Tree, direction: str, *, pinned: bool = True) -> Ints:
    """Linked copies in one direction; without those of pinned memory where asked: who pins it has thought of the copy."""
    work = tree.work
    rows = np.flatnonzero((work.kind == COPY) & (work.launch >= 0))
    codes, inverse = coded(work.name[rows])
    facts = [parse(tree.context.names[code]) for code in codes.tolist()]
    chosen = np.array([fact[0] == direction and (pinned or fact[3] != "pinned") for fact in facts], np.bool_)
    return rows[chosen[inverse]] if len(rows) else rows


def _bytes(tree: Tree, copies: Ints) -> Ints:
    sizes: Ints = tree.context.tables["copy"]["bytes"][tree.work.row[copies]].astype(np.int64)
    return sizes


def senders(tree: Tree, copies: Ints) -> tuple[Ints, Ints]:
    """Copies that an operator of ours made (to, cpu, cuda, copy_), with the outermost such operator."""
    node = tree.work.launch[copies].astype(np.int64)
    named = tree.codes_of(_SENDS.__contains__)
    sends = np.full(len(copies), -1, np.int64)
    rows = np.flatnonzero(node >= 0)
    for _ in range(HIGHEST):
        if not len(rows):
            break
        at = node[rows]
        sent = named[tree.host.name[at]] & (tree.host.group[at] == OP)
        sends[rows[sent]] = at[sent]
        node[rows] = tree.host.parent[at]
        # Between copy_ and the outermost `to` stand calls of the runtime and operators of ours, and nothing else.
        other = (tree.host.group[at] == OP) & ~sent
        rows = rows[~other & (node[rows] >= 0)]
    good = sends >= 0
    return copies[good], sends[good]


def _plain(tree: Tree, copies: Ints, sends: Ints) -> tuple[Ints, Ints]:
    """Copies of the forward pass that made a new tensor."""
    good = (tree.host.attributes.phase[sends] == FORWARD) & ~tree.codes_of("aten::copy_".__eq__)[tree.host.name[sends]]
    return copies[good], sends[good]


def _may_be_same(tree: Tree, send: int, low: int, high: int) -> bool:
    """Tell whether what ran between two copies can have turned one tensor into the other: nothing, or something of its shape."""
    items = tree.outermost[slice(*np.searchsorted(tree.outermost, [low, high]))]
    shape = tree.shapes.operands(int(tree.dims(np.array([send]))[0]))[0]
    codes = distinct(tree.dims(items)).tolist()
    return not len(items) or any(shape in tree.shapes.operands(code) for code in codes)


def _launches_nothing(tree: Tree, nodes: Ints) -> Bools:
    idle: Bools = np.bincount(tree.launched_below(nodes).row, minlength=len(nodes)) == 0
    return idle


def _has_shape(tree: Tree, maker: int, send: int) -> bool:
    """Tell whether some operator inside *maker* (zero_, normal_ …) ran on a tensor of the shape that is sent.

    `arange` alone shows its result before it has its length.
    """
    sent = tree.shapes.operands(int(tree.dims(np.array([send]))[0]))
    if not sent:
        return False
    if tree.context.names[tree.host.name[maker]] == "aten::arange":
        return len(sent[0]) == 1
    inside = spread(np.array([maker]), tree.after(np.array([maker]))).index
    inside = inside[tree.host.group[inside] == OP]
    return any(sent[0] in tree.shapes.operands(code) for code in tree.dims(inside).tolist())


def _first_shape(operands: tuple[tuple[int, ...], ...]) -> int:
    """A number that says the shape of the first operand; -1 without one."""
    return hash(operands[0]) & ((1 << 62) - 1) if operands and operands[0] else -1


def _between(tree: Tree, low: int, high: int) -> str:
    """Name the operators that ran on the host between the two copies."""
    items = tree.outermost[slice(*np.searchsorted(tree.outermost, [low, high]))]
    names = [tree.context.names[code].removeprefix("aten::") for code in tree.host.name[items].tolist()]
    words = list(dict.fromkeys(name for name in names if name not in ("detach", "view", "empty")))
    return ", ".join(words[:6]) + (", …" if len(words) > 6 else "")

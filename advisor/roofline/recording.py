"""The signatures of a recording, each once; their work; and the operator that owns the work of each kernel.

An operator's own operands may not hold its output's size: then its gradient, the operators behind it and the one around it
may (``near``). Everything here is worked out on codes; only what is distinct is read as text.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from advisor.intervals import Bools, Ints, alike, coded, compact, distinct, fetch
from advisor.regex import regex
from advisor.roofline import convolutions, families, pointwise
from advisor.roofline.signature import Shape, Signature, Tensor, read
from advisor.roofline.work import UNLISTED, UNSIZED, UNTYPED, Hints, Work
from advisor.timeline.calls import OP, Host
from advisor.timeline.recording import Recording

Floats = npt.NDArray[np.float64]

_BEHIND = 4
"""Operators behind one whose operands are looked at for its output."""
_EMPTY = frozenset((b"", b"null", b"[]"))
# Operators whose values (scalars, flags) change nothing: without them there are far fewer signatures.
_VALUELESS = frozenset(pointwise.FORMULAS) | {"aten::copy_", "aten::fill_", "aten::zero_", "aten::mm", "aten::bmm"}
_EXPANDS = frozenset({"aten::expand", "aten::expand_as", "aten::broadcast_to"})
_BEFORE = 4
"""Operators before one among which an expansion of its first operand is looked for."""
_PREPARING = frozenset({"copy", "fill"})
_ELEMENT = regex(r"OpaqueType<(\d+)u?>")
_ELEMENTS = {1: "uint8", 2: "float16", 4: "float32", 8: "float64", 16: "complex128"}
_WORDS = regex(r"c10::BFloat16|c10::Half|\bdouble\b|\bfloat\b|\blong\b|\bint\b")
_FORMATS = {
    "c10::BFloat16": "bfloat16",
    "c10::Half": "float16",
    "double": "float64",
    "float": "float32",
    "long": "int64",
    "int": "int32",
}


class Signatures(Struct):
    """The distinct signatures of operators that have a formula, and which of them each row of the table ``op`` is."""

    table: list[Signature | None]
    code: Ints
    """Per row: an index into the table; -1 without shapes or formula."""


class Modelled(Struct):
    """The work of a recording's operators. ``form`` and ``owner`` speak of nodes of the host's forest."""

    works: list[Work | None]
    form: Ints
    """Per node: an index into ``works``; -1 for what has no shapes or no formula."""
    owner: Ints
    """Per piece of GPU work: the node of the innermost operator around its launch whose work is known; -1 for none.

    Communication has none. A transfer between host and device has its ``aten::copy_``: its bytes move over the link.
    """

    def work_of(self, node: int) -> Work | None:
        """The work of the operator at a node, as its own operands tell it."""
        return self.works[self.form[node]] if node >= 0 and self.form[node] >= 0 else None


def signatures(recording: Recording) -> Signatures:
    """The distinct signatures of a recording."""
    table = recording.tables.get("op")
    if table is None:
        return Signatures([], np.zeros(0, np.int64))
    names, raws, inputs = recording.names, recording.recorded.raws, recording.recorded.inputs
    used = distinct(table["name"])
    formula, valued = np.zeros(len(names), np.bool_), np.zeros(len(names), np.bool_)
    formula[used] = [families.find(names[code]) is not None for code in used.tolist()]
    valued[used] = [names[code] not in _VALUELESS for code in used.tolist()]
    shaped = np.array([raw.strip() not in _EMPTY for raw in raws], np.bool_)
    rows = np.flatnonzero(formula[table["name"]] & shaped[table["dims"]])
    keys = [table[key][rows].astype(np.int64) for key in ("name", "dims", "types", "strides", "concrete")]
    keys[4] = np.where(valued[keys[0]], keys[4], -1)
    first, back = alike(*keys)
    out = [
        read(names[name], raws[dims], raws[types], inputs[strides], inputs[concrete] if concrete >= 0 else b"")
        for name, dims, types, strides, concrete in zip(*(key[first].tolist() for key in keys), strict=True)
    ]
    code = np.full(len(table["name"]), -1, np.int64)
    code[rows] = back
    return Signatures(out, code)


def modelled(recording: Recording) -> Modelled:
    """The work of all operators of a recording, and the owners of its kernels."""
    host, known = recording.host, signatures(recording)
    form = np.full(host.size, -1, np.int32)
    nodes = host.node_of.get("op")
    if nodes is not None and len(known.code):
        form[nodes] = known.code
    works = [None if signature is None else families.work(signature) for signature in known.table]
    _resolve(recording, known, works, form)
    form = compact(form)
    owner = host.nearest(recording.work.launch, _flags([work is not None and work.known for work in works], form))
    owner[recording.work.communication] = -1  # moves what it moves over the link
    return Modelled(works, form, owner)


def _flags(values: list[bool], form: Ints) -> Bools:
    """Return a truth value per node from one per form; false where there is no form."""
    flags: Bools = np.array([*values, False], np.bool_)[form]
    return flags


def _resolve(recording: Recording, known: Signatures, works: list[Work | None], form: Ints) -> None:
    """Add forms to *works*, and point *form* at them, for operators whose work follows from what stands beside them."""
    lacking = (UNSIZED, UNTYPED, UNLISTED)
    expanded = _expansions(recording, form)
    lacks = _flags([work is not None and work.missing in lacking for work in works], form)
    wanted = np.flatnonzero(lacks | (expanded >= 0))
    if not len(wanted):
        return
    expanded, lacks = expanded[wanted], lacks[wanted]
    near = _neighbours(recording, wanted)
    near[~lacks] = -1
    kernel = _first_kernels(recording, wanted)
    first, back = alike(form[wanted], *near.T, kernel, expanded)
    shapes: dict[int, tuple[Shape, ...]] = {}
    base, added = len(works), []
    for at in first.tolist():
        signature, before = known.table[form[wanted[at]]], works[form[wanted[at]]]
        if signature is None:
            added.append(before)
            continue
        outer = _shapes(recording, int(near[at, 0]), shapes)
        others = [shape for code in near[at, 1:].tolist() for shape in _shapes(recording, code, shapes)[:1]]
        signature = _expanded(signature, _shapes(recording, int(expanded[at]), shapes))
        hints = Hints((*outer, *others), _element_type(recording, int(kernel[at])))
        found = families.work(signature, hints)
        added.append(found if found is not None and _more(found, before) else before)
    works.extend(added)
    form[wanted] = base + back


def _expansions(recording: Recording, form: Ints) -> Ints:
    """Return per node the code of the shape that its first operand may be expanded from; -1 for none, and where strides tell."""
    host, table = recording.host, recording.tables.get("op")
    out = np.full(host.size, -1, np.int32 if table is None else compact(table["dims"]).dtype)
    if table is None or any(recording.recorded.inputs[code] for code in distinct(table["strides"]).tolist()):
        return out
    expands = np.array([name in _EXPANDS for name in recording.names], np.bool_)
    ops = np.flatnonzero(host.group == OP)
    dims = _of_nodes(host, table["dims"])
    at = np.flatnonzero(expands[host.name[ops]])
    for step in range(_BEFORE, 0, -1):
        # Those behind it in the same call, or one call deeper; a view may stand between.
        source, behind = ops[at[at + step < len(ops)]], ops[at[at + step < len(ops)] + step]
        near = (host.parent[behind] == host.parent[source]) | (
            fetch(host.parent, host.parent[behind]) == host.parent[source]
        )
        near &= (form[behind] >= 0) & (host.thread[behind] == host.thread[source])
        out[behind[near]] = dims[source[near]]
    return out


def _of_nodes(host: Host, codes: Ints) -> Ints:
    """Return per node the code of its operator, of one for each; -1 for all else."""
    codes = compact(codes)
    out = np.full(host.size, -1, codes.dtype)
    out[host.node_of["op"]] = codes
    return out


def _expanded(signature: Signature, shapes: tuple[Shape, ...]) -> Signature:
    """Return a signature whose first operand is an expansion of another shape, where it can be one."""
    first = signature.tensor(0)
    if first is None or not shapes or len(shapes[0]) != len(first.shape) or shapes[0] == first.shape:
        return signature
    if any(size not in (1, whole) for size, whole in zip(shapes[0], first.shape, strict=True)):
        return signature
    strides = tuple(int(size != 1) for size in shapes[0])
    stored = Tensor(first.shape, first.type, tuple(s * math.prod(shapes[0]) for s in strides))
    return signature._replace(operands=(signature.operands[0]._replace(tensor=stored), *signature.operands[1:]))


def _more(found: Work, before: Work | None) -> bool:
    """Tell whether a work says more than the one without hints."""
    if before is None:
        return True
    return (found.flops is not None, found.bytes is not None) >= (before.flops is not None, before.bytes is not None)


def _shapes(recording: Recording, dims: int, kept: dict[int, tuple[Shape, ...]]) -> tuple[Shape, ...]:
    """Return the shapes of the tensors in a text of shapes."""
    if dims < 0:
        return ()
    if dims not in kept:
        signature = read("", recording.recorded.raws[dims])
        kept[dims] = tuple(tensor.shape for tensor in signature.tensors) if signature else ()
    return kept[dims]


def _neighbours(recording: Recording, nodes: Ints) -> Ints:
    """Return for each node codes of the shapes beside it: of the operator around it, its gradient, and those behind it."""
    host, table = recording.host, recording.tables["op"]
    dims = _of_nodes(host, table["dims"])
    out = np.full((len(nodes), _BEHIND + 2), -1, np.int32)
    # The operator around one says what it works on where it is the whole of which that is a part (…_backward_weight).
    outer = host.parent[nodes]
    part = (outer >= 0) & (fetch(host.group, outer) == OP)
    first, back = alike(host.name[nodes], np.where(part, fetch(host.name, outer), -1))
    names, around = recording.names, fetch(host.name, outer)
    part &= np.array(
        [names[host.name[nodes[at]]].startswith(names[around[at]] + "_") for at in first.tolist()], np.bool_
    )[back]
    out[part, 0] = dims[outer[part]]
    out[:, 1] = _gradients(recording, nodes, dims)
    ops = np.flatnonzero(host.group == OP)
    for thread in distinct(host.thread[nodes]).tolist():
        mine, there = np.flatnonzero(host.thread[nodes] == thread), ops[host.thread[ops] == thread]
        at = np.searchsorted(host.start[there], host.end[nodes[mine]], side="left")
        for step in range(_BEHIND):
            inside = at + step < len(there)
            out[mine[inside], 2 + step] = dims[there[(at + step)[inside]]]
    return out


def _gradients(recording: Recording, nodes: Ints, dims: Ints) -> Ints:
    """Return the code of the shapes of each node's backward operator, by autograd's sequence number; -1 for none."""
    host, table = recording.host, recording.tables["op"]
    sequence, backward = table["sequence"], table["forward_thread"] >= 0
    rows = np.flatnonzero(backward & (sequence >= 0))
    mine = np.full(host.size, -1, sequence.dtype)
    forward = ~backward
    mine[host.node_of["op"][forward]] = sequence[forward]
    numbers, first = np.unique(sequence[rows], return_index=True)
    if not len(numbers):
        return np.full(len(nodes), -1, np.int64)
    wanted = mine[nodes]
    at = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    found = (numbers[at] == wanted) & (wanted >= 0)
    return np.where(found, dims[host.node_of["op"][rows[first[at]]]], -1)


def _first_kernels(recording: Recording, nodes: Ints) -> Ints:
    """Return the name of the first piece of GPU work that each node's call launched; -1 for none."""
    host, work = recording.host, recording.work
    name = np.full(host.size + 1, -1, np.int32)
    inside = fetch(host.attributes.op, work.launch)
    # The last assignment stays: from the last to the first.
    name[inside[::-1]] = work.name[::-1]
    name[-1] = -1
    return name[nodes]


def _element_type(recording: Recording, name: int) -> str | None:
    """Return the format of the elements that a kernel works on, by its name; None where that does not say."""
    if name < 0:
        return None
    text = recording.names[name]
    size = _ELEMENT.search(text)
    if size is not None:
        return _ELEMENTS.get(int(size[1]))
    word = _WORDS.search(text)
    return _FORMATS[word[0]] if word else None


def divided(
    recording: Recording, known: Modelled, active: Bools | None = None, *, least: bool = False
) -> tuple[Floats, Floats]:
    """FLOPs and bytes of each node's own work, NaN where unknown: what operators inside it own is not counted again.

    *active* flags the nodes that do something themselves; by default those that own GPU work. Only products take off the work
    of products: the sums, copies and fills inside these prepare operands or add to what is counted there. With *least*
    a convolution counts what the algorithm takes that ran, which may be less than the direct one (NaN for an FFT).
    """
    host = recording.host
    known_node = _flags([work is not None and work.known for work in known.works], known.form)
    if active is None:
        nodes = distinct(known.owner[known.owner >= 0])
    else:
        nodes = np.flatnonzero(known_node & active)
    out = []
    for which, own in zip(("flops", "bytes"), divided_among(recording, known, nodes, least=least), strict=True):
        figures = np.maximum(np.where(known_node, _values(known, which, np.arange(host.size)), np.nan), 0)
        figures[nodes] = own
        out.append(figures)
    return out[0], out[1]


def divided_among(recording: Recording, known: Modelled, nodes: Ints, *, least: bool = False) -> tuple[Floats, Floats]:
    """The same of *nodes* alone: those that do something themselves, of known work, each once and in order."""
    host = recording.host
    flops, moved = (_values(known, which, nodes) for which in ("flops", "bytes"))
    if least:
        flops *= _algorithms(recording, known, nodes)
    counts = np.zeros(host.size, np.bool_)
    counts[nodes] = True
    around = host.above(nodes, counts)
    form = known.form[nodes]
    preparing = _flags([work is not None and work.kind in _PREPARING for work in known.works], form)
    matrix = [work is not None and work.matrix for work in known.works]
    outer = _flags(matrix, np.where(around >= 0, known.form[around], -1))
    takes = (around >= 0) & ~preparing & (_flags(matrix, form) | ~outer)
    inner, at = np.flatnonzero(takes), np.searchsorted(nodes, around[takes])
    for left in (flops, moved):
        np.subtract.at(left, at, np.nan_to_num(left[inner]))
        np.maximum(left, 0, out=left)
    return flops, moved


def _algorithms(recording: Recording, known: Modelled, nodes: Ints) -> Floats:
    """Return per node the part of the direct convolution's operations that its kernels' algorithm takes; NaN for an FFT."""
    out = np.ones(len(nodes))
    code, back = coded(recording.work.name)
    shares = np.array([convolutions.share(recording.names[name]) for name in code.tolist()])[back.ravel()]
    rows = np.flatnonzero(np.isin(known.owner, nodes) & (shares < 1))
    np.minimum.at(out, np.searchsorted(nodes, known.owner[rows]), shares[rows])
    out[_flags([work is None or work.kind != "convolution" for work in known.works], known.form[nodes])] = 1
    out[out == 0] = np.nan
    return out


def _values(known: Modelled, which: str, nodes: Ints) -> Floats:
    """Return a figure of the work of each of some nodes; NaN where it is not known."""
    found = [
        np.nan if work is None or getattr(work, which) is None else float(getattr(work, which)) for work in known.works
    ]
    values: Floats = np.array([*found, np.nan])[known.form[nodes]]
    return values

"""Copies inside compiled regions: tensors that are written again, with the same values, in another place or layout."""

from __future__ import annotations

import numpy as np

from advisor.frames.patterns.transfer import copies_of
from advisor.frames.patterns.tree import Occurrences, Pairs, Tree
from advisor.intervals import Bools, Ints, fetch
from advisor.timeline.fused_names import moves_only, operators
from advisor.timeline.program.compilation import inside_compiled
from advisor.timeline.recording import KERNEL

_COPIES = ("aten::copy_", "aten::clone", "aten::_foreach_copy_")
_MEMCPY = "copy on the device"


def copied_in_compiled_code(tree: Tree) -> Occurrences | None:
    """One row per copy: kernels that Inductor generated of nothing but copies and views, and copies of tensors of one type.

    Casts are none: they change the type. What a graph replays has no launch of its own, and is left out.
    """
    context, work = tree.context, tree.work
    generated = np.zeros(len(context.names), np.bool_)
    generated[[code for code in context.kernel_names if moves_only(context.names[code])]] = True
    inside = context.once(inside_compiled)
    linked = work.launch >= 0
    replayed = np.isin(work.launch, context.graph_nodes)
    by_name = (work.kind == KERNEL) & generated[work.name] & linked
    called: Ints = np.zeros(0, np.int64)
    if inside.any():
        called = np.flatnonzero(linked & (fetch(inside.astype(np.int8), work.launch) > 0) & ~by_name)
    kept = called[_same_type(tree, called) & (work.kind[called] == KERNEL)]
    found = [np.flatnonzero(by_name), kept, np.intersect1d(copies_of(tree, "DtoD"), called)]
    copied = np.concatenate(found)
    copied = copied[~replayed[copied]]
    if not len(copied):
        return None
    copied = copied[np.argsort(work.start[copied], kind="stable")]
    node = work.launch[copied].astype(np.int64)
    own = Pairs(np.arange(len(copied)), copied)
    operator = fetch(tree.host.attributes.op, node)
    details = [
        ", ".join(operators(context.names[name])) or (context.names[called] if called >= 0 else _MEMCPY)
        for name, called in zip(work.name[copied].tolist(), fetch(tree.host.name, operator).tolist(), strict=True)
    ]
    return Occurrences(
        kind="compiled-copy",
        node=node,
        begin=tree.host.start[node],
        end=tree.host.end[node],
        inside=own,
        own=own,
        figures={"dims": tree.dims(node)},
        details=details,
    )


def _same_type(tree: Tree, works: Ints) -> Bools:
    """Flag the work of copying operators whose operands are of one type; where types are not recorded it is not known."""
    host = tree.host
    operator = fetch(host.attributes.op, tree.work.launch[works])
    copies = (operator >= 0) & tree.codes_of(_COPIES.__contains__)[fetch(host.name, operator)]
    raws = tree.context.recording.recorded.raws
    codes = tree.context.op_column(operator, "types")
    alike = np.array([len(set(_types(raw))) == 1 for raw in raws], np.bool_) if raws else np.zeros(1, np.bool_)
    same: Bools = copies & (codes >= 0) & alike[np.maximum(codes, 0)]
    return same


def _types(raw: bytes) -> list[bytes]:
    """Types of tensors among recorded types of operands."""
    words = raw.replace(b"[", b",").replace(b"]", b",").split(b",")
    types = [word.strip().strip(b'"') for word in words]
    return [word for word in types if word not in (b"", b"Scalar", b"ScalarList", b"TensorList", b"GenericList")]

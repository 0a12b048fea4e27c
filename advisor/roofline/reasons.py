"""Reasons for which sums of products stay far from what the device reaches, by their sizes; and the time without them.

A reason is a property of the call, not a guess from its speed: it is only asked for where a kernel is far from its limit. Of
several the first in the order below is named, that which a change of the call removes best. The time that is left once it is
removed follows from the sizes (tiles, waves), or is what the same work reached on an H100 without it
(``sample_traces/h100``), as a share of the reachable rate.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from advisor.intervals import Bools, Ints, coded, distinct
from advisor.roofline.limits import Floats, limits, modelled_work
from advisor.roofline.recording import Modelled
from advisor.roofline.work import Sizes, Work
from advisor.timeline.context import Context

NEAR = 0.8
"""Share of the reachable rate from which on a kernel is near its limit: nobody has to be told of it."""
TILE = 128
"""Rows and columns of the result that one block of a large product computes (cuBLAS, CUTLASS, Tensile: 64 to 256)."""
_FILLED = 0.5
"""Blocks for each multiprocessor under which more than half of them have none."""
_WAVES = 4
"""Waves from which on what the last one leaves idle is a small part."""
_WASTED = 1.25
_VECTOR, _THIN, _TINY = 8, 64, 64

REASONS = (
    "",
    "misaligned",
    "matrix-vector",
    "tiny",
    "few-tiles",
    "thin",
    "partial-wave",
    "depthwise",
    "grouped",
    "patches",
    "few-channels",
    "channels-first",
    "odd-channels",
    "transposed",
    "dilated",
    "uneven-window",
    "wide-numbers",
    "mask",
    "bias",
    "head-size",
    "dropout",
    "one-query",
    "strided",
    "mixed-types",
    "narrow-rows",
    "narrow-sums",
)
"""All reasons; the first is none that the sizes tell."""

_CONVOLUTION = (
    "depthwise",
    "grouped",
    "patches",
    "few-channels",
    "channels-first",
    "odd-channels",
    "transposed",
    "dilated",
    "uneven-window",
)
_OTHERS = (
    "wide-numbers",
    "mask",
    "bias",
    "head-size",
    "dropout",
    "channels-first",
    "strided",
    "mixed-types",
    "narrow-rows",
    "narrow-sums",
)

ALIGNED = 0.95
"""Share of the reachable rate that products reached on an H100 once their rows were aligned."""
LEFT = {
    "depthwise": 0.25,
    "grouped": 0.5,
    "patches": 0.2,
    "channels-first": 0.6,
    "odd-channels": 0.5,
    "dilated": 0.65,
    "mask": 0.45,
    "head-size": 0.5,
    "dropout": 0.45,
    "strided": 0.2,
    "mixed-types": 0.55,
    "narrow-sums": 0.43,
}
"""Part of its time that a call took on an H100 without the reason, in 16 bits: channels_last for the forms of convolutions, a
product for patches, padded channels and heads, a causal flag for a mask, one layout, one type; for short sums the long
dimension innermost."""


def blocks(kind: str, sizes: Sizes) -> int:
    """Blocks that compute the result, each a tile of 128 by 128; of attention each 128 queries of a head."""
    columns = 1 if kind == "attention" else math.ceil(sizes.columns / TILE)
    return sizes.batch * math.ceil(sizes.rows / TILE) * columns


def reason(work: Work, multiprocessors: int | None) -> str:
    """The reason for which kernels of some work are slow, given that they are; '' where its sizes tell none."""
    if work.sizes is None:
        return ""
    found = _of_product(work.sizes) if work.kind == "matmul" else _of_call(work.kind, work.sizes)
    if found or multiprocessors is None or not work.matrix:
        return found
    return _of_tiles(work.kind, work.sizes, multiprocessors)


def _of_product(sizes: Sizes) -> str:
    if min(sizes.rows, sizes.columns) <= _VECTOR:
        return "matrix-vector"
    if "misaligned" in sizes.traits:
        return "misaligned"
    return "tiny" if max(sizes.rows, sizes.columns, sizes.inner) <= _TINY else ""


def _of_call(kind: str, sizes: Sizes) -> str:
    if kind == "attention" and sizes.rows <= _VECTOR:
        return "one-query"
    return next((name for name in (_CONVOLUTION if kind == "convolution" else _OTHERS) if name in sizes.traits), "")


def _of_tiles(kind: str, sizes: Sizes, multiprocessors: int) -> str:
    waves = blocks(kind, sizes) / multiprocessors
    if waves < _FILLED:
        return "few-tiles"
    if kind == "matmul" and min(sizes.rows, sizes.columns, sizes.inner) <= _THIN:
        return "thin"
    # Libraries choose their tiles to avoid it: on an H100 three in four products of such sizes were above 0.95.
    return "partial-wave" if 1 < waves < _WAVES and math.ceil(waves) / waves >= _WASTED else ""


def left(name: str, efficiency: float) -> float:
    """The part of its time that work takes once a reason is removed: 1 where nobody knows, at least what is reachable."""
    if name == "misaligned":
        return min(efficiency / ALIGNED, 1.0)
    if name == "few-tiles":
        return min(efficiency, 1.0)  # with more rows, libraries come near what the device reaches
    return max(LEFT.get(name, 1.0), min(efficiency, 1.0))


class Told(NamedTuple):
    """Of each row of ``kernels``: the part of the reachable rate, the reason's number, and the ns without that reason."""

    efficiency: Floats
    """NaN where the limit is not known."""
    most: Floats
    """The same if the last cache held nothing of what is moved: a kernel is no nearer than that."""
    reason: Ints
    """An index into ``REASONS``; -1 where the limit is not known or the kernel is near it."""
    remedied_ns: Floats
    """NaN without a reason."""
    narrow_side: Ints
    """The smaller side of a product's result; -1 for other work."""


def told(context: Context) -> Told:
    """The reasons of all kernels. Those of one operator share its efficiency, as they share its work."""
    found, known = context.once(limits), context.once(modelled_work)
    work, rows = context.recording.work, context.kernel_rows
    dur = np.maximum(work.end[rows] - work.start[rows], 1).astype(np.float64)
    efficiency = np.fmax(found.reachable_ns, found.limit_ns) / dur
    numbers, remedied = np.full(len(rows), -1, np.int64), np.full(len(rows), np.nan)
    forms = np.full(len(rows), -1, np.int64)
    owned = found.owner >= 0
    forms[owned] = known.form[found.owner[owned]]
    far = np.flatnonzero(efficiency < NEAR)
    devices = work.device[rows[far]]
    for device in distinct(devices).tolist():
        sms = _multiprocessors(context, device)
        here = far[devices == device]
        different, back = coded(forms[here])
        for at, form in enumerate(different.tolist()):
            one = known.works[form]
            name = reason(one, sms) if one is not None else ""
            same = here[back == at]
            numbers[same] = REASONS.index(name)
            if name:
                remedied[same] = dur[same] * [left(name, share) for share in efficiency[same].tolist()]
    padded = far[_padded(context, known, found.owner[far])]
    numbers[padded], remedied[padded] = REASONS.index("head-size"), dur[padded] * LEFT["head-size"]
    sides = [
        min(one.sizes.rows, one.sizes.columns) if one is not None and one.kind == "matmul" and one.sizes else -1
        for one in known.works
    ]
    most = np.fmax(np.fmax(found.uncached_ns, found.limit_ns) / dur, efficiency)
    return Told(efficiency, most, numbers, remedied, np.array([*sides, -1], np.int64)[forms])


def _padded(context: Context, known: Modelled, owner: Ints) -> Bools:
    """Flag the operators inside an attention whose heads torch pads: the operators that it calls see padded ones."""
    host = context.recording.host
    odd = np.array([one is not None and one.kind == "attention" and one.sizes is not None and "head-size" in one.sizes.traits
                    for one in known.works] + [False], np.bool_)  # fmt: skip
    if not odd.any():
        return np.zeros(len(owner), np.bool_)
    inside = host.flow(np.where(odd[known.form], np.int8(1), np.int8(-1)))
    flags: Bools = inside[owner] >= 0
    return flags


def _multiprocessors(context: Context, device: int) -> int | None:
    entry = context.recording.device_properties(device)
    return entry.sms if entry and entry.sms else None

"""The limits of a recording's kernels: the least time in which the device could do their arithmetic and move their bytes.

An operator's work is divided over the kernels that it launched by their durations, each once. Its limit is the larger of
arithmetic over the peak rate of its number format, and of bytes over the memory's bandwidth; as many bytes as the last cache
holds may move faster than memory does. The time that is *reachable* is the same with the rates that programs reach.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from advisor import hardware
from advisor.hardware.rates import Rates
from advisor.intervals import Bools, Ints, coded, distinct
from advisor.roofline.experts import expert_products
from advisor.roofline.recording import Modelled, divided_among, modelled
from advisor.timeline.context import Context

Floats = npt.NDArray[np.float64]

COMPUTE, MEMORY = range(2)
BOUNDS = ("compute", "memory")
_CACHE_TIMES = 4.0
"""Last-level caches are read at 2 (A100, H100: L2) to 3.3 times (MI300X: Infinity Cache) the rate of their memory; a bound."""
_KINDS = {
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "int8": "int8",
    "uint8": "int8",
    "float4_e2m1fn_x2": "fp4",
}
_TF32 = "tf32"
FORMATS = ("fp64", "fp32", _TF32, "fp16", "bf16", "fp8", "fp4", "int8")
"""Number formats of products that devices have rates for."""


class Limits(Struct):
    """Figures of each row of ``kernels``; NaN (``bound``: -1) where the operator, its operands or the device are not known."""

    flops: Floats
    bytes: Floats
    limit_ns: Floats
    reachable_ns: Floats
    uncached_ns: Floats
    """The reachable time if the last cache held nothing: no kernel that takes less is far from what programs reach."""
    bound: Ints
    matrix: Bools
    """Rows whose operator's arithmetic is that of matrix units."""
    peak_ns: Floats
    """The arithmetic of matrix products alone, at the peak rate of its format; of a convolution the direct algorithm's."""
    owner: Ints
    """Forest node of the operator that owns each row's work; -1."""
    format: Ints
    """Index into ``FORMATS`` of the numbers that the operator computes with; -1 for none of them."""

    @property
    def known(self) -> Bools:
        """Rows that have a limit."""
        return ~np.isnan(self.limit_ns)


def limits(context: Context) -> Limits:
    """The limits of all kernels."""
    rows, recording = context.kernel_rows, context.recording
    work = recording.work
    nan = np.full(len(rows), np.nan)
    none = np.full(len(rows), -1, np.int64)
    off = np.zeros(len(rows), np.bool_)
    flops, moved, limit, reachable, uncached = (nan.copy() for _ in range(5))
    out = Limits(flops, moved, limit, reachable, uncached, none, off, nan, none.copy(), none.copy())
    known = context.once(modelled_work)
    owner = known.owner[rows] if len(rows) else none
    mine = np.flatnonzero(owner >= 0)
    _of_experts(context, out, owner)
    if not len(mine):
        return out
    out.owner = owner
    # Kernels of one operator share its work by their durations.
    nodes, back = coded(owner[mine])
    dur = (work.end[rows] - work.start[rows])[mine].astype(np.float64)
    part = dur / np.maximum(np.bincount(back, dur)[back], 1.0)
    flops, moved = divided_among(recording, known, nodes)
    least = divided_among(recording, known, nodes, least=True)[0]  # as many operations as the algorithm takes that ran
    out.flops[mine], out.bytes[mine] = flops[back] * part, moved[back] * part
    forms = known.form[nodes]
    matrix = np.array([work is not None and work.matrix for work in known.works], np.bool_)
    formats = np.array([_format(work.arithmetic or "") if work else -1 for work in known.works], np.int64)
    out.matrix[mine] = matrix[forms][back]
    kind = formats[forms]
    kind[(kind == FORMATS.index("fp32")) & _in_tf32(context, mine, back, len(nodes))] = FORMATS.index(_TF32)
    out.format[mine] = kind[back]
    devices = work.device[rows][mine]
    for device in distinct(devices).tolist():
        rates = rates_of(context, device)
        here = np.flatnonzero(devices == device)
        if rates is None:
            continue
        at = distinct(back[here])
        compute = _compute_ns(rates, kind[at], np.where(matrix[forms], least, np.nan)[at])
        # Sums of products whose arithmetic was not recorded have no limit: their bytes alone would be a fraction of it.
        bytes_ = np.where(matrix[forms] & np.isnan(flops), np.nan, moved)[at]
        memory = _memory_ns(rates, bytes_)
        limit, reachable = (np.fmax(*pair) for pair in zip(compute, memory, strict=True))
        uncached = np.fmax(compute[1], _memory_ns(rates, bytes_, cached=False)[1])
        place = np.searchsorted(at, back[here])
        to = mine[here]
        out.limit_ns[to], out.reachable_ns[to] = limit[place] * part[here], reachable[place] * part[here]
        out.uncached_ns[to] = uncached[place] * part[here]
        bound = np.where(np.nan_to_num(compute[0]) >= np.nan_to_num(memory[0]), COMPUTE, MEMORY)
        out.bound[to] = np.where(np.isnan(limit), -1, bound)[place]
        direct = _compute_ns(rates, kind[at], np.where(matrix[forms], flops, np.nan)[at])[0]
        out.peak_ns[to] = direct[place] * part[here]
    return out


def _of_experts(context: Context, out: Limits, owner: Ints) -> None:
    """Set the figures of products whose weights are no operands: of those that no operator owns."""
    found = context.once(expert_products)
    at = np.flatnonzero(owner[found.rows] < 0) if len(found.rows) else found.rows
    if not len(at):
        return
    rows, work = found.rows[at], context.recording.work
    work_rows = context.kernel_rows[rows]
    dur = (work.end - work.start)[work_rows].astype(np.float64)
    formats = context.kernel_dtypes[rows].tolist()
    kind = np.array([FORMATS.index(name) if name in FORMATS else -1 for name in formats], np.int64)
    devices = work.device[work_rows]
    for device in distinct(devices).tolist():
        rates = rates_of(context, device)
        if rates is None:
            continue
        here = np.flatnonzero(devices == device)
        compute = _compute_ns(rates, kind[here], found.flops[at][here])
        moved = found.bytes[at][here]
        moved = np.where(_memory_ns(rates, moved)[0] > dur[here], found.least_bytes[at][here], moved)
        memory = _memory_ns(rates, moved)
        to = rows[here]
        out.limit_ns[to], out.reachable_ns[to] = (np.fmax(*pair) for pair in zip(compute, memory, strict=True))
        out.uncached_ns[to] = np.fmax(compute[1], _memory_ns(rates, moved, cached=False)[1])
        out.bound[to] = np.where(np.nan_to_num(compute[0]) >= memory[0], COMPUTE, MEMORY)
        out.flops[to], out.bytes[to], out.peak_ns[to] = found.flops[at][here], moved, compute[0]
        out.matrix[to], out.format[to] = True, kind[here]


def rates_of(context: Context, device: int) -> Rates | None:
    """The rates of a device of the trace; None where it is not in the table."""
    entry = context.recording.device_properties(device)
    return hardware.limits(
        context.recording.device_name(device),
        entry.sms if entry else None,
        entry.memory_bytes if entry else None,
        *context.recording.rates,
    )


def modelled_work(context: Context) -> Modelled:
    """The work of the recording's operators."""
    return modelled(context.recording)


def _in_tf32(context: Context, mine: Ints, back: Ints, count: int) -> Bools:
    """Flag the operators of which a kernel multiplies in TF32."""
    tf32 = np.array([dtype == _TF32 for dtype in context.kernel_dtypes[mine].tolist()], np.bool_)
    flags: Bools = np.bincount(back, tf32, count) > 0
    return flags


def _format(arithmetic: str) -> int:
    """Index into ``FORMATS`` of what an operator computes with; -1 for none of them."""
    name = _KINDS.get(arithmetic, "fp8" if "float8" in arithmetic else "")
    return FORMATS.index(name) if name else -1


def _compute_ns(rates: Rates, kinds: Ints, flops: Floats) -> tuple[Floats, Floats]:
    """The ns of some products at the peak rate of their format, and at the reachable one."""
    peak, reached = np.full(len(flops), np.nan), np.full(len(flops), np.nan)
    for kind in distinct(kinds[kinds >= 0]).tolist():
        limit = rates.products(FORMATS[kind])
        if limit is not None:
            here = kinds == kind
            peak[here] = limit.peak
            reached[here] = limit.reachable if limit.reachable is not None else np.nan
    # TFLOP/s are FLOPs a ns, in thousands.
    return flops / (peak * 1e3), flops / (reached * 1e3)


def _memory_ns(rates: Rates, moved: Floats, *, cached: bool = True) -> tuple[Floats, Floats]:
    """The ns in which bytes move at the memory's peak rate, and at the reachable one; GB/s are bytes a ns.

    As many as the last cache holds may lie there already, or be left there: where they may be *cached*.
    """
    limit = rates.limits.get("memory")
    if limit is None:
        return np.full(len(moved), np.nan), np.full(len(moved), np.nan)
    cache = max(rates.l2_bytes or 0, rates.last_level_bytes or 0) if cached else 0
    least = np.where(moved > cache, moved - cache * (1 - 1 / _CACHE_TIMES), moved / _CACHE_TIMES)
    reached = limit.reachable if limit.reachable is not None else np.nan
    return least / limit.peak, least / reached


def spread(context: Context, values: Floats, size: int) -> Floats:
    """Sum a figure of the kernels by the forest node that owns their work; NaN for nodes that own nothing known."""
    found = context.once(limits)
    rows = np.flatnonzero((found.owner >= 0) & ~np.isnan(values))
    total = np.bincount(found.owner[rows], values[rows], size)
    out: Floats = np.where(np.bincount(found.owner[rows], minlength=size) > 0, total, np.nan)
    return out

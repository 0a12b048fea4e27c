"""`kernels`: one row per GPU kernel."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from advisor.columns import Columns, Series
from advisor.frames import doubles, layouts, optimizers
from advisor.frames.batches import OF_WORK, of_work
from advisor.frames.casts import CONVERTED, converted
from advisor.frames.chains import EPILOGUES, Chains, Sorts, chains
from advisor.frames.families import families, in_attention
from advisor.frames.frame import COUNT, IN_PYTHON, NOT_LINKED, TIME, Frame, Makers, Rows, assemble, each, owns_work
from advisor.frames.gradients import added_to_zeros
from advisor.frames.limits import LIMITS, REASON_COLUMNS, limit_columns, reason_columns
from advisor.frames.own_products import own_products
from advisor.frames.positions import unlabelled_share
from advisor.frames.schema import COMMON, Schema, flag, integer, real, text
from advisor.frames.short_runs import short_runs
from advisor.intervals import Bools, Ints, alike, covered, distinct, fetch, union
from advisor.privacy import clean_path
from advisor.regex import regex
from advisor.roofline.limits import Floats
from advisor.timeline import launch_origin as origin
from advisor.timeline.calls import OP, OPTIMIZER
from advisor.timeline.context import Context
from advisor.timeline.fused_names import operators
from advisor.timeline.graph_origins import graph_origins
from advisor.timeline.kernel_names import KernelName
from advisor.timeline.recording import KERNEL

_CONVOLUTION = regex(r"conv(?!ert)", re.IGNORECASE)

SCHEMA = Schema(
    "kernels",
    "a GPU kernel",
    (
        *COMMON,
        text("name", "the kernel's name", "name"),
        text("kind", "gemm, conv, attention, elementwise, reduction, normalization, softmax, copy, layout, communication, "
             "optimizer, embedding, pooling, sort, random, triton, graph (a replay recorded as one piece) or other; by name"),
        text("class", "the same: its older name, which is a word of Python"),
        text("family", "what it computes, by its operator and its name, as the line of the kernels' time has it: matrix products, "
             "convolutions, attention, experts (MoE), softmax, layer norm, RMS norm, rotary embedding, activations, elementwise, "
             "casts, copies, optimizer, ...; of a kernel of Inductor's by the operators that its name holds"),
        flag("tensor_cores", "whether it ran on Tensor Cores; NULL where the name does not say, and on other makers' GPUs"),
        text("dtype", "fp32, tf32, fp16, bf16, fp8, fp4, fp64 or int8: by the operands of a product, else by the name; NULL"),
        *doubles.COLUMNS,
        flag("own_product", "a matrix product of the program's own: its operator is none of torch's and named as one, or it was "
             "written as a plain function that takes numbers and pointers, and no operator of torch launched it"),
        flag("linked", "whether the trace holds the call that launched it", "args.correlation"),
        integer("correlation", "", "ties the kernel to its launch", "args.correlation"),
        integer("launch_ns", "ns", "start of the launch call; NULL where unknown"),
        flag("graph", "launched by a graph replay"),
        text("origin", "of a replayed kernel: what its operator, module and line are of (capture: its launch as the graph was "
             "captured, eager: the same kernel outside the graph, annotation: what the program wrote on it); NULL where they are "
             "those of the replay, and for other kernels", "graph node id"),
        integer("grid_blocks", "", "thread blocks in the grid; NULL where unknown", "args.grid"),
        integer("block_threads", "", "threads per block; NULL where unknown", "args.block"),
        integer("registers", "", "registers per thread; NULL where unknown", "args.registers per thread"),
        integer("shared_bytes", "bytes", "shared memory per block; NULL where unknown", "args.shared memory"),
        real("blocks_per_sm", "", "grid blocks over SMs", "args.blocks per SM"),
        real("warps_per_sm", "", "warps over SMs", "args.warps per SM"),
        real("occupancy", "%", "estimated achieved occupancy; NULL where unknown, as where a 0 stands for it",
             "args.est. achieved occupancy %"),
        integer("alignment", "elements", "operand alignment that the kernel was built for; NULL where the name does not say"),
        integer("chain_length", "", "length of the chain that it is in, 0: pointwise kernels of differing operators, one after "
                "another on the stream; calls of one operator only where shapes let one read what the other wrote; with the "
                "concatenations between them, and the reductions that are broadcast over what they reduced (shapes tell it)"),
        integer("chain_id", "", "that chain; -1"),
        flag("gated", "a pointwise kernel of a gate: its partner lies behind a product that, by the shapes, cannot read it"),
        text("epilogue", "of a pointwise kernel right behind a matrix product, by the shapes: bias, a row added to all rows of the "
             "result, or scale, one number on all of it where a factor is a fourth as large or less; NULL of others"),
        integer("norm_chain", "", "kernels in the run around a normalization of torch's that it is in, 0: that, and pointwise "
                "kernels right before and behind, which may read what it wrote"),
        integer("short_run", "", "kernels in the run that it is in, 0: each under 10 us, one right behind the other on the stream, "
                "none a product, a convolution, attention or communication"),
        flag("pointwise", "elementwise by name"),
        flag("at_convolution", "launched in a convolution, or next to one of its kernels on the stream"),
        *layouts.COLUMNS,
        text("phase", "forward, backward, optimizer, zero_grad or other (launch unknown)"),
        flag("added_to_zeros", "adds a gradient to one that zero_grad filled with zeros, once for each tensor filled"),
        text("converts", "of a copy inside an operator: weight or activation, by the operator's shapes; NULL where these do not "
             "tell, and of others", "args.Input Dims"),
        real("update_operators", "", "of a kernel of an optimizer's step, but for norms: operators in that step for each "
             "parameter, no fewer; 1 in plain SGD's, which passes over memory as often as the fused form; NULL of others"),
        text("shapes", "operand shapes of the launching operator", "args.Input Dims"),
        text("operand_types", "operand types of the launching operator", "args.Input type"),
        text("fused", "operators that Inductor fused into the kernel, by its name; NULL for other kernels"),
        text("generated", "file of the code that Inductor generated for it, the user's folder left out; NULL where not recorded",
             "args.kernel_file"),
        text("fused_lines", "lines of the program that it computes, where Inductor's provenance was given beside (--provenance)"),
        text("generated_sizes", "sizes that Inductor chose for that code, such as XBLOCK=2, R0_BLOCK=2048; NULL where not recorded",
             "args.kernel_kwargs"),
        text("dtypes", "the same: its older name, which pandas has for something else", "args.Input type"),
        integer("exposed_ns", "ns", "for communication: what no other kernel hides; otherwise the duration"),
        text("outer_op", "outermost operator around the launch: the one that the program or autograd called"),
        integer("host_ns", "ns", "host's time in what that operator called to launch it, as aten::to in aten::linear, divided "
                "among its launches; 0 without an operator"),
        flag("in_attention", "of attention computed in steps (a pattern of that kind), its products included"),
        flag("math_attention", "in the unfused form of scaled_dot_product_attention, or in the backward of it"),
        flag("odd_sizes", "a matrix product with rows of an operand or of the result no multiple of 8 long; NULL where unknown",
             "args.Input Dims"),
        integer("alone_ns", "ns", "of dur_ns: with no other kernel on the device"),
        integer("awaited_ns", "ns", "of a kernel on another device of the process: what of it the busiest device idles for, as its "
                "own work waits for that (the cause other_device)"),
        real("unlabelled_share", "share", "of its work that is for positions whose label the loss leaves out, as `ops` has it of "
             "the operator that launched it; else NULL"),
        *LIMITS,
        *REASON_COLUMNS,
        real("place_share", "share", "of all kernel time: in kernels of the same operator and place in the source; 0 without one"),
        *OF_WORK,
    ),
)  # fmt: skip


def kernels(context: Context) -> Ints:
    """Piece of GPU work that each row is."""
    return context.kernel_rows


def build(context: Context) -> Columns:
    """The frame."""
    return assemble(makers(context), SCHEMA.names())


def makers(context: Context) -> Makers:
    """Give a maker for each column."""
    return _of_replays(context, context.common_makers_of_work(kernels(context))) | {
        **_by_name(context),
        **_event_columns(context),
        **_origins(context),
        **each(lambda: limit_columns(context, None), LIMITS),
        **each(lambda: reason_columns(context), REASON_COLUMNS),
    }


def _of_replays(context: Context, common: Makers) -> dict[str, Callable[[], object]]:
    """The *common* columns, in which those of the place of replayed kernels are, where it is known, those of their launch in
    the capture or an eager step."""
    known = cache(lambda: np.array([kind is not None for kind in _origin(context, "kind")], np.bool_))

    def text(name: str) -> object:
        if context.once(graph_origins) is None:
            return common[name]()
        origins = np.array(_origin(context, name), np.object_)
        return Series.texts(np.where(known(), origins, np.asarray(common[name]())).tolist())

    def line() -> object:
        origins = context.once(graph_origins)
        return common["line"]() if origins is None else np.where(known(), origins.line, np.asarray(common["line"]()))

    def origin_of() -> object:
        if context.once(graph_origins) is None:
            return context.labels(np.full(len(kernels(context)), -1, np.int64), ())
        return Series.texts(_origin(context, "kind"))

    texts: dict[str, Callable[[], object]] = {
        name: partial(text, name) for name in ("op", "module", "file", "function", "library")
    }
    return {**common, **texts, "line": line, "origin": origin_of}


def _origin(context: Context, name: str) -> list[str | None]:
    """A column of the origins of replayed kernels, which there are."""
    found: list[str | None] = getattr(context.once(graph_origins), name)
    return found


def _by_name(context: Context) -> dict[str, Callable[[], object]]:
    """Columns on what each kernel's name says, and on its neighbours of the same sort."""
    work, rows = context.recording.work, kernels(context)
    info, by_row = context.kernel_names, _by_row(context)

    def flags(holds: Callable[[KernelName], bool]) -> Bools:
        return by_row([holds(k) for k in info.values()], np.bool_).astype(np.bool_)

    def kinds() -> Series:
        table = sorted({k.kind for k in info.values()})
        return context.labels(by_row([table.index(k.kind) for k in info.values()], np.int64), table)

    def alignment() -> object:
        known = by_row([k.alignment or 0 for k in info.values()], np.int64)
        return Series(known.astype(np.int64), known == 0)

    kind = cache(kinds)
    beside = cache(
        lambda: _at_convolution(context, by_row([_KIND.get(k.kind, _OTHER) for k in info.values()], np.int64))
    )
    return {
        "name": lambda: context.labels(work.name[rows], context.names),
        "kind": kind,
        "class": kind,
        "family": lambda: context.labels(context.once(families).code, context.once(families).names),
        "tensor_cores": lambda: context.boolean(
            flags(lambda k: k.tensor_cores is True), flags(lambda k: k.tensor_cores is None)
        ),
        "dtype": lambda: context.kernel_dtypes,
        "full_rate_double": lambda: doubles.full_rate(context, rows, kind().equals("gemm")),
        "alignment": alignment,
        "chain_length": lambda: context.once(_chains).length,
        "chain_id": lambda: context.once(_chains).number,
        "gated": lambda: context.once(_chains).gated,
        "epilogue": lambda: context.labels(context.once(_chains).epilogue, EPILOGUES),
        "norm_chain": lambda: context.once(_chains).around_norm,
        "short_run": lambda: short_runs(context, ~flags(lambda k: k.kind in _NOT_FUSED)),
        "pointwise": lambda: flags(lambda k: k.pointwise),
        "at_convolution": beside,
        "convolution_dims": lambda: context.known(layouts.convolution_dims(context, work.launch[rows])),
        "layout_gain": lambda: layouts.layout_gain(
            context, work.launch[rows], flags(lambda k: k.kind == "layout") & beside()
        ),
        "odd_sizes": lambda: _odd_sizes(context, kind().equals("gemm")),
    }


def _by_row(context: Context) -> Callable[[list[Any], type], Ints]:
    """Give each kernel the value of its name, of a list of values in the order of ``kernel_names``."""
    codes = np.fromiter(context.kernel_names, np.int64, len(context.kernel_names))
    at = np.searchsorted(codes, context.recording.work.name[kernels(context)])
    return lambda values, kind: np.array(values, kind)[at] if len(values) else np.zeros(0, kind)


def _chains(context: Context) -> Chains:
    return chains(context, _sorts(context, _by_row(context)))


def _odd_sizes(context: Context, products: Bools) -> object:
    odd, known = origin.odd_sizes(context, context.recording.work.launch[kernels(context)], products)
    return context.boolean(odd, ~known)


_NOT_FUSED = frozenset(("gemm", "conv", "attention", "communication", "optimizer", "graph"))

# Counts of batches are whole numbers, which no normalization reads.
_COUNTS = regex(r"Functor\w*<long>")
_NORMALIZES = regex(r"at::native|cudnn|MIOpen", re.IGNORECASE)


def _sorts(context: Context, by_row: Callable[[list[Any], type], Ints]) -> Sorts:
    """Flags of each kernel that its name decides: a fill reads nothing, and is no link of a chain."""
    info = {code: (k, context.names[code]) for code, k in context.kernel_names.items()}

    def flags(holds: Callable[[KernelName, str], bool]) -> Bools:
        return by_row([holds(k, name) for k, name in info.values()], np.bool_).astype(np.bool_)

    def normalizes(k: KernelName, name: str) -> bool:
        known = k.kind == "normalization" or "batch_norm" in name
        return known and k.kind != "triton" and _NORMALIZES.search(name) is not None

    return Sorts(
        pointwise=flags(lambda k, name: k.pointwise and "FillFunctor" not in name),
        joins=flags(lambda k, name: "CatArrayBatchedCopy" in name),
        reduces=flags(lambda k, name: k.kind == "reduction" and "at::native::reduce_kernel" in name),
        normalizes=flags(normalizes),
        multiplies=flags(lambda k, name: k.kind == "gemm"),
        counts=flags(lambda k, name: _COUNTS.search(name) is not None),
    )


_CONV, _LAYOUT, _OTHER = range(3)
_KIND = {"conv": _CONV, "layout": _LAYOUT}
# What libraries run between a convolution's kernel and the turning of its output: a cast of the workspace, a fill, a bias.
_HELPS = regex(r"^SubTensorOp|convertTensor_kernel|add_?[tT]ensor_kernel")


def _at_convolution(context: Context, kind: Ints) -> Bools:
    """Flag the kernels that a convolution launched, or that lie beside a convolution's kernel.

    Between them may lie layout kernels, and casts of its workspace.
    """
    work, rows = context.recording.work, kernels(context)
    host, size = context.recording.host, len(rows)
    if not (kind == _LAYOUT).any():
        return np.zeros(size, np.bool_)
    named = np.array([_CONVOLUTION.search(name) is not None for name in context.names], np.bool_)
    inside = host.nearest(work.launch[rows], (host.group == OP) & named[host.name])
    order = np.lexsort((work.start[rows], work.stream[rows], work.device[rows]))
    line = alike(work.device[rows], work.stream[rows])[1][order]
    conv, place = kind[order] == _CONV, np.arange(size)
    helps = np.array([_HELPS.search(name) is not None for name in context.names], np.bool_)[work.name[rows]]
    telling = ((kind != _LAYOUT) & ~helps)[order]
    before = np.append(-1, np.maximum.accumulate(np.where(telling, place, -1))[:-1])
    after = np.append(np.minimum.accumulate(np.where(telling, place, size)[::-1])[::-1][1:], size)
    near = conv.copy()
    for other, known in ((before, before >= 0), (after, after < size)):
        at = np.clip(other, 0, size - 1)
        near |= known & conv[at] & (line[at] == line)
    out = np.zeros(size, np.bool_)
    out[order] = near
    flags: Bools = out | (inside >= 0)
    return flags


def _event_columns(context: Context) -> dict[str, Callable[[], object]]:
    """Columns that the trace holds of each kernel and of its launch."""
    work, rows = context.recording.work, kernels(context)
    launch = work.launch[rows]
    sizes = cache(lambda: np.array([_product(raw) for raw in context.recording.recorded.raws], np.int64))

    def column(name: str) -> Ints:
        return context.work_column("kernel", name, rows)

    def block() -> Ints:
        threads: Ints = sizes()[column("block")]
        return threads

    @cache
    def grid() -> Ints:
        blocks = sizes()[column("grid")]
        return np.where(_counts_threads(context, launch) & (block() > 0), blocks // np.maximum(block(), 1), blocks)

    operand_types = cache(lambda: context.labels(context.op_column(launch, "types"), context.shape_texts))
    return {
        "own_product": lambda: own_products(context, rows),
        "linked": lambda: launch >= 0,
        "correlation": lambda: work.correlation[rows],
        "launch_ns": lambda: context.known(fetch(context.recording.host.start, launch)),
        "graph": lambda: np.isin(launch, context.graph_nodes),
        "grid_blocks": lambda: context.known(grid()),
        "block_threads": lambda: context.known(block()),
        "registers": lambda: context.known(column("registers")),
        "shared_bytes": lambda: context.known(column("shared")),
        "blocks_per_sm": lambda: _blocks_per_sm(context, column("blocks_per_sm").astype(np.float64), grid()),
        "warps_per_sm": lambda: column("warps_per_sm").astype(np.float64),
        "occupancy": lambda: context.occupancy,
        "phase": lambda: context.phase(launch),
        "fused": lambda: _fused(context, work.name[rows]),
        **each(lambda: _generated(context, launch), ("generated", "generated_sizes", "fused_lines")),
        "shapes": lambda: context.labels(context.op_column(launch, "dims"), context.shape_texts),
        "operand_types": operand_types,
        "dtypes": operand_types,
        "exposed_ns": lambda: exposed(context, rows),
    }


_SIZE = regex(r"\b[A-Z][A-Z0-9_]{0,30}=\d{1,9}\b")


def _fused(context: Context, name: Ints) -> object:
    """Operators of the kernels that Inductor generated."""
    table = [""] * len(context.names)
    for code in context.kernel_names:
        table[code] = ", ".join(operators(context.names[code]))
    return context.labels(name, table)


def _generated(context: Context, launch: Ints) -> dict[str, object]:
    """Columns on the code of generated kernels, by their launch's operator: its file, sizes chosen for it, lines it computes."""
    texts, codes = context.recording.recorded.texts, context.op_column(launch, "generated")
    files, sizes, lines = ([""] * len(texts) for _ in range(3))
    for code in distinct(codes[codes >= 0]).tolist():
        file, chosen, computed = [*texts[code].split("\n"), "", ""][:3]
        files[code] = clean_path(file) if file != "None" else ""
        lines[code] = computed
        sizes[code] = ", ".join(_SIZE.findall(chosen))
    return {
        "generated": context.labels(codes, files),
        "generated_sizes": context.labels(codes, sizes),
        "fused_lines": context.labels(codes, lines),
    }


def _counts_threads(context: Context, launch: Ints) -> Bools:
    """Flag the kernels whose grid was recorded in threads: HIP's hipExtModuleLaunchKernel takes it so (Tensile, MIOpen)."""
    codes = [code for code, name in enumerate(context.names) if name.startswith("hipExt")]
    host = context.recording.host
    flags: Bools = (launch >= 0) & np.isin(host.name[np.maximum(launch, 0)], codes) if codes else launch < -1
    return flags


def _blocks_per_sm(context: Context, recorded: Floats, grid: Ints) -> Floats:
    """Blocks over multiprocessors: as recorded, else (ROCm records none) by the grid and the device's compute units."""
    if not np.isnan(recorded).any():
        return recorded
    work, rows = context.recording.work, kernels(context)
    units = np.full(len(rows), np.nan)
    for device in distinct(work.device[rows]).tolist():
        entry = context.recording.device_properties(device)
        if entry is not None and entry.sms:
            units[work.device[rows] == device] = entry.sms
    found: Floats = np.where(np.isnan(recorded) & (grid > 0), grid / units, recorded)
    return found


def _origins(context: Context) -> dict[str, Callable[[], object]]:
    """Columns on what each kernel was launched for."""
    work, rows = context.recording.work, kernels(context)
    launch, start, end = work.launch[rows], work.start[rows], work.end[rows]
    outer = cache(lambda: origin.outermost_ops(context, launch))

    def place_share() -> object:
        op, user = origin.places(context, launch)
        return np.where(op >= 0, origin.place_shares([op, user], end - start), 0.0)

    return {
        "added_to_zeros": lambda: added_to_zeros(context, rows, outer()),
        "converts": lambda: context.labels(converted(context, rows), CONVERTED),
        "update_operators": lambda: _update_operators(context, rows),
        "outer_op": lambda: context.labels(outer(), context.names),
        "host_ns": lambda: origin.host_time(context, launch),
        "in_attention": lambda: in_attention(context, rows),
        "math_attention": lambda: origin.in_math_attention(context, launch),
        "alone_ns": lambda: origin.alone_ns(work.device[rows], start, end),
        "awaited_ns": lambda: context.ledger.cost(len(work), "other_device")[rows],
        "unlabelled_share": lambda: _unlabelled_share(context, launch),
        **each(lambda: of_work(context, rows), OF_WORK),
        "place_share": place_share,
    }


def _unlabelled_share(context: Context, launch: Ints) -> Floats:
    """Part of the work of the operators around launches that is for positions without a label; NaN where none was seen."""
    recorded, host = context.metadata.recorded, context.recording.host
    if recorded is None or not recorded.ignored_share or not host.size:
        return np.full(len(launch), np.nan)
    share = np.full(host.size, np.nan)
    share[context.op_rows] = unlabelled_share(context, context.op_rows)
    op = fetch(host.attributes.op, launch)
    return np.where(op >= 0, share[np.maximum(op, 0)], np.nan)


def _update_operators(context: Context, rows: Ints) -> Floats:
    """Operators for each parameter in the step of an optimizer that launched a kernel; NaN where none did."""
    work = context.recording.work
    launch = work.launch[rows]
    call = fetch(context.recording.host.attributes.op, launch)
    norm = np.array(["norm" in name for name in context.names], np.bool_)
    own = (context.phases(launch) == OPTIMIZER) & ~work.communication[rows] & (call >= 0)
    own[own] &= ~norm[context.recording.host.name[call[own]]]
    out = np.full(len(rows), np.nan)
    each = optimizers.operators_each(context, call[own]) if own.any() else None
    if each is not None:
        out[own] = each
    return out


def exposed(context: Context, rows: Ints) -> Ints:
    """For communication kernels, the ns that no other kernel of the device covers; the duration for the rest."""
    work = context.recording.work
    start, end = work.start[rows], work.end[rows]
    out = end - start
    for device in distinct(work.device[rows]).tolist():
        own = (work.device[rows] == device) & work.communication[rows]
        others = (work.device == device) & (work.kind == KERNEL) & ~work.communication
        cover = union(work.start[others], work.end[others])
        out[own] -= covered(cover, start[own], end[own])
    return out


def _product(raw: bytes) -> int:
    """Number of blocks or threads in ``[x, y, z]``; -1 where it is no such list."""
    parts = raw.strip(b"[] \n").split(b",")
    total = 1
    for part in parts:
        word = part.strip()
        if not word.isdigit() or len(word) > 12:
            return -1
        total *= int(word)
    return total if total < 1 << 62 else -1


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("name", "class", "dtype", COUNT, *TIME),
    rows=Rows(work=kernels),
    owns=owns_work(kernels),
    no_op=IN_PYTHON,
    unlinked=NOT_LINKED,
    makers=makers,
)

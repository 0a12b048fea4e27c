"""`ops`: one row per operator on the host."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from advisor.columns import Columns, Series
from advisor.frames.beside_gpu import idle_inside
from advisor.frames.foreach import fallbacks
from advisor.frames.frame import COUNT, SELF, TIME, Frame, Makers, Rows, assemble, each, owns_parts
from advisor.frames.limits import LIMITS, limit_columns
from advisor.frames.own_convolutions import by_choice
from advisor.frames.positions import masked, padding_share, unlabelled_share
from advisor.frames.schema import COMMON, Schema, flag, integer, real, text
from advisor.intervals import Bools, Ints, coded, covered, summed
from advisor.reading.program_settings import BF16
from advisor.regex import regex
from advisor.timeline.calls import ANNOTATION, BACKWARD, OP
from advisor.timeline.context import Context
from advisor.timeline.ledger import OWNED
from advisor.timeline.operator_names import is_view
from advisor.timeline.program import anomalous

SCHEMA = Schema(
    "ops",
    "a host operator",
    (
        *COMMON,
        text("name", "the operator", "name"),
        integer("self_ns", "ns", "its time without that of operators inside it"),
        integer("gpu_ns", "ns", "GPU time launched inside it, summed"),
        integer("kernel_count", "", "pieces of GPU work launched inside it"),
        integer("sequence", "", "autograd's sequence number; -1", "args.Sequence number"),
        flag("backward", "runs in a backward pass"),
        text("phase", "forward, backward, optimizer or zero_grad"),
        integer("depth", "", "operators around it"),
        text("dtype", "C++ type of its first tensor", "args.Input type"),
        text("nearest_dtype", "the same, or where no input is a tensor by itself (lists of tensors, sizes alone) that of the "
             "next operator around it that has one", "args.Input type"),
        text("operand_types", "types of all inputs", "args.Input type"),
        text("dtypes", "the same: its older name, which pandas has for something else", "args.Input type"),
        text("shapes", "shapes of all inputs", "args.Input Dims"),
        flag("anomaly", "what autograd's anomaly mode costs: a test of a gradient for NaN, or a forward operator that stores "
             "its traceback; false where the mode is off"),
        integer("foreach_tensors", "", "of an aten::_foreach_ operator: operators of its kind that it calls, one a tensor, as its "
                "slow path does; 0 where it launches its own kernels, and for others"),
        flag("foreach_slow", "such an operator that calls two of them or more, or one inside of it"),
        flag("top", "no operator around it"),
        flag("view", "gives another view of its operand, and computes nothing"),
        text("kind", "matmul, convolution, recurrent, attention, normalization, pooling, indexing; else its own name"),
        flag("of_convolution", "is a convolution, or runs inside one"),
        flag("convolved_by_choice", "a convolution that torch sends to its own operator though oneDNN is on: by filters of 1x1 on "
             "one thread, or of one small image; false for others"),
        flag("bf16_pays", "a product of 2 MFLOP or more on a processor that multiplies bfloat16; NULL where the processor was not "
             "recorded, or the size is unknown"),
        real("padding_share", "share", "of its work that is on padding: where its shapes, or those of one around it, hold the "
             "width that `advisor record` saw rows padded to, and these are looked up in an embedding; else NULL"),
        real("unlabelled_share", "share", "of its work that is for positions whose label the loss leaves out: where its shapes "
             "hold the classes and the positions of a loss, and `advisor record` saw labels of -100; else NULL"),
        real("masked_share", "share", "of the scores of attention that it works on which a mask rules out, padding left aside, as "
             "`advisor record` saw it; else NULL"),
        real("masked_tiles", "share", "of tiles of 64 times 64 of these scores in which the mask keeps any; else NULL"),
        *LIMITS,
        real("kind_share", "share", "of the counted time: what all operators of its kind own; 0 unless the program ran "
             "on the CPU"),
    ),
)  # fmt: skip
# Kinds of operators by the part of the name that tells; backward operators are of their forward's kind.
_KINDS = tuple(
    (kind, regex(rf"^(?:aten|mkldnn|onednn|quantized|mkl)::_?(?:{known})"))
    for kind, known in (
        (
            "matmul",
            r"(?:sparse_)?(?:b?add)?b?(?:mm|mv)(?:_|$)|matmul|(?:mkl_|mkldnn_)?linear(?:_|$)",
        ),
        ("convolution", r"(?:mkldnn_|slow_|thnn_|nnpack_)?(?:spatial_)?conv"),
        ("recurrent", r"(?:mkldnn_|thnn_)?(?:rnn|lstm|gru)"),
        ("attention", r"(?:scaled_dot_product|flash_attention|native_multi_head)"),
        ("normalization", r"(?:native_|fused_)?(?:batch|layer|group|instance|rms)_?norm"),
        ("pooling", r"(?:mkldnn_|adaptive_|fractional_)*(?:max|avg)_?_?(?:un)?pool"),
        ("indexing", r"(?:embedding|index|gather|scatter|masked_|unsafe_index|segment_)"),
    )
)
_PAYING_FLOPS = 2e6


def nodes(context: Context) -> Ints:
    """Forest node of each row."""
    return context.op_rows


def build(context: Context) -> Columns:
    """The frame."""
    return assemble(makers(context), SCHEMA.names())


def makers(context: Context) -> Makers:
    """Give a maker for each column."""
    host, rows = context.recording.host, context.op_rows
    table = context.tables.get("op", {})

    def column(name: str) -> Ints:
        return table[name][host.row[rows]] if len(rows) else rows

    def labels(name: str, texts: list[str]) -> Series:
        return context.labels(column(name), texts)

    kinds = cache(lambda: op_kinds(context.names, host.name[rows]))
    inside = cache(lambda: launched_inside(context))
    ruled_out = cache(lambda: masked(context, rows))
    of_limits = each(lambda: limit_columns(context, rows), LIMITS)
    return {
        **context.common_makers(host.start[rows], host.end[rows] - host.start[rows], lambda: _cost(context), rows),
        "step": lambda: _step(context, rows),
        "name": lambda: context.labels(host.name[rows], context.names),
        "self_ns": lambda: _self_ns(context),
        "gpu_ns": lambda: inside()[0][rows],
        "kernel_count": lambda: inside()[1][rows].astype(np.int64),
        "sequence": lambda: column("sequence").astype(np.int64),
        "backward": lambda: host.attributes.phase[rows] == BACKWARD,
        "phase": lambda: context.phase(rows),
        "depth": lambda: context.depth(_acts(context))[rows],
        "dtype": lambda: labels("types", context.raw_dtypes),
        "nearest_dtype": lambda: context.labels(_nearest_types(context, column("types")), context.raw_dtypes),
        "operand_types": lambda: labels("types", context.shape_texts),
        "dtypes": lambda: labels("types", context.shape_texts),
        "shapes": lambda: labels("dims", context.shape_texts),
        "anomaly": lambda: context.once(anomalous)[rows],
        "foreach_tensors": lambda: context.once(fallbacks).tensors[rows].astype(np.int64),
        "foreach_slow": lambda: context.once(fallbacks).inside[rows],
        "top": lambda: context.top(rows),
        "view": lambda: np.array([is_view(name) for name in context.names], np.bool_)[host.name[rows]],
        "kind": lambda: context.labels(kinds()[1], kinds()[0]),
        "of_convolution": lambda: _within_kind(context, *kinds(), "convolution"),
        "convolved_by_choice": lambda: by_choice(context, rows),
        "kind_share": lambda: _kind_share(context, kinds()[1]) if context.cpu_program else np.zeros(len(rows)),
        "padding_share": lambda: padding_share(context, rows),
        "unlabelled_share": lambda: unlabelled_share(context, rows),
        "masked_share": lambda: ruled_out()[0],
        "masked_tiles": lambda: ruled_out()[1],
        **of_limits,
        "bf16_pays": lambda: _bf16_pays(context, np.asarray(of_limits["flops"](), np.float64)),
    }


def _step(context: Context, rows: Ints) -> Ints:
    """Index of the step whose host ran each operator: the device, whose work cuts steps, may be behind.

    What lies in none of the host's steps is told by its time.
    """
    host, recording = context.recording.host, context.recording
    start, dur = host.start[rows], host.end[rows] - host.start[rows]
    by_time = context.step_from(start, dur)
    if not recording.steps or not recording.devices:
        return by_time
    step = recording.host_step_of(start)
    ends = np.array([one.end for one in recording.steps], np.int64)
    return np.where((step >= 0) & (start < ends[step]), step, by_time)


def _nearest_types(context: Context, types: Ints) -> Ints:
    """Code of the list of types that tells each operator's number format, or that of the next operator around it; -1 for none."""
    host, rows = context.recording.host, context.op_rows
    known = np.append(np.array([text != "" for text in context.raw_dtypes], np.bool_), False)[types]
    own = np.full(host.size, -1, np.int64)
    own[rows[known]] = types[known]
    return host.flow(own)[rows]


def _within_kind(context: Context, table: list[str], code: Ints, kind: str) -> Bools:
    """Flag the operators of a kind, and all inside them."""
    own = np.full(context.recording.host.size, -1, np.int64)
    own[context.op_rows[np.array([each == kind for each in table], np.bool_)[code]]] = 1
    found: Bools = context.recording.host.flow(own)[context.op_rows] >= 0
    return found


def _acts(context: Context) -> Bools:
    """Flag the forest nodes that are operators or annotations."""
    host = context.recording.host
    flags: Bools = (host.group == OP) | (host.group == ANNOTATION)
    return flags


def _self_ns(context: Context) -> Ints:
    """Time of each operator without what is inside it."""
    host, rows = context.recording.host, context.op_rows
    children = np.flatnonzero(_acts(context) & (host.parent >= 0))
    inner = summed(host.parent[children], host.end[children] - host.start[children], host.size)
    return host.end[rows] - host.start[rows] - inner[rows]


def _bf16_pays(context: Context, flops: npt.NDArray[np.float64]) -> Series:
    """Tell for each row whether bfloat16 pays for its products: below 2 MFLOP the casts take as long as they save."""
    recorded = context.metadata.recorded
    sets = recorded.instruction_sets if recorded is not None else None
    pays, unknown = np.zeros(len(flops), np.bool_), np.ones(len(flops), np.bool_)
    if sets is not None:
        able = not BF16.isdisjoint(sets)
        unknown = np.isnan(flops) & able
        pays = able & (np.nan_to_num(flops) >= _PAYING_FLOPS)
    return Series(pays, unknown)


def _cost(context: Context) -> Ints:
    """ns that each operator owns: on the CPU its time; with a GPU the idle time of cause ``host`` inside no inner operator."""
    host, rows = context.recording.host, context.op_rows
    if context.cpu_program:
        return context.ledger.cost(len(rows), *OWNED)
    if not context.idle_trusted or context.device < 0:
        return np.zeros(len(rows), np.int64)
    own = np.zeros(host.size, np.int64)
    idle = covered(context.ledger.spans("host"), host.start[rows], host.end[rows])
    own[rows] = idle
    parent = host.parent[rows]
    np.subtract.at(own, parent[parent >= 0], idle[parent >= 0])
    return np.maximum(own[rows], 0)


def launched_inside(context: Context) -> tuple[Ints, Ints]:
    """Per forest node: GPU ns and pieces of work launched at or below it."""
    host, work = context.recording.host, context.recording.work
    linked = work.launch >= 0
    time = summed(work.launch[linked], (work.end - work.start)[linked], host.size)
    count = summed(work.launch[linked], 1, host.size).astype(np.int32)
    for level in reversed(host.levels[1:]):
        launching = level[count[level] > 0]
        np.add.at(time, host.parent[launching], time[launching])
        np.add.at(count, host.parent[launching], count[launching])
    return time, count


def op_kinds(names: list[str], name: Ints) -> tuple[list[str], Ints]:
    """The kinds of some operators, by the codes of their names: a table of kinds, and a code into it for each."""
    used, inverse = coded(name)
    kinds = [next((kind for kind, known in _KINDS if known.search(names[code])), names[code]) for code in used]
    table = list(dict.fromkeys(kinds))
    code_of = {kind: code for code, kind in enumerate(table)}
    codes = np.array([code_of[kind] for kind in kinds], np.int64)
    return table, codes[inverse] if len(codes) else np.zeros(0, np.int64)


def _kind_share(context: Context, kind: Ints) -> npt.NDArray[np.float64]:
    """For each row of `ops`, given its kind, the share of the counted time that all operators of that kind own."""
    ledger = context.ledger
    segments = ledger.counted & ledger.through(*OWNED) & (ledger.row >= 0)
    total = summed(kind[ledger.row[segments]], ledger.dur_ns[segments], int(kind.max()) + 1 if len(kind) else 0)
    share: npt.NDArray[np.float64] = total[kind] / max(ledger.counted_ns, 1)
    return share


def _parts(context: Context) -> tuple[Ints, Ints]:
    """Segments that operators own, with the row of each: on the CPU their time, beside a GPU the idle time of the host in them.

    Each moment is the innermost one's.
    """
    ledger = context.ledger
    if context.cpu_program:
        owned = np.flatnonzero(ledger.through(*OWNED) & (ledger.row >= 0))
        return owned, ledger.row[owned]
    return context.once(idle_inside)


def _owned(context: Context) -> tuple[Ints, Ints]:
    return context.once(_parts)


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("name", COUNT, SELF, *TIME),
    rows=Rows(nodes=nodes),
    owns=owns_parts(_owned),
    parts=_owned,
    makers=makers,
)

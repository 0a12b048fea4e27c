"""`collectives`: one row per communication kernel."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.columns import Columns, Series
from advisor.frames import uneven_batches
from advisor.frames.frame import COUNT, MEGABYTES, TIME, Frame, Rows
from advisor.frames.kernels import exposed
from advisor.frames.message_sizes import AROUND, group_sizes, messages
from advisor.frames.optimizers import accumulating
from advisor.frames.peers import carries, meets, peers
from advisor.frames.schema import COMMON, Schema, flag, integer, real, text
from advisor.frames.unsharding import ahead_ns, units
from advisor.intervals import EMPTY, Bools, Ints, Spans, coded, covered, distinct, fetch, inside, summed, union
from advisor.regex import regex
from advisor.timeline.calls import BACKWARD, FORWARD, OP, OPTIMIZER
from advisor.timeline.context import Context
from advisor.timeline.ledger import BUSY
from advisor.timeline.recording import KERNEL

Floats = npt.NDArray[np.float64]
_MAGNITUDES = ("under 1 MB", "1 to 10 MB", "10 to 100 MB", "100 MB or more")
_FROM = (1_000_000, 10_000_000, 100_000_000)
"""Bytes from which on the next of these begins."""
SCHEMA = Schema(
    "collectives",
    "a communication kernel",
    (
        *COMMON,
        text("name", "the kernel's name", "name"),
        text("kind", "all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send, recv, reduce, barrier or other"),
        integer("bytes", "bytes", "size of the message sent in; NULL where unknown", "args.In msg nelems, dtype, else "
                "the shape and type of its operand"),
        text("size", "magnitude of that: " + ", ".join(_MAGNITUDES) + "; NULL where unknown"),
        text("dtype", "number format of the message: Float, Half, BFloat16 ...", "args.dtype, else its operand's type"),
        text("group_name", "process group", "args.Process Group Name"),
        text("group_ranks", "the ranks in it, as a list; NULL where unknown", "args.Process Group Ranks"),
        integer("group_size", "", "how many they are; NULL where unknown", "args.Group size"),
        real("bus_gbps", "GB/s", "bus bandwidth: what each rank had to send for a message of this size, over the kernel's time, in "
             "which it may have waited for other ranks; NULL where the size, the group's or the kind is unknown"),
        flag("follows", "begins within 50 us of the end of another of its group on its stream: all ranks have just been there, so "
             "it hardly waits for a late one"),
        integer("seq", "", "its number in the process group; NULL where unknown", "args.Seq"),
        text("phase", "what launched it: forward, backward, optimizer, zero_grad or other"),
        flag("per_parameter", "an all-reduce of one of very many a step, as one for each parameter is, without DDP's buckets"),
        flag("behind_backward", "that, in a step whose backward pass is one node of a compiled graph: its gradients come out only "
             "when it has ended, so nothing of it can hide them"),
        flag("accumulating", "reduced in a backward pass after which DDP ran forward again before the optimizer stepped"),
        integer("exposed_ns", "ns", "what no other kernel hides"),
        integer("waited_ns", "ns", "of that, what it lasts beyond the fastest of its kind, size and group: waiting for other "
                "ranks; NULL where fewer than five are alike"),
        flag("unshards", "an all-gather of parameters that FSDP sharded, of either version"),
        text("unit", "the FSDP unit whose parameters it gathers; NULL where unknown", "FSDP::all_gather (…)"),
        text("peers", "ranks that it sends to or receives from alone, as 1 or 0, 2; NULL for other collectives, and where unknown",
             "args.Dst Rank, args.Src Rank, else nccl:send 0->1"),
        flag("between_stages", "the stages of a pipeline pass it: activations to the next one, gradients back"),
        flag("across_stages", "this rank and a neighbour in its pipeline meet in it: until the last has come, the pipeline drains"),
        integer("ahead_ns", "ns", "of what is exposed of such a gather: what the computation between the gather before it, of the "
                "same pass, and its own start would have hidden, had it begun that much earlier; 0 for others"),
        uneven_batches.COLUMN,
        flag("led", "of the kind that is exposed most, or called where that is: by the model, or by the optimizer"),
        flag("of_activations", "a reduction in a group that reduces in the forward pass at least a tenth of what it does in the "
             "backward pass: parts of a model exchange activations and their gradients in it, as in tensor parallelism"),
        integer("computed_ns", "ns", "what the busiest device computes in the whole window; the same in each row"),
    ),
)  # fmt: skip
_EXCHANGED = 0.1
"""Part of what a group reduces in the backward pass from which on what it reduces in the forward pass are no losses and counts."""
_KINDS = (
    ("all_reduce", regex(r"all_?reduce|cross_device_reduce|multimem_all_reduce", re.IGNORECASE)),
    ("all_gather", regex(r"all_?gather", re.IGNORECASE)),
    ("reduce_scatter", regex(r"reduce_?scatter", re.IGNORECASE)),
    ("broadcast", regex(r"broadcast", re.IGNORECASE)),
    # Experts' parallelism sends tokens to their experts (dispatch) and their results back (combine).
    ("all_to_all", regex(r"all_?to_?all|a2a|dispatch|combine", re.IGNORECASE)),
    ("send", regex(r"send_?recv|\bsend", re.IGNORECASE)),
    ("recv", regex(r"\brecv", re.IGNORECASE)),
    ("barrier", regex(r"barrier", re.IGNORECASE)),
    ("reduce", regex(r"reduce", re.IGNORECASE)),
)
NAMES = tuple(name for name, _ in _KINDS)
_NEVER = np.iinfo(np.int64).max
# Bytes that each of n ranks sends, over those of its message: a ring's, as nccl-tests (PERFORMANCE.md) counts bus bandwidth.
# Of an all-gather the message is one rank's part.
_ON_THE_BUS: dict[str, Callable[[Floats], Floats]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: n - 1.0,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "broadcast": np.ones_like,
    "reduce": np.ones_like,
}
# Fewer all-reduces a step are a model of few parameters, or buckets; so much work (a division, a copy) lies beside each.
_MANY = 50
_BESIDE = 3
_LOOPED = 0.8
_AT_ONCE_NS = 50_000
_GRADIENT = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
_COMPILED_BACKWARD = "CompiledFunctionBackward"
_OF_A_LOOP = {f"aten::{name}" for name in ("copy_", "div_", "div", "mul_", "mul", "cat")}
"""Operators that such a loop runs beside the all-reduces."""
_ENOUGH = 5
"""Collectives of one sort from which on the fastest of them says what the exchange itself takes."""
_FASTEST = 5
"""Percentile that stands for the fastest: one alone may be cut off."""
_LAST = 1.25
"""Times the fastest that a collective may last in which the rank waits for nobody: it came last."""


# Kernels that add up gradients, and the number format in their names.
_REDUCES = regex(r"all_?reduce|reduce_?scatter", re.IGNORECASE)
_IN_NAME = regex(r"_(bfloat16|bf16|half|f16|float|f32)(?=[_(]|$)")
_FORMATS = {"float": "fp32", "float32": "fp32", "f32": "fp32", "half": "fp16", "float16": "fp16", "f16": "fp16"} | {
    "bfloat16": "bf16",
    "bf16": "bf16",
}


def kind(*texts: str) -> int:
    """Code of the kind of collective that the first telling text names."""
    codes = (code for text in texts for code, (_, pattern) in enumerate(_KINDS) if pattern.search(text))
    return next(codes, len(_KINDS))


def communication(context: Context) -> Ints:
    """Piece of GPU work that each row is."""
    return np.flatnonzero(context.recording.work.communication)


def build(context: Context) -> Columns:
    """The frame."""
    work, rows = context.recording.work, communication(context)
    launch = work.launch[rows]
    texts = context.recording.recorded.texts
    teller, sent, dtype = context.once(told)
    codes, sizes = context.once(kinds), context.once(told_sizes)
    frame = context.common_of_work(rows, _cost(context, rows))
    phase = context.phases(launch)
    frame |= {
        "name": context.labels(work.name[rows], context.names),
        "kind": context.labels(codes, [*NAMES, "other"]),
        "bytes": context.known(sent),
        "size": context.labels(np.where(sent < 0, -1, np.searchsorted(_FROM, sent, side="right")), _MAGNITUDES),
        "dtype": Series.texts(dtype),
        "group_name": context.labels(context.op_column(teller, "group_name"), texts),
        "group_ranks": context.labels(context.op_column(teller, "group_ranks"), texts),
        "group_size": context.known(sizes),
        "bus_gbps": _bus_gbps(codes, sent, sizes, (work.end - work.start)[rows]),
        "follows": _follows(context, rows, context.op_column(teller, "group_name")),
        "seq": context.known(context.op_column(teller, "collective_seq")),
        "phase": context.phase(launch),
        "per_parameter": context.once(_reductions).rows,
        "behind_backward": context.once(_reductions).behind,
        "accumulating": (phase == BACKWARD)
        & accumulating(context, fetch(context.recording.host.start, launch, _NEVER)),
        "exposed_ns": (alone := np.minimum(exposed(context, rows), _proven(context, rows))),
        "waited_ns": context.known(np.minimum(context.once(beyond)[rows], alone)),
    }
    found = units(context, rows, codes == NAMES.index("all_gather"))
    frame |= {
        "unshards": found.gathers,
        "unit": context.labels(found.unit, found.names),
        "peers": _peers(context, rows),
        "between_stages": context.once(staged).between,
        "across_stages": context.once(staged).across,
        "ahead_ns": ahead_ns(context, rows, found.gathers, np.asarray(frame["step"], np.int64), phase, alone),
        "uneven_share": _uneven_share(context, np.asarray(frame["step"], np.int64)),
        "led": _led(context, rows, codes, phase),
        "of_activations": _of_activations(context.op_column(teller, "group_name"), codes, sent, phase),
        "computed_ns": np.full(len(rows), context.ledger.of_extent()["compute"]),
    }
    return Columns(frame)


def leading(context: Context) -> str | None:
    """Name of the kind of collective that most of the exposed communication is."""
    rows = communication(context)
    if not len(rows):
        return None
    # What stages of a pipeline wait for each other is told of by itself.
    parts = context.once(staged)
    owned = np.where(parts.between | parts.across, 0, context.work_cost[rows])
    names = [*NAMES, "other"]
    total = summed(context.once(kinds), owned, len(names))
    return names[int(np.argmax(total))] if owned.any() else None


def _led(context: Context, rows: Ints, codes: Ints, phase: Ints) -> Bools:
    """Flag what one change serves: collectives of the kind that is exposed most, and those where it is: the model's, or the
    optimizer's.
    """
    first = context.once(leading)
    if first is None:
        return np.ones(len(rows), np.bool_)
    of_kind, late = codes == [*NAMES, "other"].index(first), phase == OPTIMIZER
    owned = context.work_cost[rows]
    in_optimizer = bool(2 * owned[of_kind & late].sum() > owned[of_kind].sum())
    return np.asarray(of_kind | (late == in_optimizer))


def _of_activations(group: Ints, codes: Ints, sent: Ints, phase: Ints) -> Bools:
    """Flag reductions of groups that also reduce in the forward pass; by their number where a size of the group is not known."""
    reduces = np.isin(codes, [NAMES.index("all_reduce"), NAMES.index("reduce_scatter")])
    _, of = coded(group)
    size = int(of.max(initial=-1)) + 1
    unknown = summed(of, (reduces & (sent < 0)).astype(np.int64), size) > 0
    amount = np.where(unknown[of], 1, np.maximum(sent, 0))
    forward, backward = (
        summed(of[chosen], amount[chosen], size) for chosen in (reduces & (phase == one) for one in (FORWARD, BACKWARD))
    )
    both: Bools = (forward > 0) & (forward >= _EXCHANGED * backward)
    return reduces & both[of]


def _uneven_share(context: Context, step: Ints) -> Floats:
    """Share of each row's cost that the rank waits for another one's larger batch, on the busiest device."""
    work, rows = context.recording.work, communication(context)
    here = work.device[rows] == context.device
    staged_rows = context.once(staged)
    of_batches = np.isin(context.once(kinds), [NAMES.index(name) for name in uneven_batches.OF_BATCHES])
    stays = uneven_batches.Stays(
        union(work.start[rows[here]], work.end[rows[here]]),
        step,
        np.where(here, context.work_cost[rows], 0),
        of_batches & ~staged_rows.between & ~staged_rows.across,
    )
    return uneven_batches.waited_share(context, stays)


class Staged(NamedTuple):
    """Rows that stages of a pipeline pass to each other, and others in which stages meet."""

    between: Bools
    across: Bools


def staged(context: Context) -> Staged:
    """Tell which rows are of a pipeline."""
    between, teller = context.once(carries)[communication(context)], context.once(told)[0]
    groups, sizes = context.op_column(teller, "group_ranks"), context.once(told_sizes)
    all_wait = ~np.isin(context.once(kinds), [NAMES.index("send"), NAMES.index("recv")])
    return Staged(between, meets(context, groups, sizes) & all_wait & ~between)


def _peers(context: Context, rows: Ints) -> Series:
    """Ranks that each row exchanges a message with, where it does with single ones."""
    found = context.once(peers)
    others: dict[int, set[int]] = {}
    for work, rank in zip(found.work.tolist(), found.rank.tolist(), strict=True):
        if work >= 0 and rank >= 0:
            others.setdefault(work, set()).add(rank)
    words = [", ".join(map(str, sorted(others[work]))) if work in others else None for work in rows.tolist()]
    return Series.texts(words)


def on_the_bus(codes: Ints, sent: Ints, sizes: Ints) -> Floats:
    """Return the bytes that each rank has to send for a message, by kind and size of group; NaN where that is not known."""
    out = np.full(len(codes), np.nan)
    for name, factor in _ON_THE_BUS.items():
        at = np.flatnonzero((codes == NAMES.index(name)) & (sent > 0) & (sizes > 1))
        out[at] = factor(sizes[at].astype(np.float64)) * sent[at]
    return out


def _bus_gbps(codes: Ints, sent: Ints, sizes: Ints, dur_ns: Ints) -> Floats:
    """Return the bus bandwidth of each row in GB/s, which is bytes a ns; NaN where it is not known."""
    lasts = np.where(dur_ns > 0, dur_ns, np.nan)
    gbps: Floats = on_the_bus(codes, sent, sizes) / lasts
    return gbps


def _follows(context: Context, rows: Ints, group: Ints) -> Bools:
    """Flag the rows that begin at once behind another of their group on their stream."""
    work = context.recording.work
    order = np.lexsort((work.start[rows], group, work.stream[rows], work.device[rows]))
    before, after = order[:-1], order[1:]
    same = (group[before] == group[after]) & (work.stream[rows[before]] == work.stream[rows[after]])
    same &= work.device[rows[before]] == work.device[rows[after]]
    out = np.zeros(len(rows), np.bool_)
    out[after] = same & (work.start[rows[after]] - work.end[rows[before]] <= _AT_ONCE_NS)
    return out


def kinds(context: Context) -> Ints:
    """Code of the kind of each row, in the order in which they are tried; the number of kinds for others."""
    recording, rows = context.recording, communication(context)
    texts, host = recording.recorded.texts, recording.host
    teller = context.once(told)[0]
    called = context.op_column(teller, "collective")
    ops = fetch(host.name, fetch(host.attributes.op, recording.work.launch[rows]))
    # ncclKernel_SendRecv carries all-to-all too: what the operator says goes before the kernel's name.
    sorts, inverse = np.unique(np.stack([called, ops, recording.work.name[rows]]), axis=1, return_inverse=True)
    codes = [
        kind(texts[code] if code >= 0 else "", context.names[op] if op >= 0 else "", context.names[name])
        for code, op, name in sorts.T.tolist()
    ]
    of_row: Ints = np.array(codes, np.int64)[inverse.reshape(-1)]
    # Older NCCL runs every collective in a kernel of one name: where launches of that name say different things, it says nothing.
    by_op = (called >= 0) | (ops >= 0)
    named = recording.work.name[rows]
    plain = np.array([kind(context.names[code]) for code in named.tolist()], np.int64)
    unlike = distinct(named[by_op & (of_row != plain)])
    of_row[~by_op & np.isin(named, unlike)] = len(_KINDS)
    return of_row


def facts(context: Context) -> dict[str, str | float | None]:
    """Headline facts, by column of `trace`: the number format of most bytes of reduced gradients, and what tells its size."""
    work, rows = context.recording.work, communication(context)
    if not len(rows):
        return {"gradient_dtype": None, "sized_messages_share": 1.0}
    _, sent, dtype = context.once(told)
    reduced = (context.phases(work.launch[rows]) == BACKWARD) & np.isin(work.name[rows], _reducing(context))
    weight: dict[str, int] = {}
    for at in np.flatnonzero(reduced).tolist():
        named = _IN_NAME.search(context.names[work.name[rows[at]]][:400])
        name = _FORMATS.get((dtype[at] or (named[1] if named else "")).lower().removeprefix("c10::"))
        if name:
            weight[name] = weight.get(name, 0) + max(int(sent[at]), 1)
    heaviest = max(weight, key=lambda name: (weight[name], name)) if weight else None
    return {"gradient_dtype": heaviest, "sized_messages_share": float((sent >= 0).mean()) or None}


def _reducing(context: Context) -> list[int]:
    used = distinct(context.recording.work.name[communication(context)]).tolist()
    return [code for code in used if _REDUCES.search(context.names[code][:400])]


def told(context: Context) -> tuple[Ints, Ints, list[str | None]]:
    """Nodes that say what each row sends, the bytes sent in, and their number format."""
    rows = communication(context)
    launch = context.recording.work.launch[rows]
    teller = _teller(context, launch)
    # What is coalesced is launched behind its calls: the first of them tells.
    found = context.once(peers)
    call = np.full(len(context.recording.work), -1, np.int64)
    known = found.work >= 0
    call[found.work[known][::-1]] = found.node[known][::-1]
    teller = np.where(call[rows] >= 0, call[rows], teller)
    return (teller, *messages(context, teller, launch))


def told_sizes(context: Context) -> Ints:
    """Ranks in the group of each row, -1 where unknown."""
    return group_sizes(context, context.once(told)[0])


class Reductions(NamedTuple):
    """All-reduces of one parameter each: which rows they are, and which of them lie behind a backward pass of one node.

    ``loops`` are stretches of the host's time from one to the next of a loop of them, with next to nothing launched between.
    """

    rows: Bools
    behind: Bools
    loops: Spans


def _reductions(context: Context) -> Reductions:
    """Find the all-reduces of steps in which there are about as many as gradients.

    Autograd's engine marks each gradient that it is done with. Where no such marks were recorded, all-reduces launched with
    next to nothing between them are a loop over gradients: those of tensor parallelism have products between them.
    """
    recording, work = context.recording, context.recording.work
    host, rows = recording.host, communication(context)
    flags, behind = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
    chosen = np.flatnonzero((context.once(kinds) == 0) & (work.launch[rows] >= 0)) if len(rows) else rows
    if len(chosen) < _MANY or any(name.startswith("DistributedDataParallel.") for name in context.names):
        return Reductions(flags, behind, EMPTY)
    at = host.start[work.launch[rows[chosen]]]
    step = np.maximum(recording.host_step_of(at), 0)
    count = np.bincount(step)

    def each(name: str) -> Ints:
        """Operators of that name in each step."""
        named = np.array([other == name for other in context.names], np.bool_)
        steps = np.maximum(recording.host_step_of(host.start[named[host.name] & (host.group == OP)]), 0)
        return np.bincount(steps, minlength=len(count))[: len(count)]

    gradients = each(_GRADIENT)
    others = np.sort(host.start[work.launch[(work.launch >= 0) & ~work.communication & (work.kind == KERNEL)]])
    order = np.argsort(at, kind="stable")
    between = np.diff(np.searchsorted(others, at[order]))
    near = np.append(False, between <= _BESIDE)[np.argsort(order)]
    looped = np.bincount(step, near, len(count)) >= _LOOPED * count
    many = (count >= _MANY) & np.where(gradients > 0, 2 * count >= gradients, looped)
    flags[chosen] = many[step]
    behind[chosen] = (many & (each(_COMPILED_BACKWARD) == 1))[step]
    before, after = order[:-1], order[1:]
    pairs = (near & (many & looped)[step])[after] & (step[before] == step[after])
    return Reductions(flags, behind, union(at[before[pairs]] + 1, at[after[pairs]] + 1))


def in_a_loop(context: Context, launch: Ints) -> Bools:
    """Flag launches between two all-reduces of a loop over gradients: the all-reduces, and copies and divisions of theirs."""
    host, names = context.recording.host, context.names
    talking = np.isin(launch, context.recording.work.launch[communication(context)])
    op = fetch(host.name, fetch(host.attributes.op, launch))
    own = np.append(np.array([name in _OF_A_LOOP for name in names], np.bool_), False)[op]
    flags: Bools = (launch >= 0) & (talking | own)
    return flags & inside(context.once(_reductions).loops, fetch(host.start, launch))


def _teller(context: Context, launch: Ints) -> Ints:
    """The node that says what each launch sends: the innermost around it with a collective's name, else the launch itself."""
    host = context.recording.host
    teller = launch.copy()
    node = fetch(host.attributes.op, launch)
    blank = [code for code, text in enumerate(context.recording.recorded.texts) if not text]
    for _ in range(AROUND):
        known = ~np.isin(context.op_column(node, "collective"), [-1, *blank])
        teller[known] = node[known]
        node = np.where(known, -1, fetch(host.attributes.op, fetch(host.parent, node)))
    return teller


class Told(NamedTuple):
    """Collectives of which others of one kind, size and group tell the length of the exchange.

    ``work`` is an index into `Recording.work`, ``fastest`` the ns of the exchange itself, ``last`` flags those in which this
    rank waited for nobody. ``smaller`` are others of their kind and group, too few of their size to tell, beside which others
    send as much or more: their exchange takes ``at_most`` so many ns.
    """

    work: Ints
    fastest: Ints
    last: Bools
    smaller: Ints
    at_most: Ints


def exchange(context: Context) -> Told:
    """Tell waiting from exchanging, collective by collective, on the busiest device, in order of start.

    A collective's kernel starts when its own rank arrives and ends when the last one has: the rank that comes last sees
    only the exchange, and all others their waiting too.
    """
    work, rows = context.recording.work, communication(context)
    here = np.flatnonzero(work.device[rows] == context.device)
    teller, sent, _ = context.once(told)
    keys = np.stack([context.once(kinds), sent, context.op_column(teller, "group_name")], axis=1)
    # Without a size nothing says that two take the same.
    here = here[sent[here] >= 0]
    if not len(here):
        return Told(here, here, np.zeros(0, np.bool_), here, here)
    dur = work.end[rows] - work.start[rows]
    count, least = _bounded(keys[here], dur[here])
    order = np.argsort(work.start[rows[here]], kind="stable")
    here, count, least = here[order], count[order], least[order]
    alike, smaller = count >= _ENOUGH, (count < _ENOUGH) & (least >= 0)
    last = dur[here[alike]] <= _LAST * least[alike]
    return Told(rows[here[alike]], least[alike], last, rows[here[smaller]], least[smaller])


def beyond(context: Context) -> Ints:
    """Return for each piece of work the ns that it lasts beyond the exchange itself; -1 where nothing tells."""
    work, known = context.recording.work, context.once(exchange)
    out = np.full(len(work), -1, np.int64)
    for rows, least in ((known.work, known.fastest), (known.smaller, known.at_most)):
        out[rows] = np.maximum((work.end - work.start)[rows] - least, 0)
    return out


def _bounded(keys: Ints, dur: Ints) -> tuple[Ints, Ints]:
    """Return how many of some collectives are alike, and the ns that the exchange of each takes at most; -1 where nothing tells.

    *keys* are kind, bytes and group. The fastest of those of one size tells; where they are too few, with those of the next
    larger sizes. And over the same link a message takes no longer than a larger one.
    """
    order = np.lexsort((-keys[:, 1], keys[:, 2], keys[:, 0]))
    keys, dur = keys[order], dur[order]
    begins = np.flatnonzero(np.append(True, (keys[1:] != keys[:-1]).any(axis=1)))
    ends = np.append(begins[1:], len(keys))
    count, least = np.zeros(len(keys), np.int64), np.full(len(keys), -1, np.int64)
    first, among, bound = 0, (-1, -1), -1
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        kind, _, group = keys[begin].tolist()
        if (kind, group) != among:
            first, among, bound = begin, (kind, group), -1
        if end - first >= _ENOUGH:
            # The next larger ones come before: all of a size count, and no more sizes than it takes.
            nearest = int(begins[np.searchsorted(begins, min(begin, end - _ENOUGH), side="right") - 1])
            fastest = round(float(np.percentile(dur[nearest:end], _FASTEST)))
            bound = fastest if bound < 0 else min(bound, fastest)
        count[begin:end], least[begin:end] = end - begin, bound
    back = np.argsort(order)
    return count[back], least[back]


def _proven(context: Context, rows: Ints) -> Ints:
    """Return the ns of pieces of GPU work beside which no events were taken out of the file: what hides the rest may be missing."""
    work = context.recording.work
    start, end = work.start[rows], work.end[rows]
    return end - start - (covered(context.taken_out, start, end) if context.thinned else 0)


def _owned(context: Context, mask: Bools) -> Ints:
    """Segments of the ledger that the chosen rows own; in a thinned file those beside which nothing was taken out."""
    ledger = context.ledger
    segments = ledger.owned(communication(context)[mask], *BUSY)
    if not context.thinned:
        return segments
    return segments[~inside(context.taken_out, ledger.start_ns[segments] + ledger.dur_ns[segments] // 2)]


def _cost(context: Context, rows: Ints) -> Ints | None:
    """Return the ns that the rows own where that is less than what they own in the ledger."""
    if not context.thinned:
        return None
    ledger, segments = context.ledger, _owned(context, np.ones(len(rows), np.bool_))
    return summed(np.searchsorted(rows, ledger.row[segments]), ledger.dur_ns[segments], len(rows))


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("kind", "dtype", COUNT, MEGABYTES, *TIME),
    rows=Rows(work=communication),
    owns=_owned,
)

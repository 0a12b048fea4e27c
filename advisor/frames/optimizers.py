"""`optimizers`: one row per step of an optimizer, and what it costs the device and the host."""

from __future__ import annotations

import re

import numpy as np

from advisor.columns import Columns
from advisor.frames.frame import COUNT, TIME, Frame, Rows
from advisor.frames.schema import COMMON, Schema, flag, integer, real, text
from advisor.intervals import Bools, Ints, coded, distinct, fetch, inside, summed, union
from advisor.regex import regex
from advisor.timeline import closures
from advisor.timeline.calls import ANNOTATION, BACKWARD, FORWARD, OP
from advisor.timeline.context import Context
from advisor.timeline.cpu import main_thread
from advisor.timeline.launch_origin import launch_behind
from advisor.timeline.program.learning import FUSED
from advisor.timeline.waits import nodes_by_name

SCHEMA = Schema(
    "optimizers",
    "a step of an optimizer, as Optimizer.step#NAME.step marks it",
    (
        *COMMON,
        text("name", "class of the optimizer", "name"),
        integer("gpu_ns", "ns", "GPU time launched inside it but for communication, summed; NULL where launches were not recorded"),
        integer("kernel_count", "", "pieces of GPU work launched inside it"),
        real("host_share", "share", "of the steady time: what the host is in it"),
        integer("op_count", "", "operators right below it"),
        flag("fused", "holds an aten::_fused_ operator: the whole update in one kernel per group"),
    ),
)  # fmt: skip
_STEP = regex(r"^Optimizer\.step#")
_FACTORS = regex(r"^aten::_?(?:linalg_(?!\w*norm)\w+|cholesky\w*|inverse|eig\w*|svd|qr|symeig|matrix_(?:exp|power))$")
_NOT_FUSABLE = regex(r"^aten::(?:_fused_|_nnz$|_values$|_indices$|_?coalesce$|view_as_real$)")
"""Operators of a step that is fused already, whose gradients are sparse, or whose parameters are complex."""
_GRADIENT = regex(r"^torch::autograd::AccumulateGrad$")
_ALIKE = 0.6
"""Forward passes of one program differ by less in the operators that make nodes of the graph."""
_NAME = regex(r"^Optimizer\.step#(.*?)(?:\.step)?$")


def nodes(context: Context) -> Ints:
    """Forest node of each row: the outermost of steps that lie in one another, in order of start."""
    return context.once(_steps)


def _steps(context: Context) -> Ints:
    recording, host = context.recording, context.recording.host
    found = nodes_by_name(recording, _STEP, (ANNOTATION, OP))
    if not len(found):
        return found
    chosen = np.zeros(host.size, np.bool_)
    chosen[found] = True
    found = found[host.above(found, chosen) < 0]
    return found[np.argsort(host.start[found], kind="stable")]


def begun(context: Context) -> Ints:
    """When each row's own work begins: behind its closure, where it has one."""
    return context.once(_begun)


def _begun(context: Context) -> Ints:
    host = context.recording.host
    return closures.begun(host, nodes(context), host.attributes.phase == BACKWARD, context.names)


def _row_of(context: Context, points: Ints) -> Ints:
    """Row of the step that each point of time lies in, -1 for none; other threads work for the step that waits for them."""
    host, rows = context.recording.host, nodes(context)
    at = np.searchsorted(begun(context), points, side="right") - 1
    node = rows[np.maximum(at, 0)]
    found: Ints = np.where((at >= 0) & (points < host.end[node]), at, -1)
    return found


def _work(context: Context) -> Ints:
    """Row of the step that launched each piece of GPU work, -1 for none."""
    host, launch = context.recording.host, context.recording.work.launch
    if not len(nodes(context)) or not len(launch):
        return np.full(len(launch), -1, np.int64)
    at = np.maximum(launch, 0)
    return np.where(launch >= 0, _row_of(context, host.start[at]), -1)


def launched_each(context: Context) -> float | None:
    """Median of the pieces of work that a step launches; None without a step, or where launches were not recorded."""
    work, rows = context.recording.work, nodes(context)
    if not len(rows) or not (work.launch >= 0).any():
        return None
    row = context.once(_work)
    return float(np.median(summed(row[(row >= 0) & ~work.communication], 1, len(rows))))


def backwards_each(context: Context) -> float | None:
    """Count the backward passes of a step, each behind a forward pass of about as many operators; None where they differ.

    A pass begins where the main thread's own operators end and the backward pass's begin. Passes behind unlike forward passes
    are those of several losses, or of gradients of gradients: no batch that was taken in parts. None without steps, too.
    """
    begins = context.once(backward_begins)
    return None if begins is None else len(begins) / len(nodes(context))


def storing_passes_each(context: Context) -> float | None:
    """Count those of them that store gradients of about as many parameters as any; None where :func:`backwards_each` is."""
    begins = context.once(backward_begins)
    if begins is None:
        return None
    stored = context.recording.host.start[nodes_by_name(context.recording, _GRADIENT, (OP,))]
    at = np.searchsorted(begins, stored, side="right") - 1
    counts = summed(at[at >= 0], 1, len(begins))
    return int((counts >= max(_ALIKE * counts.max(), 1)).sum()) / len(nodes(context))


def backward_begins(context: Context) -> Ints | None:
    """Return when each backward pass begins, in ns; None where forward passes differ, and without one or a step."""
    host, rows = context.recording.host, nodes(context)
    if not len(rows) or not host.size:
        return None
    ops = np.flatnonzero(host.group == OP)
    phase = host.attributes.phase[ops]
    backward = phase == BACKWARD
    forward = (phase == FORWARD) & (host.thread[ops] == main_thread(context.recording))
    # Clipping and logging, which a step does once, run outside of gradient mode.
    numbered = forward & (context.op_column(ops, "sequence") >= 0)
    keep = backward | (numbered if numbered.any() else forward)
    start = host.start[ops[keep]]
    order = np.argsort(start, kind="stable")
    backward = backward[keep][order]
    begins = np.flatnonzero(backward[1:] & ~backward[:-1]) + 1
    if not len(begins):
        return None
    # The first one's may have begun before the recording.
    lengths = np.diff(np.append(0, np.cumsum(~backward)[begins]))[1:]
    if len(lengths) and lengths.min() < _ALIKE * lengths.max() and len(begins) > len(rows):
        return None
    starts: Ints = start[order][begins]
    return starts


def accumulating(context: Context, at: Ints) -> Bools:
    """Flag the moments behind a forward pass that another one follows before the optimizer's step: of collectives begun there.

    DistributedDataParallel marks each forward pass, and torch each step of an optimizer: where a forward pass comes first
    after the backward pass that launched a collective, its gradients are still being accumulated. What lies between the
    optimizer's step and the next forward pass is of no backward pass.
    """
    forwards, begins, ends = context.once(_marks)
    following, stepping = np.searchsorted(forwards, at, side="right"), np.searchsorted(begins, at, side="right")
    out = (following < len(forwards)) & (stepping < len(begins))
    out[out] = forwards[following[out]] < begins[stepping[out]]
    passed = fetch(forwards, following - 1)
    return out & (passed >= fetch(ends, np.searchsorted(ends, at, side="right") - 1))


def behind_step(context: Context, at: Ints) -> Bools:
    """Flag the moments behind an optimizer's step and before the next backward pass: of what is begun there, none is a gradient.

    So are those before the first backward pass of a recording, if no step comes before that. All are False without a step.
    """
    _, begins, ends = context.once(_marks)
    backward = context.once(backward_calls)
    stepped = fetch(ends, np.searchsorted(ends, at, side="right") - 1)
    passed = fetch(backward, np.searchsorted(backward, at, side="right") - 1)
    early = at < (int(backward[0]) if len(backward) and len(begins) and backward[0] < begins[0] else -1)
    found: Bools = ((stepped >= 0) & (stepped > passed)) | early
    return found


def backward_calls(context: Context) -> Ints:
    """Return when each operator of a backward pass starts, in order, in ns."""
    host = context.recording.host
    return np.sort(host.start[(host.group == OP) & (host.attributes.phase == BACKWARD)])


def ddp_forwards(context: Context) -> Ints:
    """Return when each forward pass of DistributedDataParallel starts, in order, in ns."""
    return context.once(_marks)[0]


def _marks(context: Context) -> tuple[Ints, Ints, Ints]:
    """Starts of forward passes of DistributedDataParallel; starts and ends of optimizers' steps; each in order."""
    host = context.recording.host
    forward = np.array([name == "DistributedDataParallel.forward" for name in context.names], np.bool_)
    step = np.array([name.startswith("Optimizer.step#") for name in context.names], np.bool_)
    if not host.size:
        return (np.zeros(0, np.int64),) * 3
    marks = np.isin(host.group, (ANNOTATION, OP))
    forwards, steps = host.start[marks & forward[host.name]], marks & step[host.name]
    return np.sort(forwards), np.sort(host.start[steps]), np.sort(host.end[steps])


def operators_each(context: Context, calls: Ints) -> float | None:
    """Estimate how many operators of an optimizer's step treat one parameter; *calls* are the forest nodes that launched in it.

    A loop over parameters, or over groups of them, calls each operator as often for one parameter as for the next: calls of the
    commonest are at least as many as parameters. Fewer gradients than those were accumulated in a pass: it is called more than
    once for each. So it is no more than there are, and 1 where a step is a single operator; None without an operator. Counted
    are steady steps where there are some: the first, which makes the momentum, runs fewer.
    """
    host = context.recording.host
    names = host.name[_steady(context, distinct(calls[calls >= 0]))]
    if not len(names):
        return None
    each = np.bincount(names)
    most = float(each.max())
    if not any(context.names[code].startswith("aten::_foreach_") for code in np.flatnonzero(each).tolist()):
        gradients = _steady(context, nodes_by_name(context.recording, _GRADIENT, (OP,)))
        passes = backwards_each(context)
        if len(gradients) and passes:
            most = min(most, len(gradients) / passes)
    return len(names) / most


def _steady(context: Context, calls: Ints) -> Ints:
    """Those of some forest nodes that begin in a step that counts; all where none does."""
    counted = context.ledger.counted_steps()
    inner = np.isin(context.recording.host_step_of(context.recording.host.start[calls]), counted)
    return calls[inner] if inner.any() else calls


def fusable(context: Context, points: Ints) -> Bools:
    """Flag the moments inside a step that a fused form could take the place of: each optimizer's step is judged by itself.

    Its class has such a form, it calls no fused operator, and works on no sparse tensor, of which the fused forms take none.
    """
    host, rows = context.recording.host, nodes(context)
    if not len(rows):
        return np.zeros(len(points), np.bool_)
    able = np.array(
        [(match := _NAME.match(name)) is not None and match[1] in FUSED for name in context.names], np.bool_
    )
    able = able[host.name[rows]]
    other = _row_of(context, host.start[nodes_by_name(context.recording, _NOT_FUSABLE, (OP,))])
    able[other[other >= 0]] = False
    at = _row_of(context, points)
    found: Bools = (at >= 0) & able[np.maximum(at, 0)]
    return found


def factorizes(context: Context) -> bool | None:
    """Tell whether a step inverts or factorizes matrices; None without a step, or where operators were not recorded.

    None, too, where many were taken out of the file and none of those that are left does.
    """
    host, rows = context.recording.host, nodes(context)
    if not len(rows) or not (host.group == OP).any():
        return None
    found = nodes_by_name(context.recording, _FACTORS, (OP,))
    seen = bool((_row_of(context, host.start[found]) >= 0).any())
    return None if context.thinned and not seen else seen


def build(context: Context) -> Columns:
    """The frame."""
    host, work, rows = context.recording.host, context.recording.work, nodes(context)
    count = len(rows)
    row = context.once(_work)
    linked = (row >= 0) & ~work.communication
    time = summed(row[linked], (work.end - work.start)[linked], count)
    pieces = summed(row[linked], 1, count)
    if len(work) and not (work.launch >= 0).any():
        time = np.full(count, -1, np.int64)
    codes, inverse = coded(host.name[rows])
    classes = [match[1] if (match := _NAME.match(context.names[code])) else "" for code in codes.tolist()]
    cost = np.zeros(count, np.int64)
    segments, owner = context.once(_segments)
    np.add.at(cost, owner, context.ledger.dur_ns[segments])
    fused = np.zeros(count, np.bool_)
    fusing = nodes_by_name(context.recording, re.compile(r"^aten::_fused_"), (OP,))
    if count and len(fusing):
        holders = _row_of(context, host.start[fusing])
        fused[holders[holders >= 0]] = True
    start = begun(context)
    below = np.flatnonzero((host.group == OP) & np.isin(host.parent, rows)) if count else rows
    below = below[host.start[below] >= start[np.searchsorted(host.start[rows], host.start[below], side="right") - 1]]
    ops = summed(np.searchsorted(start, host.start[below], side="right") - 1, 1, count)
    frame = context.common(start=start, dur=host.end[rows] - start, cost=cost, node=rows)
    frame |= {
        "name": context.labels(inverse, classes),
        "gpu_ns": context.known(time),
        "kernel_count": pieces,
        "host_share": (host.end[rows] - start) / max(context.ledger.counted_ns, 1),
        "op_count": ops,
        "fused": fused,
    }
    return Columns(frame)


def _segments(context: Context) -> tuple[Ints, Ints]:
    """Segments of the ledger that steps own, and the row of each: the work launched in them, and the idle time of their host.

    Communication is none of it: what an optimizer exchanges with other ranks, no cheaper step of its own returns. Where
    launches were not recorded it is all else that the device does during the step.
    """
    ledger, host, rows = context.ledger, context.recording.host, nodes(context)
    none = np.zeros(0, np.int64)
    if not len(rows):
        return none, none
    middle, own = ledger.start_ns + ledger.dur_ns // 2, ledger.counted & ~ledger.through("communication")
    start = begun(context)
    during = np.flatnonzero(own & inside(union(start, host.end[rows]), middle))
    held = np.searchsorted(start, middle[during], side="right") - 1
    launch = context.recording.work.launch
    if not len(launch) or not (launch >= 0).any():
        return during, held
    # What ends idle time and was launched before the step was queued behind something else than the step's host.
    late = fetch(host.start, launch_behind(context, ledger.end_ns[during]), missing=1 << 62) >= start[held]
    idle = ledger.idle[during] & late
    row = context.once(_work)
    busy = np.flatnonzero(own & ledger.busy & (ledger.row >= 0))
    busy = busy[row[ledger.row[busy]] >= 0]
    segments = np.concatenate([during[idle], busy])
    owner = np.concatenate([held[idle], row[ledger.row[busy]]])
    order = np.argsort(segments, kind="stable")
    return segments[order], owner[order]


def _claims(context: Context, mask: Bools) -> Ints:
    segments, owner = context.once(_segments)
    return segments[mask[owner]]


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("name", COUNT, *TIME, "round(sum(gpu_ns) / 1e6, 3) AS gpu_ms"),
    rows=Rows(nodes=nodes),
    owns=_claims,
)

"""`operator_calls`: one row per operator of a program on the CPU, with the Python that leads to it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor.columns import Columns
from advisor.frames.call_sizes import elements, uneven, work_share
from advisor.frames.frame import COUNT, TIME, Frame, Rows, owns_parts
from advisor.frames.growth import grows
from advisor.frames.indexed import index_dims
from advisor.frames.operator_parts import MANY, functions, looped, nodes, outermost, parts, python, unbinds
from advisor.frames.optimizers import accumulating, fusable, storing_passes_each
from advisor.frames.schema import COMMON, Schema, flag, integer, real, text
from advisor.frames.separate_turns import turns
from advisor.intervals import Bools, Ints, coded, distinct, summed
from advisor.regex import regex
from advisor.timeline.calls import BACKWARD, FORWARD, OPTIMIZER
from advisor.timeline.context import Context

_BY = "`advisor record`"
SCHEMA = Schema(
    "operator_calls",
    "an operator of a program on the CPU, with the Python that leads to it; no rows beside a GPU",
    (
        *COMMON,
        text("name", "the operator", "name"),
        text("around", "the operator that Python, or the autograd engine, called and that this one runs inside; its own name where "
             "it is that one", "name"),
        text("phase", "forward, backward, optimizer or zero_grad"),
        flag("numbered", "it, or an operator around it, carries a sequence number of autograd: gradient mode was on",
             "args.Sequence number"),
        integer("python_ns", "ns", "Python between the operator before it and this one, where that is under 100 us and neither "
                "is inside another operator; else 0"),
        flag("fusable", "runs in a step of Adam, AdamW, SGD or Adagrad that calls no fused operator and has no sparse gradient: "
             "what fused=True takes the place of"),
        flag("native", "runs in the own loop of an operator of torch's of 1 ms or more (a recurrent layer, unique), or in its "
             "backward"),
        flag("prepares", "it, or the operator around it, sorts whole numbers, removes duplicates, counts, builds a sparse tensor, "
             "measures distances of all pairs, decomposes, inverts or solves"),
        flag("resized", "such an operator, whose line gives it, in each of three steps or more, sizes of that step alone: its "
             "input is another each time"),
        flag("grows", "it, or the operator around it, is given more numbers in each step than in the one before, each time by as "
             "many, in four steps or more; lists of tensors count by what is allocated for them"),
        flag("differentiated", "of it, or of the operator around it, a gradient was computed: it depends on parameters, or on a "
             "batch that needs one"),
        flag("node", "is a node of autograd's graph, or the engine's call of one: what runs inside is not its own time"),
        flag("looped", "its line calls 200 operators a step or more, most of them without a part of 10 us: a loop in Python"),
        flag("unbinds", "runs in an unbind that makes 1,000 views or more, or is one: a loop in Python over a tensor's elements"),
        flag("trails", "comes after the last backward pass of its step, is no part of the optimizer's, and no gradient is computed "
             "of it; false in programs without a backward pass"),
        flag("reduces", "it, or the operator around it, makes a few numbers of many: statistics and metrics, no norms"),
        integer("elements", "", "numbers of its first tensor; 0 where its shape was not recorded, and of a list of tensors",
                "args.Input Dims"),
        real("work_share", "share", "of its time that its bytes and arithmetic take on one core at 10 GB/s and 20 GFLOP/s, by its "
             "shapes; 0 where these are not known: the rest is the call"),
        flag("uneven", "its line gives most of what it calls four sizes or more in a step, in a program whose attention has "
             "as many lengths"),
        integer("index_dim", "", "of aten::index by one list of places: the dimension of these, from 0; NULL elsewhere, and where "
                "arguments were not recorded"),
        integer("turns", "", "calls of its line in one step, of the operator that is called most, 20 or more; 0 elsewhere", _BY),
        real("deeper", "share", "of these turns that more operators lead to, one behind the other, than to any before: of a "
             "recurrence nearly all, of turns that do not need each other nearly none; NULL elsewhere", _BY),
        real("spared", "share", "of the backward passes of an optimizer's step, each behind a forward pass like the others and "
             "storing gradients: all but one, which a batch taken whole runs; 0 where they differ"),
        flag("stores", "runs where autograd's engine stores a gradient, or adds it to what earlier passes left"),
        flag("bucketed", "copies a gradient to a bucket of DistributedDataParallel's or back, or asks for its reduction, in a "
             "backward pass that a forward pass follows before the optimizer steps"),
        real("threads_per_core", "", "threads that operators divide their work among, for each core of the process; NULL where not "
             "recorded"),
        flag("prints", "makes text of a tensor, for print, an f-string or a log: called by torch's own code for it (needs library "
             "frames in stacks)"),
        flag("element", "picks a part of a tensor by its index, or reads one number of it"),
        flag("numbers", "its line picks single numbers of tensors 200 times a step or more, as m[i, j] does; false where shapes "
             "were not recorded"),
        real("element_share", "share", "of the small operators (under 30 us) that its line calls: those that do; NULL without a "
             "line"),
        real("loop_share", "share", "the same of all lines of its function that loop (looped), where one of these picks single "
             "numbers (numbers) with two of five of its own; NULL for other lines"),
    ),
)  # fmt: skip
_SMALL_NS = 30_000
_LEAST_STEPS = 3
"""Steps with sizes of their own from which on they are taken to differ in all."""
_PICKS = 0.4
"""Part of a line's small operators that pick numbers, from which on that is what its loop is for."""
_BY_ROWS = regex(rb'^\s*\[\s*"[^"]*"\s*,\s*"\[?-?\d')
"""Recorded inputs of an operator that is given a dimension: it leaves a number for each row."""
_SINGLE = regex(r"^\[\[\d+\]")
"""Operands of which the first has one dimension."""
_NODE = regex(r"^autograd::engine::evaluate_function|^torch::autograd::|Backward\d*$")
_REDUCER = regex(r"^torch(?:::|\.)distributed(?:::|\.)(?:ddp\.)?reducer::")

_PRINTERS = ("torch/_tensor_str.py", "torch/_tensor.py")
_STORES = regex(r"torch::autograd::AccumulateGrad$")
_LONG_NS = 1_000_000
_REDUCES = regex(
    r"^aten::(?:(?:nan)?quantile|histc|histogram|bincount|(?:nan)?median|mode|kthvalue|std|var|std_mean|var_mean|mean|(?:nan)?sum|prod"
    r"|amax|amin|aminmax|max|min|argmax|argmin|topk|sort|argsort|cov|corrcoef"
    r"|linalg_(?:svdvals|svd|matrix_rank|cond)|count_nonzero|isnan|isinf|isfinite|all|any|equal|allclose"
    r"|unique|_unique2|cosine_similarity|abs|square|eq|ne)$"
)
"""Operators of statistics and metrics, and what leads to them. No norms: gradients are clipped by them."""
_ELEMENT = regex(r"^aten::(?:select|item|_local_scalar_dense|is_nonzero|unbind|index_put_|fill_|as_strided)$")
_ORDERS = regex(r"^aten::(?:sort|argsort|msort)$")
_SCORES = regex(rb'^\["(?:float|double|c10::Half|c10::BFloat16)"')
"""Types of an operator's inputs, as they are recorded, of which the first is a tensor of numbers with a point."""
_PREPARES = regex(
    r"^aten::(?:_unique2?|unique_(?:dim|consecutive)|sort|argsort|msort|nonzero|histc|bincount|_?coalesce|sparse_coo_tensor"
    r"|_?to_sparse(?:_csr|_csc|_coo)?|_?cdist|cdist_forward|pdist|inverse|cholesky(?:_inverse|_solve)?|svd|qr|pinverse|matrix_exp"
    r"|_?linalg_(?:inv|inv_ex|svd|eigh?|eigvalsh?|qr|lu|lu_factor|lu_factor_ex|cholesky|cholesky_ex|solve|solve_ex"
    r"|solve_triangular|lstsq|pinv|matrix_exp|matrix_power|det|slogdet))$"
)


def build(context: Context) -> Columns:
    """The frame."""
    host, rows = context.recording.host, nodes(context)
    length = host.end[rows] - host.start[rows]
    segments, row = parts(context)
    cost = summed(row, context.ledger.dur_ns[segments], len(rows))
    at, behind = python(context)
    frame = context.common(start=host.start[rows], dur=length, cost=cost, node=rows)
    python_ns = summed(behind, context.ledger.dur_ns[at], len(rows))
    element = np.array([_ELEMENT.match(name) is not None for name in context.names], np.bool_)[host.name[rows]]
    numbers, picks = _numbers(context, rows), _element_share(context, rows, length, element)
    around = outermost(context, rows)
    prepares = _prepares(context, around)
    differentiated = np.isin(around, _differentiated(context, rows))
    called = host.name[around]
    count, deeper = turns(context, rows)
    stores = np.array([_STORES.search(name) is not None for name in context.names], np.bool_)[called]
    frame |= {
        "name": context.labels(host.name[rows], context.names),
        "around": context.labels(called, context.names),
        "phase": context.phase(rows),
        "numbered": _numbered(context, rows),
        "python_ns": python_ns,
        "fusable": fusable(context, host.start[rows]),
        "native": _native(context, rows),
        "prepares": prepares,
        "resized": prepares & _resized(context, around, prepares),
        "grows": grows(context, rows, around),
        "differentiated": differentiated,
        "trails": _trails(context, rows, differentiated),
        "reduces": _reduces(context, rows, around),
        "elements": elements(context, rows),
        "work_share": work_share(context, rows, cost, python_ns),
        "uneven": uneven(context, rows),
        "index_dim": context.known(index_dims(context, rows)),
        "turns": count,
        "deeper": deeper,
        "spared": np.full(len(rows), _spared(context)),
        "stores": stores,
        "bucketed": _bucketed(context, rows, stores),
        "threads_per_core": _threads_per_core(context, len(rows)),
        "node": np.array([_NODE.search(name) is not None for name in context.names], np.bool_)[host.name[rows]],
        "looped": looped(context),
        "prints": _prints(context, rows),
        "unbinds": unbinds(context, rows),
        "element": element,
        "numbers": numbers,
        "element_share": picks,
        "loop_share": _loop_share(context, rows, length, element, numbers & (picks >= _PICKS)),
    }
    return Columns({name: frame[name] for name in SCHEMA.names()})


def _prepares(context: Context, around: Ints) -> Bools:
    """Flag what prepares data, by the operators that Python called; numbers with a point are scores, which a step computes anew."""
    name = context.recording.host.name[around]
    found: Bools = np.array([_PREPARES.match(each) is not None for each in context.names], np.bool_)[name]
    orders = np.array([_ORDERS.match(each) is not None for each in context.names], np.bool_)[name] & found
    if orders.any():
        types = context.op_column(around[orders], "types")
        raws = context.recording.recorded.raws
        scores = {code for code in distinct(types).tolist() if 0 <= code < len(raws) and _SCORES.match(raws[code])}
        found[orders] &= ~np.isin(types, sorted(scores))
    return found


def _resized(context: Context, around: Ints, prepares: Bools) -> Bools:
    """Flag rows inside operators whose sizes differ from step to step: of their line and name, no two steps have one in common."""
    host = context.recording.host
    nodes = distinct(around[prepares])
    step, dims = context.recording.step_of(host.start[nodes]), context.op_column(nodes, "dims")
    steps: dict[tuple[int, int], dict[int, set[int]]] = {}
    place = host.attributes.user[nodes]
    keys = list(zip(place.tolist(), host.name[nodes].tolist(), strict=True))
    for key, at, size in zip(keys, step.tolist(), dims.tolist(), strict=True):
        if at >= 0 and size >= 0:
            steps.setdefault(key, {}).setdefault(size, set()).add(at)
    other = {
        key
        for key, sizes in steps.items()
        if len(set().union(*sizes.values())) >= _LEAST_STEPS and all(len(each) == 1 for each in sizes.values())
    }
    return np.isin(around, nodes[[key in other for key in keys]] if keys else nodes)


def _trails(context: Context, rows: Ints, differentiated: Bools) -> Bools:
    """Flag operators behind the last backward pass of their step that no gradient, and no optimizer, needs."""
    host = context.recording.host
    phase, step = context.phases(rows), context.recording.step_of(host.start[rows])
    behind = (phase == BACKWARD) & (step >= 0)
    last = np.full(int(step.max(initial=-1)) + 2, -1, np.int64)
    np.maximum.at(last, step[behind], host.start[rows[behind]])
    last = np.where(last >= 0, last, np.iinfo(np.int64).max)
    found: Bools = (step >= 0) & (host.start[rows] > last[step]) & (phase == FORWARD) & ~differentiated
    return found


def _reduces(context: Context, rows: Ints, around: Ints) -> Bools:
    """Flag statistics, by the operators that Python called; none of each row before the optimizer: those may scale gradients."""
    host = context.recording.host
    found: Bools = np.array([_REDUCES.match(name) is not None for name in context.names], np.bool_)[host.name[around]]
    phase, step = context.phases(rows), context.recording.step_of(host.start[rows])
    steps = (phase == OPTIMIZER) & (step >= 0)
    first = np.full(int(step.max(initial=-1)) + 2, np.iinfo(np.int64).min, np.int64)
    first[step[steps]] = np.iinfo(np.int64).max
    np.minimum.at(first, step[steps], host.start[rows[steps]])
    before = np.flatnonzero(found & (step >= 0) & (host.start[rows] < first[step]))
    values = context.op_column(around[before], "concrete")
    inputs = context.recording.recorded.inputs
    by_rows = [
        code for code in distinct(values).tolist() if 0 <= code < len(inputs) and _BY_ROWS.match(bytes(inputs[code]))
    ]
    # What leads there is on their line: abs, square.
    line = host.attributes.user[rows[before]]
    of_rows = np.isin(values, by_rows)
    found[before] &= ~(of_rows | ((line >= 0) & np.isin(line, line[of_rows])))
    return found


def _element_share(context: Context, rows: Ints, length: Ints, element: Bools) -> npt.NDArray[np.float64]:
    """For each row, the part of the small operators of its line that pick elements; of operators that Python calls alone."""
    host = context.recording.host
    top = context.top(rows)
    line = host.attributes.user[rows]
    counted = top & (length < _SMALL_NS) & (line >= 0)
    size = int(line.max()) + 1 if len(line) else 0
    calls, picks = summed(line[counted], 1, size), summed(line[counted & element], 1, size)
    share = np.full(len(rows), np.nan)
    known = line >= 0
    share[known] = picks[line[known]] / np.maximum(calls[line[known]], 1)
    return share


def _loop_share(context: Context, rows: Ints, length: Ints, element: Bools, picking: Bools) -> npt.NDArray[np.float64]:
    """The same of the lines of a function that loop, if one of them picks single numbers: they are the body of its loop."""
    host = context.recording.host
    share, line, loops = np.full(len(rows), np.nan), host.attributes.user[rows], looped(context)
    loops = loops & (line >= 0)
    if not (loops & picking).any():
        return share
    of_line = functions(host.places)
    count = int(of_line.max()) + 1
    function = np.where(loops, of_line[np.maximum(line, 0)], -1)
    counted = loops & context.top(rows) & (length < _SMALL_NS)
    calls, picks = summed(function[counted], 1, count), summed(function[counted & element], 1, count)
    known = loops & np.isin(function, distinct(function[loops & picking]))
    share[known] = picks[function[known]] / np.maximum(calls[function[known]], 1)
    return share


def _numbers(context: Context, rows: Ints) -> Bools:
    """Flag operators of lines that pick numbers: a select of a tensor of one dimension leaves one."""
    line = context.recording.host.attributes.user[rows]
    dims = context.op_column(rows, "dims")
    select = np.array([name == "aten::select" for name in context.names], np.bool_)[context.recording.host.name[rows]]
    picks = np.flatnonzero(context.top(rows) & select & (line >= 0) & (dims >= 0) & (context.phases(rows) != BACKWARD))
    found = np.zeros(len(rows), np.bool_)
    if len(picks):
        codes, of = coded(dims[picks])
        single = np.array([_SINGLE.match(context.shape_texts[code]) is not None for code in codes.tolist()], np.bool_)
        counts = summed(line[picks[single[of]]], 1, int(line.max()) + 1)
        many = counts >= MANY * max(len(context.recording.steps), 1)
        found[line >= 0] = many[line[line >= 0]]
    return found


def _differentiated(context: Context, rows: Ints) -> Ints:
    """Nodes of operators that Python called whose gradient a backward pass computed."""
    host = context.recording.host
    own, top = np.full(host.size, -1, np.int32), rows[context.top(rows)]
    forward = top[context.phases(top) != BACKWARD]
    own[forward] = forward
    return distinct(host.with_backward(own)[rows[context.phases(rows) == BACKWARD]]).astype(np.int64)


def _native(context: Context, rows: Ints) -> Bools:
    """Flag operators inside a long one that Python calls: what loops there is no Python's."""
    host = context.recording.host
    ours = np.array([name.startswith("aten::") for name in context.names], np.bool_)[host.name[rows]]
    long = rows[ours & context.top(rows) & (host.end[rows] - host.start[rows] >= _LONG_NS)]
    if not len(long):
        return np.zeros(len(rows), np.bool_)
    own = np.full(host.size, -1, np.int8)
    own[long] = 1
    found: Bools = host.with_backward(own)[rows] > 0
    return found & ~np.isin(rows, long)


def _spared(context: Context) -> float:
    return 1 - 1 / max(storing_passes_each(context) or 1.0, 1.0)


def _prints(context: Context, rows: Ints) -> Bools:
    """Flag operators by which torch prints a tensor: its printer's, and on their lines what that asks of the tensor itself."""
    host = context.recording.host
    files = np.array([_PRINTERS.index(place.file) if place.file in _PRINTERS else -1 for place in host.places] + [-1])
    by, line = files[host.attributes.library[rows]], host.attributes.user[rows]
    printing = np.zeros(len(host.places) + 1, np.bool_)
    printing[line[(by == 0) & (line >= 0)]] = True
    found: Bools = (by == 0) | ((by == 1) & printing[line])
    return found


def _threads_per_core(context: Context, rows: int) -> npt.NDArray[np.float64]:
    recorded = context.metadata.recorded
    if recorded is None or not recorded.threads or not recorded.cores:
        return np.full(rows, np.nan)
    return np.full(rows, recorded.threads / recorded.cores)


def _bucketed(context: Context, rows: Ints, stores: Bools) -> Bools:
    """Flag operators of DistributedDataParallel's reducer, and what runs inside them, where gradients are still accumulated.

    The backend's collectives are asked for where the last gradient of a bucket is stored (*stores*).
    """
    host = context.recording.host
    name = host.name[rows]
    copies = np.array([_REDUCER.match(name) is not None for name in context.names], np.bool_)[name]
    if not copies.any():
        return copies
    asks = np.array([name.startswith("c10d::") for name in context.names], np.bool_)[name] & stores
    own = np.full(host.size, -1, np.int64)
    own[rows[copies | asks]] = rows[copies | asks]
    around = host.flow(own)[rows]
    found: Bools = (around >= 0) & accumulating(context, host.start[np.maximum(around, 0)])
    return found


def _numbered(context: Context, rows: Ints) -> Bools:
    host, own = context.recording.host, np.full(context.recording.host.size, -1, np.int64)
    numbered = rows[context.op_column(rows, "sequence") >= 0]
    own[numbered] = numbered
    found: Bools = host.flow(own)[rows] >= 0
    return found


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("name", COUNT, *TIME),
    rows=Rows(nodes=nodes),
    owns=owns_parts(parts),
    parts=parts,
)

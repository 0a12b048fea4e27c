"""`gaps`: one row per stretch in which the device idles for one cause, and what the launching thread did meanwhile."""

from __future__ import annotations

from typing import Any

import numpy as np

from advisor.columns import Columns
from advisor.frames import dynamic_sizes
from advisor.frames.batches import OF_GAPS, of_gaps
from advisor.frames.collectives import in_a_loop
from advisor.frames.copies import parse
from advisor.frames.frame import COUNT, IN_PYTHON, TIME, Frame, Rows, owns_parts
from advisor.frames.gradients import idle_columns
from advisor.frames.schema import COMMON, Schema, flag, integer, real, text
from advisor.frames.written import Files
from advisor.intervals import Bools, Ints, Spans, covered, distinct, fetch, starts_run, subtract, summed, union
from advisor.regex import regex
from advisor.timeline.calls import OP, PYTHON, RUNTIME, Host
from advisor.timeline.context import Context
from advisor.timeline.holders import describe
from advisor.timeline.launch_origin import in_line, launch_behind, thread_of
from advisor.timeline.ledger import CAUSES, CODE, IDLE, OWNED
from advisor.timeline.memory import freeing_ns
from advisor.timeline.owners import OWNERS, Neighbours, Stretches, neighbours
from advisor.timeline.owners import find as find_owners
from advisor.timeline.tokens import between_tokens, token_runs

SCHEMA = Schema(
    "gaps",
    "a stretch inside one step where the whole device idles for one cause",
    (
        *COMMON,
        text("cause", "why: " + ", ".join(IDLE)),
        integer("gap_id", "", "the idle stretch of the device that it is part of"),
        integer("gap_ns", "ns", "length of that whole stretch"),
        integer("turning_ns", "ns", "length of that stretch where it lies in two steps, the profiler's own work included; 0 where "
                "it lies in one"),
        flag("lone", "of the host's stretches at its line those of no other of three steps or more take a third as long: it may "
             "have been the machine, not the program"),
        text("position", "first (before any work of the window), last, or inner"),
        text("next_op", "operator that launched the work which ends the stretch"),
        text("owner", "of the host's and an operator's: what held the host: " + ", ".join(OWNERS) + "; NULL: not known"),
        text("since_op", "operator that ended before a stretch of Python's between two; NULL inside of one"),
        text("until_op", "operator that began behind it"),
        integer("apart_ns", "ns", "what of the stretch lies between the two; NULL where either is unknown"),
        integer("since_line", "", "line that the former is called from; NULL where unknown"),
        integer("until_line", "", "line that the latter is called from; likewise"),
        text("holder", "function (file:line name) of which one call held half of it or more, in stretches of 1 ms or more"),
        text("holder_function", "its name alone"),
        integer("holder_calls", "", "calls of that function in the recording"),
        integer("holder_ns", "ns", "time in that function, all its calls together"),
        integer("held_ns", "ns", "what of the stretch that call covers"),
        text("holder_parts", "what took most of that function's time, with the share of it"),
        integer("next_work_ns", "ns", "length of the GPU work that ends the stretch; NULL where there is none"),
        text("phase", "phase that the launching thread was in: forward, backward, optimizer, zero_grad or other"),
        text("next_phase", "phase that launched the work which ends the stretch, in the same words"),
        flag("reduces_gradients", "what ends it is an all-reduce of a loop that has one for each gradient, or a copy or a division "
             "of that loop"),
        flag("accumulates", "autograd's engine accumulates gradients in half of it or more (AccumulateGrad), which a compiled "
             "model leaves as it is"),
        flag("adds_to_zeros", "and what ends it adds a gradient to one that zero_grad filled with zeros (kernels.added_to_zeros)"),
        real("unbroken", "", "part of what is launched around it that a compiler can take in one piece: 0 between operators that "
             "read sizes back (four a step or more) or values (sixteen), with few launches between; in a backward pass "
             "the forward pass's part"),
        flag("startup", "it is start-up, its cause: loading, selection of an algorithm, specialization, first calls"),
        integer("call_ns", "ns", "length of the one runtime call that the launching thread was in at its middle; 0 if in none"),
        integer("written_ns", "ns", "what of it passed in calls that write files (torch.save, a file's write, fsync): by the calls "
                "of Python, else by the part that they took in the steps that `advisor record` saw with stacks; NULL where "
                "neither is known"),
        text("written_by", "the call that most of this passed in"),
        integer("freeing_ns", "ns", "what of it lies behind the free of a tensor of the host's of 32 MiB or more, whose memory the "
                "system takes back meanwhile: at most 0.1 ns a byte; NULL without memory events"),
        integer("python_ns", "ns", "what of it the launching thread spent in Python outside any operator; NULL without "
                "its calls"),
        integer("cpu_work_ns", "ns", "what of it the launching thread spent in operators that compute on the CPU: of "
                "100 us or more, launching nothing"),
        real("repeated_part", "share", "of the stretches of Python (the host's) at the line that calls a function whose arguments, "
             "numbers and words, came in an earlier step as well, or inside of it: its time; 0 elsewhere", "`advisor record`"),
        text("repeated_function", "that function"),
        real("draws_part", "share", "of those at a line that draws with weights, or without replacement, by a function that goes "
             "over all candidates in each call: its time; 0 elsewhere", "`advisor record`"),
        text("copying_op", "of an accelerator whose copies have no calls of the runtime: operator that makes its copies itself and "
             "waits for one of them meanwhile; NULL where all of its copies are known to go one way"),
        integer("token_ns", "ns", "what of it the host is in Python between the model's run for one token and that for the next, "
                "in no operator and no call: it chooses the token, turns it into text; 0 where no shapes were recorded"),
        integer("token_runs", "", "such runs of the model, for a token each, in the recording"),
        *OF_GAPS,
    ),
)  # fmt: skip
_PROFILER = regex(r"torch/profiler/\w+\.py\(")
_STEPS = 3  # with two, neither is the odd one
_TIMES = 3  # steps of one program differ by less where what they do is alike


def _segments(context: Context) -> tuple[Ints, Ints]:
    """Segments of the ledger that are idle, and the row that each belongs to."""
    ledger = context.ledger
    segments = np.flatnonzero(ledger.idle)
    adjacent = segments - np.arange(len(segments))
    fresh = starts_run(adjacent, ledger.cause[segments], ledger.step[segments], ledger.row[segments])
    return segments, np.cumsum(fresh) - 1


def _bounds(context: Context) -> tuple[Ints, Ints, Ints]:
    """First segment of each row, its start and its length."""
    segments, row = context.once(_segments)
    count = int(row[-1]) + 1 if len(row) else 0
    head = segments[np.searchsorted(row, np.arange(count))]
    return head, context.ledger.start_ns[head], summed(row, context.ledger.dur_ns[segments], count)


def heads(context: Context) -> Ints:
    """First segment of the ledger of each row."""
    return context.once(_bounds)[0]


def _nodes(context: Context) -> Ints:
    """The node that the launching thread is in at the middle of each row; -1 for none."""
    host, (_, start, dur) = context.recording.host, context.once(_bounds)
    node = np.full(len(start), -1, np.int64)
    if not context.recording.has_host:
        return node
    middle = start + dur // 2
    threads = thread_of(context, launch_behind(context, start + dur), middle)
    for thread in distinct(threads).tolist():
        here = threads == thread
        node[here] = host.innermost(thread, middle[here])
    return node


def _turning(step: Ints, gap: Ints, length: Ints) -> Ints:
    """Length of the stretch of each part where its parts lie in several steps, else 0."""
    least, most = np.full(len(length), np.iinfo(np.int64).max), np.full(len(length), -1, np.int64)
    np.minimum.at(least, gap, step)
    np.maximum.at(most, gap, step)
    return np.where(least < most, length, 0)[gap]


def _lone(user: Ints, step: Ints, dur: Ints, host: Bools, steps: int) -> Bools:
    """Flag stretches of the *host*'s at a place of the *user*'s that takes three times as long in one step as in any other."""
    lone = np.zeros(len(user), np.bool_)
    here = np.flatnonzero(host & (step >= 0))
    if steps < _STEPS or not len(here):
        return lone
    keys, which = np.unique((user[here] + 1) * steps + step[here], return_inverse=True)
    total, place = summed(which, dur[here], len(keys)), keys // steps
    order = np.lexsort((total, place))
    last = np.append(place[order][1:] != place[order][:-1], True)
    most = order[last]
    second = np.zeros(len(most), np.int64)
    before = np.flatnonzero(last) - 1
    paired = (before >= 0) & (place[order[before]] == place[most])
    second[paired] = total[order[before[paired]]]
    lone[here] = np.isin(which, most[_TIMES * second < total[most]])
    return lone


def build(context: Context) -> Columns:
    """The frame of the busiest device; without a device, of the host's window."""
    ledger, host = context.ledger, context.recording.host
    segments, _ = context.once(_segments)
    head, start, dur = context.once(_bounds)
    count, gap = len(head), ledger.gap[head].astype(np.int64)
    stretches = int(gap.max()) + 1 if count else 0
    length = summed(ledger.gap[segments], ledger.dur_ns[segments], stretches)
    following = launch_behind(context, start + dur)
    owned = ledger.through("host", "operator")[head]
    node, step = context.once(_nodes), context.recording.step_of(start)
    python, computing, held, around, files = _meanwhile(context, following, start, dur, owned)
    holders = describe(context, held.holder)
    in_call = fetch(host.group, node) == RUNTIME
    # What an operator takes most of is the operator's, in whatever function it was called.
    op = fetch(host.attributes.op, node)
    acts = (op >= 0) & (fetch(host.group, op) == OP) & (2 * _within(context, op, start, start + dur) >= dur)
    place = np.where((held.holder >= 0) & ~acts, held.holder, node)
    # Where no functions were recorded, Python between two operators of one line is that line's.
    user = host.attributes.user
    bare = (fetch(user, place) < 0) & (op < 0) & (python < 0) & around.holds
    # Likewise inside a loader's wait: the loop's line has the whole of it, and the dataset's says where.
    loading = (ledger.cause[head] == CODE["loader"]) & around.holds & (fetch(host.group, node) != OP)
    loading &= fetch(host.start, around.before) >= fetch(host.start, node)
    same_line = (fetch(user, around.before) >= 0) & (fetch(user, around.before) == fetch(user, around.after))
    between = (bare | loading) & same_line
    place = np.where(between, around.after, place)
    frame = context.common(start=start, dur=dur, cost=dur.copy(), node=place, device=ledger.device)
    # The function that is named covers half of the stretch: what runs at its middle may be a moment of it.
    lasting = np.where(place == node, _covering(context, node, start, start + dur), place)
    own, library = fetch(user, lasting), fetch(host.attributes.library, lasting)
    if host.user_before is not None and host.library_before is not None:
        # The recorder found it in the pass that recorded stacks.
        found = bare & (fetch(host.user_before, around.after) >= 0)
        own = np.where(found, fetch(host.user_before, around.after), own)
        library = np.where(found, fetch(host.library_before, around.after), library)
    # What a call that writes files has half of is its line's.
    saving = (files.user >= 0) & (2 * files.ns >= dur)
    own, library = np.where(saving, files.user, own), np.where(saving, files.library, library)
    frame |= context.places(own, library)
    # So does the operator; where none covers half, the stretch is nobody's.
    acting = fetch(host.attributes.op, lasting)
    acting = np.where(between | (2 * _within(context, acting, start, start + dur) < dur), -1, acting)
    frame |= {
        "op": context.labels(fetch(host.name, acting), context.names),
        "cause": context.labels(ledger.cause[head], CAUSES),
        "gap_id": gap,
        "gap_ns": length[gap],
        "turning_ns": _turning(step, gap, length),
        "lone": _lone(own, step, dur, ledger.cause[head] == CODE["host"], len(context.recording.steps)),
        "position": context.labels(_position(context, start, start + dur, gap, stretches), ["first", "last", "inner"]),
        "next_op": context.labels(fetch(host.name, fetch(host.attributes.op, following)), context.names),
        "owner": context.labels(held.owner, OWNERS),
        "since_op": context.labels(fetch(host.name, around.before), context.names),
        "until_op": context.labels(fetch(host.name, around.after), context.names),
        "apart_ns": context.known(around.ns),
        "since_line": context.known(context.lines(around.before)),
        "until_line": context.known(context.lines(around.after)),
        "holder": holders.name,
        "holder_function": holders.function,
        "holder_calls": context.known(holders.calls),
        "holder_ns": context.known(holders.dur_ns),
        "held_ns": context.known(_within(context, held.holder, start, start + dur)),
        "holder_parts": holders.parts,
        "next_work_ns": context.known(_next_work(context, start + dur)),
        "phase": context.phase(node),
        "next_phase": context.phase(following),
        "reduces_gradients": in_a_loop(context, following),
        **idle_columns(context, start, dur, following),
        "unbroken": dynamic_sizes.unbroken(context, start, context.phases(node)),
        "startup": ledger.cause[head] == CODE["startup"],
        "call_ns": np.where(in_call, fetch(host.end, node) - fetch(host.start, node), 0),
        "written_ns": context.known(files.ns),
        "written_by": context.labels(files.label, files.labels),
        "freeing_ns": context.known(
            freeing_ns(context, start, start + dur) if "instant" in context.tables else start * 0 - 1
        ),
        "python_ns": context.known(python),
        "cpu_work_ns": computing,
        **_steps_python(context, own, dur, ledger.cause[head] == CODE["host"]),
        "copying_op": context.labels(_copying(context, head), context.names),
        "token_ns": covered(context.once(between_tokens), start, start + dur),
        "token_runs": np.full(count, len(context.once(token_runs)[0])),
        **of_gaps(context, start, dur, following),
    }
    return Columns({name: frame[name] for name in SCHEMA.names()})


def _copying(context: Context, head: Ints) -> Ints:
    """Name code of the operator whose wait for a copy of its own each segment of the ledger is; -1 for all others.

    Of one whose copies all go to the host, or all to the device, nothing says that it computes on the other side.
    """
    ledger, host, work, syncs = context.ledger, context.recording.host, context.recording.work, context.waits.syncs
    waited = ledger.through("blocking_copy", "sync")[head] & (ledger.row[head] >= 0)
    node = np.full(len(head), -1, np.int64)
    node[waited] = syncs.node[ledger.row[head][waited]]
    own = fetch(host.group, node) == OP
    if not own.any():
        return np.full(len(head), -1, np.int64)
    way = np.array([parse(name)[0] for name in context.names])[fetch(work.name, syncs.copy)]
    back, forth, unknown = (distinct(syncs.node[way == word]) for word in ("DtoH", "HtoD", "other"))
    through = np.union1d(np.intersect1d(back, forth), unknown)
    return np.where(own & np.isin(node, through), fetch(host.name, node), -1)


def _covering(context: Context, node: Ints, start: Ints, end: Ints) -> Ints:
    """The innermost node around each that covers half of its stretch; the outermost where none does."""
    host = context.recording.host
    found = node.copy()
    open_ = np.flatnonzero(node >= 0)
    while len(open_):
        here = found[open_]
        within = np.minimum(host.end[here], end[open_]) - np.maximum(host.start[here], start[open_])
        parent = host.parent[here]
        climbs = (2 * within < (end - start)[open_]) & (parent >= 0)
        open_, parent = open_[climbs], parent[climbs]
        found[open_] = parent
    return found


def _within(context: Context, node: Ints, start: Ints, end: Ints) -> Ints:
    """ns of each stretch that its node covers, -1 where there is none."""
    host = context.recording.host
    within = np.minimum(fetch(host.end, node), end) - np.maximum(fetch(host.start, node), start)
    return np.where(node >= 0, np.maximum(within, 0), -1)


def _next_work(context: Context, end: Ints) -> Ints:
    """Length of the GPU work that ends each stretch, -1 where there is none."""
    work, rows = context.recording.work, context.once(in_line)
    length = np.append(work.end[rows] - work.start[rows], -1)
    return length[np.searchsorted(work.start[rows], end, side="left")]


def _meanwhile(
    context: Context, following: Ints, start: Ints, dur: Ints, owned: Bools
) -> tuple[Ints, Ints, Stretches, Neighbours, Files]:
    """The ns of Python and CPU work of the launching thread; who held the host; the operators around the middle of each stretch;
    the ns in which files were written.

    Owners are found of the stretches that *owned* flags.
    """
    python, computing = np.full(len(start), -1, np.int64), np.zeros(len(start), np.int64)
    held = Stretches(python.copy(), python.copy())
    around = Neighbours(python.copy(), python.copy(), python.copy(), np.zeros(len(start), np.bool_))
    files = Files.of(context, len(start))
    threads = thread_of(context, following, start + dur // 2) if context.recording.has_host else following[:0]
    for thread in distinct(threads).tolist():
        here = threads == thread
        low, high = start[here], (start + dur)[here]
        python[here] = python_outside_operators(context, thread, low, high)
        computing[here] = computing_on_cpu(context, thread, low, high)
        found = find_owners(context, thread, low, high, owned[here])
        held.owner[here], held.holder[here] = found.owner, found.holder
        beside = neighbours(context, thread, low, high)
        around.before[here], around.after[here] = beside.before, beside.after
        around.ns[here], around.holds[here] = beside.ns, beside.holds
        files.fill(context, thread, np.flatnonzero(here), low, high)
    return python, computing, held, around, files


def _position(context: Context, start: Ints, end: Ints, gap: Ints, stretches: int) -> Ints:
    """0 for a stretch with which the window begins, 1 for one with which it ends, else 2."""
    low, high = (int(edge) for edge in context.recording.bounds[[0, -1]])
    first, last = np.full(stretches, high, np.int64), np.full(stretches, low, np.int64)
    np.minimum.at(first, gap, start)
    np.maximum.at(last, gap, end)
    return np.where(first[gap] == low, 0, np.where(last[gap] == high, 1, 2))


def computing_on_cpu(context: Context, thread: int, start: Ints, end: Ints) -> Ints:
    """For each span, the ns in which *thread* was in an operator that computes on the CPU (:mod:`advisor.timeline.tasks`)."""
    host, tasks = context.recording.host, context.waits.tasks
    ops = tasks[host.thread[tasks] == thread]
    return covered(union(host.start[ops], host.end[ops]), start, end)


def python_outside_operators(context: Context, thread: int, start: Ints, end: Ints) -> Ints:
    """For each span, the ns in which *thread* was in Python and in no operator or runtime call; -1 without Python calls.

    What runs inside an operator counts as the operator's: a custom autograd function, the wrapper of compiled code. The
    profiler's own Python is nobody's.
    """
    host = context.recording.host
    here = host.thread == thread
    calls = here & (host.group == PYTHON)
    if not calls.any():
        return np.full(len(start), -1, np.int64)
    operators = np.array([_PROFILER.search(name) is not None for name in context.names], np.bool_)[host.name]
    operators |= (host.group == OP) | (host.group == RUNTIME)
    return covered(subtract(_spans(host, calls), _spans(host, operators & here)), start, end)


def _spans(host: Host, chosen: Bools) -> Spans:
    """The union of the chosen nodes; those right inside another of them add nothing."""
    nodes = np.flatnonzero(chosen)
    above = host.parent[nodes]
    nodes = nodes[(above < 0) | ~chosen[above]]
    return union(host.start[nodes], host.end[nodes])


def _owned(context: Context) -> tuple[Ints, Ints]:
    return context.once(_segments)


def _steps_python(context: Context, user: Ints, dur: Ints, host: Bools) -> dict[str, Any]:
    """Of each stretch of the *host*'s, at a place of the user's, the part that each kind of Python takes that need not run again.

    The recorder looked at all of the steps: what it saw there is divided among the stretches at its place.
    """
    recorded, places = context.metadata.recorded, context.recording.host.places
    whole = sum(step.end - step.start for step in context.recording.steps)
    out: dict[str, Any] = {}
    for name, entry in (
        ("repeated_part", recorded.step_repeat if recorded is not None else None),
        ("draws_part", recorded.step_draws if recorded is not None else None),
    ):
        part = np.zeros(len(user))
        if entry is not None:
            known = np.array(
                [
                    one.file == entry.file and (one.line == entry.line or one.function == entry.function)
                    for one in places
                ]
                + [False],
                np.bool_,
            )
            here = host & known[np.where(user >= 0, user, -1)]  # what has no place: the last
            # The looks count the operators there as well.
            at = fetch(context.recording.host.attributes.user, context.op_rows)
            acting = int(context.ledger.cost(len(at), *OWNED)[known[np.where(at >= 0, at, -1)]].sum())
            part[here] = min(entry.share * whole / max(int(dur[here].sum()) + acting, 1), 1.0)
        out[name] = part
    entry = recorded.step_repeat if recorded is not None else None
    names = [entry.function if entry is not None else ""]
    return out | {"repeated_function": context.labels(np.where(out["repeated_part"] > 0, 0, -1), names)}


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("cause", "op", "next_op", COUNT, *TIME),
    rows=Rows(within=lambda context: context.once(_nodes), segments=owns_parts(_owned)),
    owns=owns_parts(_owned),
    parts=_owned,
    no_op=IN_PYTHON,
    slow=True,
)

"""Steps of a recording, and its ends: marked by the profiler's schedule, else found by what repeats in every iteration.

Work that was queued before the recording, and the tail behind the last work of the last step, belong to no step.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from msgspec import Struct

from advisor.intervals import Bools, Ints, fetch, union
from advisor.regex import regex
from advisor.timeline.calls import ANNOTATION, OP, PYTHON, RUNTIME, Host

MARK = "ProfilerStep#"
_NUMBER = regex(r"^ProfilerStep#(\d+)")
_OPTIMIZER = regex(r"^Optimizer\.step#(.+?)(?:\.step)?$")
_BATCH = regex(r"^enumerate\(DataLoader\)#\w+\.__next__")
# Iterations as engines name them: vLLM (execute_32_context_0(...)_generation_32(...), execute_model, of finer scopes the first),
# SGLang (step[DECODE bs=32]), TensorRT-LLM ([Executor] _forward_step 12: ...).
_ENGINE = regex(
    r"^(?:execute_(?:new_)?(?:context_)?\d|step\[[A-Z]+|(?:gpu_model_runner: )?execute_model$|gpu_model_runner: preprocess$"
    r"|(?:\[Executor\] )?_?forward_step\b)"
)
_COARSER = 2
# Optimizer steps of an iteration that has several, and how many times as far apart as the others the first of each lies.
_LEAST_GROUP, _APART = 3, 3.0
# A range that repeats is an iteration where it is at least so often there, and covers so much of the recording.
_LEAST_RANGES, _LEAST_COVERED = 3, 0.6
# Parts of a model repeat within an iteration.
_PARTS = regex(r"layer|block|attention|attn|mlp|expert|stage|head\b|CompiledFxGraph", re.IGNORECASE)
_LATE_SHARE = 0.10
# Host work that lasts so many times the window of the GPU's work is the program; the window would hide it.
_HOST_TIMES = 2
_PROFILER = regex(r"(?:\S*/)?torch/(?:autograd/)?profiler|<built-in")
_SYNC = regex(r"Synchronize|^(?:cuda|hip)Memcpy")
# Calls that give back what a program held: behind its last work it takes itself down.
_TEARDOWN = regex(r"Free|Destroy|Unload|Unregister|Unmap|Release|DeviceReset")
# A tail is the recording's own from here on, or from a tenth of the step.
_TAIL_NS = 1_000_000
_LIKE = 9  # so many of the last steps say what tail is theirs
# A wait that ends within this of its call has nothing to drain.
_LEAST_DRAIN_NS, _SURE_DRAIN_NS = 100_000, 1_000_000
# Pageable copies are staged by the host at 1 GB/s or faster: a copy that takes longer waited for something else.
_STAGED_NS_A_BYTE = 1.0


class Step(Struct):
    """One iteration on the host: a ProfilerStep, or what was found to mark one."""

    name: str
    number: int
    start: int
    end: int


class Recording(Protocol):
    """Part of a recording that says where its steps are."""

    names: list[str]
    tables: Any

    @property
    def zero_ns(self) -> int: ...
    @property
    def host(self) -> Host: ...
    @property
    def work(self) -> Any: ...
    @property
    def window(self) -> tuple[int, int]: ...
    @property
    def steps(self) -> list[Step]: ...
    @property
    def marked(self) -> list[Step]: ...
    @property
    def last_work(self) -> int: ...
    def bytes_of(self, index: int) -> int | None: ...


def marked(recording: Recording) -> list[Step]:
    """ProfilerStep#N on the host, by start. Their copies on the GPU's side (gpu_user_annotation) are none."""
    steps: list[Step] = []
    codes = [code for code, name in enumerate(recording.names) if name.startswith(MARK)]
    for group in ("annotation", "op"):
        table = recording.tables.get(group)
        if table is None or not codes:
            continue
        rows = np.flatnonzero(np.isin(table["name"], codes))
        if not len(rows):
            continue
        columns = (table[key][rows].tolist() for key in ("name", "ts", "dur"))
        for code, begun, dur in zip(*columns, strict=True):
            name = recording.names[code]
            number = _NUMBER.match(name)
            if number:
                start = begun - recording.zero_ns
                steps.append(Step(name, int(number[1][:15]), start, start + max(dur, 0)))
    return sorted(steps, key=lambda step: (step.start, step.number))


def found(recording: Recording) -> tuple[list[Step], str]:
    """Steps of a trace without ProfilerStep, and what marks them in words; none and '' where nothing repeats.

    By optimizers, else batches, else an engine's annotations, else a range that repeats; but where another mark is twice as
    coarse or more, it wins: a program with two optimizers of one class steps twice a batch.
    """
    host = recording.host
    if not host.size:
        return [], ""
    low, high = recording.window
    ways = [way for way in (_optimizers(recording), _batches(recording), _engines(recording)) if way is not None]
    if not ways and (way := _ranges(recording)) is not None:
        ways = [way]
    if not ways:
        return [], ""
    chosen = ways[0]
    for way in ways[1:]:
        if _COARSER * len(way[1]) <= len(chosen[1]):
            chosen = way
    label, starts, end = chosen
    if label.startswith("Optimizer"):
        edges = [min(low, int(host.start.min())), *starts.tolist()]  # a step ends with its last optimizer
    else:
        edges = [*starts.tolist(), end]
    # A first step may begin before the window: with the host's work for its first kernel.
    pairs = [(a, min(b, high)) for a, b in pairwise(edges)]
    pairs = [(a, b) for a, b in pairs if b > max(a, low)]
    if len(pairs) < 2:
        return [], ""
    return [Step(label, -1, a, b) for a, b in pairs], label


Way = tuple[str, Ints, int]
"""Label, the marks' times (of optimizers their ends, else starts), and the end of the last mark."""


def _nodes(recording: Recording, pattern: re.Pattern[str]) -> Ints:
    """Annotations and operators whose names match, in order of start."""
    host = recording.host
    codes = [code for code, name in enumerate(recording.names) if pattern.match(name)]
    if not codes:
        return np.zeros(0, np.int64)
    nodes = np.flatnonzero(np.isin(host.name, codes) & ((host.group == OP) | (host.group == ANNOTATION)))
    marks = np.zeros(host.size, np.bool_)
    marks[nodes] = True
    nodes = nodes[host.above(nodes, marks) < 0]  # engines nest theirs
    return nodes[np.argsort(host.start[nodes], kind="stable")]


def _optimizers(recording: Recording) -> Way | None:
    """Ends of runs of distinct optimizers: the same optimizer again is the next step."""
    host, nodes = recording.host, _nodes(recording, _OPTIMIZER)
    if len(nodes) < 2:
        return None
    ends: list[int] = []
    seen: set[int] = set()
    last = 0
    for node in nodes.tolist():
        if int(host.name[node]) in seen:
            ends.append(last)
            seen = set()
        seen.add(int(host.name[node]))
        last = int(host.end[node])
    ends.append(last)
    if len(ends) < 2:
        return None
    classes = sorted(
        {match[1] for node in nodes.tolist() if (match := _OPTIMIZER.match(recording.names[host.name[node]]))}
    )
    label, marks = f"Optimizer.step of {', '.join(classes[:3])}"[:100], np.array(ends, np.int64)
    each, grouped = _groups(marks) if not len(_nodes(recording, _BATCH)) else (1, marks)
    return (f"{label}, {each} to an iteration" if each > 1 else label), grouped, int(grouped[-1])


def _groups(ends: Ints) -> tuple[int, Ints]:
    """Return the number of an optimizer's steps that an iteration holds, and the iterations' ends; 1 and *ends* where each is one.

    Reinforcement learning collects, then steps a number of times: every so many steps lie far apart, and no others do. Where
    batches come from a loader, what comes every so many steps is an epoch's end.
    """
    between = np.diff(ends)
    far = np.flatnonzero(between > _APART * np.median(between)) if len(between) else between
    # One long step among the others may be anything; it is none of these if it is not half as long.
    far = far[2 * between[far] >= np.median(between[far])] if len(far) else far
    gaps = np.diff(far)
    if len(far) < 2 or gaps[0] < _LEAST_GROUP or (gaps != gaps[0]).any():
        return 1, ends
    each, first = int(gaps[0]), int(far[0]) % int(gaps[0])
    if len(far) == len(range(first, len(between), each)):
        return each, ends[first::each]
    return 1, ends


def _batches(recording: Recording) -> Way | None:
    """Waits for a batch of the iterator that gives most of them; the last finds no batch, and nothing is done with it."""
    host, nodes = recording.host, _nodes(recording, _BATCH)
    launch = recording.work.launch
    acts = host.start[launch[launch >= 0]]
    acts = acts if len(acts) else host.start[host.group == OP]
    return _starts(recording, nodes[host.start[nodes] < (int(acts.max()) if len(acts) else 0)], "DataLoader")


def _engines(recording: Recording) -> Way | None:
    """Iterations as a serving engine annotates them, on the thread that has most."""
    host, nodes = recording.host, _nodes(recording, _ENGINE)
    if len(nodes) < 2:
        return None
    threads, counts = np.unique(host.thread[nodes], return_counts=True)
    nodes = nodes[host.thread[nodes] == threads[np.argmax(counts)]]
    if len(nodes) < 2:
        return None
    return "the engine's annotations", host.start[nodes], int(host.end[nodes].max())


def _starts(recording: Recording, nodes: Ints, label: str) -> Way | None:
    host = recording.host
    if len(nodes) < 2:
        return None
    names, counts = np.unique(host.name[nodes], return_counts=True)
    nodes = nodes[host.name[nodes] == names[np.argmax(counts)]]
    if len(nodes) < 2:
        return None
    return label, host.start[nodes], recording.last_work


def _ranges(recording: Recording) -> Way | None:
    """An annotation of one name that repeats on the launching thread, inside nothing that repeats, and covers most of it."""
    host = recording.host
    nodes = np.flatnonzero((host.group == ANNOTATION) & (host.thread == host.launching_thread()))
    # Nor inside an operator or a module: these are parts of a model.
    inner = np.array([name.startswith("nn.Module: ") for name in recording.names], np.bool_)[host.name]
    nodes = nodes[host.above(nodes, inner | (host.group == OP)) < 0]
    if len(nodes) < _LEAST_RANGES:
        return None
    low, high = recording.window
    names, counts = np.unique(host.name[nodes], return_counts=True)
    best: Ints | None = None
    covering = _LEAST_COVERED * (high - low)
    for code in names[counts >= _LEAST_RANGES].tolist():
        if _PARTS.search(recording.names[code]):
            continue
        here = nodes[host.name[nodes] == code]
        start, end = np.clip(host.start[here], low, high), np.clip(host.end[here], low, high)
        length = int((end - start).sum())
        # On one thread they are in order of start.
        if (start[1:] >= end[:-1]).all() and length > covering:
            best, covering = here, length
    if best is None:
        return None
    return f"the range {recording.names[host.name[best[0]]][:60]}", host.start[best], int(host.end[best].max())


# ---- the ends


def host_span(recording: Recording) -> tuple[int, int] | None:
    """First and last moment of the host's recorded work, where it is over twice the window; else None.

    A program whose GPU did one short kernel is not that kernel. What it takes to end it is in the span, and does not make it.
    """
    low, high = recording.window
    nodes, last = _program(recording)
    host = recording.host
    own = nodes[host.start[nodes] < last]
    if union(host.start[own], host.end[own]).length <= _HOST_TIMES * (high - low):
        return None
    return min(low, int(host.start[nodes].min())), max(high, int(host.end[nodes].max()))


def end_of_program(recording: Recording) -> int:
    """End of the last operator, call or GPU work where the host's span is judged; calls that only take it down are behind."""
    return max(recording.window[1], _program(recording)[1])


def _program(recording: Recording) -> tuple[Ints, int]:
    """The operators and calls of the host, but for waits; and when the last of them ends that is no teardown."""
    host = recording.host
    if not host.size:
        return np.zeros(0, np.int64), recording.window[1]
    nodes = np.flatnonzero((host.group == OP) | (host.group == RUNTIME))
    called = host.group[nodes] == RUNTIME
    nodes = nodes[~(called & _named(recording, _SYNC)[host.name[nodes]])]
    own = nodes[~_takes_down(recording, nodes)]
    return nodes, int(host.end[own].max()) if len(own) else recording.window[0]


def _takes_down(recording: Recording, nodes: Ints) -> Bools:
    """Flag calls that only give back what the program held."""
    host = recording.host
    flags: Bools = (host.group[nodes] == RUNTIME) & _named(recording, _TEARDOWN)[host.name[nodes]]
    return flags


def _named(recording: Recording, pattern: re.Pattern[str]) -> Bools:
    """Flags of the names that match, by name code."""
    return np.array([pattern.search(name) is not None for name in recording.names], np.bool_)


def first_moment(recording: Recording, low: int) -> int:
    """End of what the program queued before the recording: drained by a first wait, or run before its own first work."""
    work, host = recording.work, recording.host
    if not len(work) or not host.size:
        return low
    linked = np.flatnonzero(work.launch >= 0)
    if not len(linked):
        return low
    until = low
    calls = host.start[work.launch[linked]]
    first_launch = int(calls.min())
    own = int(work.start[linked].min())
    foreign = np.flatnonzero((work.launch < 0) & (work.start < own))
    if len(foreign) and 2 * len(linked) >= len(work):
        until = max(until, min(int(work.end[foreign].max()), own))
        if until < first_launch and until < own:
            until = min(first_launch, own) if not recording.steps else until
    return max(until, _drained(recording, low, first_launch))


def _drained(recording: Recording, low: int, first_launch: int) -> int:
    """End of a first wait that the device fills with work of before; *low* where there is none.

    Nothing of the recording runs in such a wait, and what was launched by then begins when it ends: the device was busy with
    work that is not in the trace.
    """
    work, host = recording.work, recording.host
    codes = [code for code, name in enumerate(recording.names) if _SYNC.search(name)]
    nodes = host.lasting((host.group == RUNTIME) & (host.end > low), _LEAST_DRAIN_NS)
    nodes = nodes[np.isin(host.name[nodes], codes)]
    if not len(nodes):
        return low
    node = int(nodes[np.argmin(host.start[nodes])])
    start, end = int(host.start[node]), int(host.end[node])
    mine = np.flatnonzero(work.launch == node)
    if not len(mine) and start < first_launch:
        # Nothing of the recording was launched by then. A short one far behind the beginning may be the call's own time.
        return end if end - start >= _SURE_DRAIN_NS or start - low <= end - start else low
    if end - start < _SURE_DRAIN_NS:
        return low
    early = (work.launch >= 0) & (host.start[np.maximum(work.launch, 0)] <= start)
    begun = work.start[early & (work.start >= start)]
    if not len(begun) or (early & (work.end - work.start > (end - start) // 10) & (work.start < start)).any():
        return low
    until = int(begun.min())
    if until - start < (end - start) // 2 or ((work.start > start) & (work.start < until)).any():
        return low
    size = recording.bytes_of(int(mine[0])) if len(mine) else 0
    # A pageable copy is staged by the host before it starts.
    return until if size is not None and until - start > max(_SURE_DRAIN_NS, _STAGED_NS_A_BYTE * size) else low


def last_moment(recording: Recording, high: int) -> int:
    """End of the last operator, call or GPU work of the last step, where the tail behind that is the recording's own.

    A tail as every step has it is part of the step: Python between two iterations. So is a tail that more recorded work
    follows: the recording did not end there.
    """
    steps = recording.steps
    if not steps:
        return high
    end = max(step.end for step in steps)
    acts = _acts(recording)
    work = _ends_of_work(recording, acts)
    if recording.marked and _goes_on(recording, acts, end):
        return max(end, min(work(steps[-1].start, end + 1, high), high))
    last = min(max(work(steps[-1].start, end + 1, high), steps[-1].start), high)
    reach = max(end, last) if len(recording.work) else end
    tail, length = min(reach, high) - last, max(end - steps[-1].start, 1)
    if high - max(last, end) > 0:
        # What is launched behind the last step (an evaluation, a checkpoint) or stands alone there is none of it.
        high = max(last, end)
    recent = steps[-_LIKE:]
    others = [
        max(after.start - max(work(before.start, after.start, after.start), before.start), 0)
        for before, after in pairwise(recent)
    ]
    like = 2 * sorted(others)[len(others) // 2] if others else 0
    short = tail <= min(_TAIL_NS, length // 10) if not others else tail <= max(like, length // 100)
    return high if short else last


def _acts(recording: Recording) -> Ints:
    """Operators, calls, functions and annotations of the host, but for steps and waits.

    A wait ends with the work that it waits for, which counts by itself; the profiler's own at the end is nobody's.
    """
    host = recording.host
    if not host.size:
        return np.zeros(0, np.int64)
    marks = np.array([name.startswith(MARK) or _SYNC.search(name) is not None for name in recording.names], np.bool_)
    return np.flatnonzero((host.group != 0) & ~marks[host.name])


def _goes_on(recording: Recording, acts: Ints, end: int) -> bool:
    """Tell whether operators, calls or annotations among *acts* begin behind a moment: more than a program's teardown."""
    host = recording.host
    later = acts[(host.start[acts] >= end) & (host.group[acts] != PYTHON)]
    return bool((~_takes_down(recording, later)).any())


def _ends_of_work(recording: Recording, acts: Ints) -> Callable[[int, int, int], int]:
    """A function of a step's start and end: the end of the last operator, call or GPU work of it, or its start.

    GPU work counts that the host launched in the step, whenever it ran, up to a limit.
    """
    work, host = recording.work, recording.host
    called = np.where(work.launch >= 0, fetch(host.start, work.launch), work.start)
    frames = np.flatnonzero(host.group == PYTHON) if host.size else acts
    profiler = np.array([_PROFILER.match(name) is not None for name in recording.names], np.bool_)

    def python(start: int, end: int) -> int:
        """Return the end of the functions that a step calls from *start* on: its own Python, not the profiler's."""
        begun = frames[(host.start[frames] >= start) & (host.end[frames] < end)]
        above = host.parent[begun]
        outer = begun[(above < 0) | (host.start[above] < start)]
        outer = outer[~profiler[host.name[outer]]]
        return int(host.end[outer].max()) if len(outer) else start

    def until(start: int, end: int, limit: int) -> int:
        inside = acts[(host.start[acts] < end) & (host.end[acts] > start)]
        own = (called >= start) & (called < end)
        ends = [start]
        if len(inside):
            ends.append(min(int(host.end[inside].max()), end))
        if own.any():
            ends.append(min(int(work.end[own].max()), limit))
        # Where nothing but the steps themselves was recorded, they are what there is.
        return python(max(ends), end) if len(acts) or len(work) else end

    return until


def runs_ahead(launched: Ints, ran: Ints, time: Ints, steps: int) -> bool:
    """Tell whether the host runs ahead: much of the GPU's time is in a later step than its launch, or most of most steps' is.

    One long copy in some steps must not hide that all the others' work runs later.
    """
    if time.sum() == 0:
        return False
    late: Bools = ran > launched
    if time[late].sum() > _LATE_SHARE * time.sum():
        return True
    inside = launched >= 0
    own = np.bincount(launched[inside], time[inside], steps)
    later = np.bincount(launched[inside & late], time[inside & late], steps)
    working = own > 0
    return bool(np.median(later[working] / own[working]) > 0.5) if working.any() else False

"""Batches of a serving engine as columns: phase, sequences and tokens of each, and the calls and the GPU work that are its."""

from __future__ import annotations

import re

import numpy as np
from msgspec import Struct

from advisor.intervals import Bools, Ints, Spans, distinct, fetch, narrow, union
from advisor.timeline.calls import RUNTIME
from advisor.timeline.context import Context
from advisor.timeline.engines import DECODE, DIFFUSION, DRAFTING, MIXED, PREFILL, REST, SAMPLING, iterations

PHASES = (PREFILL, DECODE, MIXED, DIFFUSION)
_LEAST_LAUNCHES = 20
"""Launches from which on a batch without a replay runs its model eagerly: fewer are a model that is not seen to run."""


class Batches(Struct, frozen=True):
    """Batches in order of start on the host.

    *node* is the forest node of the annotation, *phase* a code of ``PHASES``; *sequences*, *tokens* and *context*, the length of
    all that decode, are -1 where the name does not tell. *launches* counts the calls in it that launched work, *replays* those
    that replay a graph, with those whose work was not recorded. *of_work* has the batch that launched each piece of GPU work, in
    its annotation or behind it (to sample, to draft), -1 for none; *drafts* and *samples* flag what drafts tokens, and what
    chooses them, by the engine's own names of these parts.
    """

    node: Ints
    engine: tuple[str, ...]
    phase: Ints
    sequences: Ints
    tokens: Ints
    context: Ints
    launches: Ints
    replays: Ints
    of_work: Ints
    drafts: Bools
    samples: Bools

    @property
    def eager(self) -> Bools:
        """Flags of the batches that launch their kernels one by one: many launches, and no replay."""
        flags: Bools = (self.replays == 0) & (self.launches >= _LEAST_LAUNCHES)
        return flags

    def is_in(self, phase: str) -> Bools:
        """Flags of the batches of a phase."""
        flags: Bools = self.phase == PHASES.index(phase)
        return flags


def batches(context: Context) -> Batches:
    """Batches of a recording; none where no engine annotated any."""
    found, work = context.once(iterations), context.recording.work
    size, of_nodes = len(found), context.once(_of_nodes)
    inside, behind = fetch(of_nodes, work.launch), context.once(_behind)

    def counted(nodes: Ints) -> Ints:
        batch = fetch(of_nodes, nodes)
        return np.bincount(batch[batch >= 0], minlength=size)

    def numbers(values: list[int | None]) -> Ints:
        return np.array([-1 if value is None else value for value in values], np.int64)

    return Batches(
        node=np.array([iteration.node for iteration in found], np.int64),
        engine=tuple(iteration.batch.engine for iteration in found),
        phase=np.array([PHASES.index(iteration.batch.phase) for iteration in found], np.int64),
        sequences=numbers([iteration.batch.sequences for iteration in found]),
        tokens=numbers([iteration.batch.tokens for iteration in found]),
        context=numbers([iteration.batch.context for iteration in found]),
        launches=counted(distinct(work.launch[inside >= 0])),
        replays=counted(context.graph_nodes),
        of_work=np.where(inside >= 0, inside, fetch(behind, work.launch)),
        drafts=_launched_in(context, DRAFTING),
        samples=_launched_in(context, SAMPLING),
    )


def batch_of_nodes(context: Context, nodes: Ints) -> Ints:
    """Batch whose annotation is around each forest node; -1 for none, and for no node."""
    return fetch(context.once(_of_nodes), nodes)


def annotated(context: Context) -> Spans:
    """Time on the host that batches cover: their annotations, and what the engine says that it does behind these."""
    host = context.recording.host
    node = np.append(context.once(batches).node, np.flatnonzero(context.once(_rest) >= 0))
    return union(host.start[node], host.end[node])


def _of_nodes(context: Context) -> Ints:
    """Batch that each forest node lies in, -1 for none."""
    host, found = context.recording.host, context.once(iterations)
    mark = np.full(host.size, -1, np.int32)
    if not found:
        return narrow(mark)
    mark[[iteration.node for iteration in found]] = np.arange(len(found))
    return host.flow(mark)


def _named(context: Context, pattern: re.Pattern[str]) -> Bools:
    """Flag the forest nodes of ranges and Python functions of such a name."""
    host, names = context.recording.host, context.names
    codes = [code for code, name in enumerate(names) if pattern.search(name)]
    flags: Bools = np.isin(host.name, codes) & (host.group != RUNTIME)
    return flags


def _rest(context: Context) -> Ints:
    """Batch that each node is the rest of, by its name: the last before it on its thread; -1 for all others."""
    host, found = context.recording.host, context.once(iterations)
    out = np.full(host.size, -1, np.int32)
    nodes = np.flatnonzero(_named(context, REST)) if found else np.zeros(0, np.int64)
    nodes = nodes[context.once(_of_nodes)[nodes] < 0]
    out[nodes] = _before(context, nodes, [iteration.batch.engine == "vLLM" for iteration in found])
    return narrow(out)


def _behind(context: Context) -> Ints:
    """Batch behind whose annotation each call is made: before the next one on its thread, or in what is named as its rest."""
    host, found = context.recording.host, context.once(iterations)
    if not found:
        return context.once(_rest)
    out = host.flow(context.once(_rest).astype(np.int32))
    calls = np.flatnonzero((host.group == RUNTIME) & (out < 0) & (context.once(_of_nodes) < 0))
    chosen = [iteration.batch.phase != DIFFUSION for iteration in found]
    out[calls] = _before(context, calls, chosen, between=True)
    return narrow(out)


def _launched_in(context: Context, part: re.Pattern[str]) -> Bools:
    """Flag the GPU work that is launched in ranges and functions of such a name; none where no engine annotated a batch."""
    launch = context.recording.work.launch
    if not context.once(iterations):
        return np.zeros(len(launch), np.bool_)
    inside = context.recording.host.flow(np.where(_named(context, part), 1, -1).astype(np.int32))
    flags: Bools = fetch(inside, launch, 0) > 0
    return flags


def _before(context: Context, nodes: Ints, chosen: list[bool], *, between: bool = False) -> Ints:
    """The last *chosen* batch whose annotation ends before each node, on its thread; *between*: and behind which one begins."""
    host, found = context.recording.host, context.once(iterations)
    out = np.full(len(nodes), -1, np.int64)
    batch = np.flatnonzero(np.array(chosen, np.bool_))
    node = np.array([found[at].node for at in batch.tolist()], np.int64)
    for thread in distinct(host.thread[node]).tolist():
        own, mine = batch[host.thread[node] == thread], np.flatnonzero(host.thread[nodes] == thread)
        ends, at = host.end[node[host.thread[node] == thread]], host.start[nodes[mine]]
        last = np.searchsorted(ends, at, side="right") - 1
        fits = (last >= 0) & ((last < len(own) - 1) | (not between))
        out[mine[fits]] = own[last[fits]]
    return out

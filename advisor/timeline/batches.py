"""Batches of a serving engine as columns: phase, sequences and tokens of each, and the calls and the GPU work that are its."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.intervals import Bools, Ints, Spans, distinct, fetch, narrow, union
from advisor.timeline.context import Context
from advisor.timeline.engines import DECODE, DIFFUSION, MIXED, PREFILL, iterations

PHASES = (PREFILL, DECODE, MIXED, DIFFUSION)
_LEAST_LAUNCHES = 20
"""Launches from which on a batch without a replay runs its model eagerly: fewer are a model that is not seen to run."""


@dataclass(frozen=True)
class Batches:
    """Batches in order of start on the host.

    *node* is the forest node of the annotation, *phase* a code of ``PHASES``; *sequences* and *tokens* are -1 where the name
    does not tell. *launches* counts the calls in it that launched work, *replays* those that replay a graph, with those whose
    work was not recorded. *of_work* has the batch that launched each piece of GPU work, -1 for none.
    """

    node: Ints
    engine: tuple[str, ...]
    phase: Ints
    sequences: Ints
    tokens: Ints
    launches: Ints
    replays: Ints
    of_work: Ints

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
    of_work = fetch(of_nodes, work.launch)

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
        launches=counted(distinct(work.launch[of_work >= 0])),
        replays=counted(context.graph_nodes),
        of_work=of_work,
    )


def batch_of_nodes(context: Context, nodes: Ints) -> Ints:
    """Batch whose annotation is around each forest node; -1 for none, and for no node."""
    return fetch(context.once(_of_nodes), nodes)


def annotated(context: Context) -> Spans:
    """Time on the host that the annotations cover."""
    host, node = context.recording.host, context.once(batches).node
    return union(host.start[node], host.end[node])


def _of_nodes(context: Context) -> Ints:
    """Batch that each forest node lies in, -1 for none."""
    host, found = context.recording.host, context.once(iterations)
    mark = np.full(host.size, -1, np.int32)
    if not found:
        return narrow(mark)
    mark[[iteration.node for iteration in found]] = np.arange(len(found))
    return host.flow(mark)

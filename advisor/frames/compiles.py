"""`compiles`: what torch.compile does while the program runs: compilations, compiled regions, and graph breaks between them.

A compiled frame runs inside the annotation ``Torch-Compiled Region: N/k``: N numbers the code object, k how often it had
been compiled before. A frame without a break runs one graph; a region inside another region is what dynamo made of
the rest of a frame behind a break (or of a function that it could not take in). A value that is read back inside a region
and outside its graphs is a break, too: what is behind it runs eagerly, up to the next region.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from advisor.columns import Columns
from advisor.frames.frame import COUNT, TIME, Frame
from advisor.frames.schema import COMMON, Schema, flag, integer, text
from advisor.intervals import Bools, Ints, covered, distinct, fetch, summed, union, without
from advisor.regex import regex
from advisor.timeline.calls import ANNOTATION, BACKWARD, OP, PYTHON
from advisor.timeline.context import Context
from advisor.timeline.variants import Variants, first_of
from advisor.timeline.waits import nodes_by_name

SCHEMA = Schema(
    "compiles",
    "a compilation, a run of a compiled region, or a graph break before one",
    (
        *COMMON,
        text("kind", "compilation (the first of its code), recompilation (of code that was compiled before), region (a "
             "run of compiled code), graph-break (the eager stretch before a region inside a region; or from the graph before "
             "a value that is read back to the next operator)"),
        text("region", "N/k: code object and how often it was compiled before; NULL where the trace does not say"),
        integer("recompiles", "", "k of it; NULL where the trace does not say"),
        flag("bounded", "a recompilation that ends by itself, and is start-up: after eight of one code Dynamo gives up and runs it "
             "eagerly, and none of the recording's is beyond that"),
        integer("idle_ns", "ns", "what of it the device idles; of a program on the CPU all of it"),
        text("reason", "graph-break: the first operator of the stretch outside graphs and compiling; NULL where none ran"),
        flag("backward", "part of a backward pass"),
    ),
)  # fmt: skip
KINDS = ("compilation", "recompilation", "region", "graph-break")
_COMPILATION, _RECOMPILATION, _REGION, _BREAK = range(4)
_GRAPHS = regex(r"^(?:Torch-Compiled Region|CompiledFunction$|## Call CompiledFxGraph)")
_PLUMBING = regex(
    r"^(?:TorchDynamo Cache Lookup|Pregraph bytecode|AOTDispatcher|Torch-Compiled Region|CompiledFunction$|## Call CompiledFxGraph)"
)
_READS = regex(r"^aten::(?:item|is_nonzero|_local_scalar_dense)$")
_GRAPH_RUNS = regex(r"^(?:CompiledFunction$|## Call CompiledFxGraph)")
_RESUMES = regex(r": torch_dynamo_resume_in_")
_NONE = np.zeros(0, np.int64)


class _Rows:
    """Rows in the making, in order: compilations first, then regions with the breaks among them."""

    def __init__(self, context: Context) -> None:
        self.context, self.host = context, context.recording.host
        self.compilations = context.waits.compile
        variants = Variants(context.recording, self.compilations)
        self.ids, regions = variants.ids, variants.regions
        self.regions = regions
        outer = self._around(regions)
        broken = outer >= 0
        begin, end = self.host.start[regions].copy(), self.host.end[regions].copy()
        begin[broken] = self._last_graph(regions[broken], outer[broken])
        end[broken] = self.host.start[regions[broken]]
        number = len(self.compilations.start)
        reads, inside, since, until = self._reads()
        kinds = [np.full(number, _COMPILATION), np.where(broken, _BREAK, _REGION), np.full(len(reads), _BREAK)]
        self.kind = np.concatenate(kinds).astype(np.int64)
        self.start = np.concatenate([self.compilations.start, begin, since])
        self.end = np.concatenate([self.compilations.end, np.maximum(begin, end), until])
        self.node = np.concatenate([self.compilations.node, regions, reads])
        of_regions = variants.of_name[self.host.name[np.concatenate([regions, inside])]]
        self.region = np.concatenate([variants.compiled, of_regions])
        self.recompiles = fetch(variants.earlier, self.region)
        self.kind[:number] += self.recompiles[:number] > 0
        self.bounded = np.concatenate([variants.bounded, np.zeros(len(self.kind) - number, np.bool_)])

    def _around(self, nodes: Ints) -> Ints:
        """The region that each node runs in, -1 for none."""
        return self.host.above(nodes, np.isin(np.arange(self.host.size), self.regions))

    def _last_graph(self, nodes: Ints, outer: Ints) -> Ints:
        """End of the last compiled graph before each region, inside the region around it; else the start of that."""
        host = self.host
        graphs = nodes_by_name(self.context.recording, _GRAPHS, (OP, ANNOTATION))
        last = host.start[outer].copy()
        for thread in distinct(host.thread[nodes]).tolist():
            here = host.thread[nodes] == thread
            ends = np.sort(host.end[graphs[host.thread[graphs] == thread]])
            at = np.searchsorted(ends, host.start[nodes[here]], side="right") - 1
            last[here] = np.maximum(last[here], np.where(at >= 0, ends[np.maximum(at, 0)], 0))
        return last

    @cached_property
    def _operators(self) -> Ints:
        """Operators that are none of the compiler's own, by start."""
        plumbing = np.array([_PLUMBING.match(name) is not None for name in self.context.names], np.bool_)
        nodes = np.flatnonzero(self.host.group == OP)
        nodes = nodes[~plumbing[self.host.name[nodes]]]
        return nodes[np.argsort(self.host.start[nodes], kind="stable")]

    def _reads(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Values read back in a region outside its graphs, that region, the end of the graph before, the start of what follows.

        Of several in a row the first stands for all. The stretch ends with the region that the next one follows, at the latest
        where that begins its first operator.
        """
        host = self.host
        reads = nodes_by_name(self.context.recording, _READS, (OP,))
        outer = self._around(reads)
        graphs = nodes_by_name(self.context.recording, _GRAPH_RUNS, (OP, ANNOTATION))
        in_graph = host.above(reads, np.isin(np.arange(host.size), graphs)) >= 0
        reads, outer = reads[(outer >= 0) & ~in_graph], outer[(outer >= 0) & ~in_graph]
        if not len(reads):
            return _NONE, _NONE, _NONE, _NONE
        since = self._last_graph(reads, outer)
        once = np.unique(np.stack([host.thread[reads], since]), axis=1, return_index=True)[1]
        reads, outer, since = reads[once], outer[once], since[once]
        others = without(self._operators, nodes_by_name(self.context.recording, _READS, (OP,)))
        others = others[np.argsort(host.start[others], kind="stable")]
        behind = np.maximum(host.end[reads], since)
        following = first_of(self.host, others, host.thread[reads], behind, np.full(len(reads), np.iinfo(np.int64).max))
        next_region = self._around(following)
        until = np.where((following >= 0) & (next_region >= 0), host.start[following], host.end[outer])
        return reads, outer, since, np.maximum(until, behind)

    def segments(self) -> tuple[Ints, Ints]:
        """Segments of the ledger that rows own, with the rows: compile time, and idle that lies mostly in a break."""
        ledger = self.context.ledger
        compiling = np.flatnonzero(ledger.through("compile"))
        waiting = np.flatnonzero(ledger.through("host", "operator"))
        breaks = np.flatnonzero(self.kind == _BREAK)
        breaks = breaks[np.argsort(self.start[breaks], kind="stable")]
        if ledger.device < 0 or not len(breaks) or not len(waiting):
            return compiling, ledger.row[compiling]
        start, end = ledger.start_ns[waiting], ledger.end_ns[waiting]
        at = np.searchsorted(self.start[breaks], (start + end) // 2, side="right") - 1
        row = breaks[np.maximum(at, 0)]
        common = np.minimum(end, self.end[row]) - np.maximum(start, self.start[row])
        inside = (at >= 0) & (2 * common > end - start)
        return (
            np.concatenate([compiling, waiting[inside]]),
            np.concatenate([ledger.row[compiling], row[inside]]),
        )

    def places(self) -> Ints:
        """The node that tells where each row is: behind a break, the frame that dynamo made of the rest of the function."""
        node = self.node.copy()
        breaks = np.flatnonzero(self.kind == _BREAK)
        resumes = nodes_by_name(self.context.recording, _RESUMES, (PYTHON,)) if len(breaks) else _NONE
        if len(resumes):
            first = np.full(self.host.size + 1, -1, np.int64)  # the last for what runs in none
            first[self._around(resumes)[::-1]] = resumes[::-1]
            inside = first[self.node[breaks]]
            node[breaks] = np.where(inside >= 0, inside, self.node[breaks])
        return node

    def reasons(self) -> Ints:
        """Name code of the first operator that ran in each break outside a graph, -1 for none."""
        host, out = self.host, np.full(len(self.kind), -1, np.int64)
        breaks = np.flatnonzero(self.kind == _BREAK)
        if not len(breaks):
            return out
        ops = self._operators
        compiling = union(self.compilations.start, self.compilations.end)  # what compiling runs is no reason for it
        ops = ops[covered(compiling, host.start[ops], host.start[ops] + 1) == 0]
        first = first_of(self.host, ops, host.thread[self.node[breaks]], self.start[breaks], self.end[breaks])
        out[breaks] = fetch(host.name, first)
        return out


def breaks_each(context: Context) -> float | None:
    """Graph breaks of a step (in all, without steps) outside backward passes; None without a region."""
    rows = context.once(_Rows)
    if not len(rows.regions):
        return None
    breaks = (rows.kind == _BREAK) & (context.phases(rows.node) != BACKWARD)
    return int(breaks.sum()) / context.recording.step_count


def build(context: Context) -> Columns:
    """The frame."""
    if not context.recording.has_host or not context.recording.host.size:
        return _empty(context)
    rows = context.once(_Rows)
    segments, row = rows.segments()
    cost = summed(row, context.ledger.dur_ns[segments], len(rows.kind))
    frame = context.common(start=rows.start, dur=rows.end - rows.start, cost=cost, node=rows.places())
    idle = context.idle_during(rows.start, rows.end) if context.device >= 0 else rows.end - rows.start
    frame |= {
        "kind": context.labels(rows.kind, KINDS),
        "region": context.labels(rows.region, rows.ids),
        "recompiles": context.known(rows.recompiles),
        "bounded": rows.bounded,
        "idle_ns": idle,
        "reason": context.labels(rows.reasons(), context.names),
        "backward": context.phases(rows.node) == BACKWARD,
    }
    return Columns(frame)


def _empty(context: Context) -> Columns:
    frame = context.common(start=_NONE, dur=_NONE, cost=_NONE, node=_NONE)
    frame |= dict.fromkeys(("kind", "region", "reason"), context.labels(_NONE, KINDS))
    frame |= {"recompiles": context.known(_NONE), "idle_ns": _NONE}
    frame |= dict.fromkeys(("bounded", "backward"), np.zeros(0, np.bool_))
    return Columns(frame).pick(SCHEMA.names())


def _claims(context: Context, mask: Bools) -> Ints:
    """Compile time, and the host's idle time that lies mostly in a break."""
    if not len(mask):
        return _NONE
    segments, row = context.once(_Rows).segments()
    return segments[mask[row]]


FRAME = Frame(SCHEMA, build, evidence=("kind", "region", "reason", COUNT, *TIME), owns=_claims)

"""First layer of a model that takes far longer than its like: library loading and first calls, of which start-up is a part.

Many calls of microseconds take a few times as long at first: none of them is start-up by itself. What the layers after it take,
which launch the same, tells how much they come to.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from advisor.intervals import Ints, Spans, covered, distinct, union
from advisor.regex import regex
from advisor.results.first_layer import FirstLayer
from advisor.timeline.calls import PYTHON
from advisor.timeline.context import Context

_MODULE = regex(r"^nn\.Module: (.+)_\d+$")
_FEWEST, _TIMES = 4, 2
"""Layers of one class, and times as long as the others that the first takes."""
_ALIKE = 0.1
"""Of its launches: by how much those of the first layer may differ from the others', plus one."""
_LEAST = 0.05
"""Of the recording: what the first takes beyond the others that is worth a line."""


class _Layers(NamedTuple):
    """Layers that one module calls, in order of start: forest nodes, ns on the host without waits, and launches."""

    nodes: Ints
    ns: Ints
    launches: Ints

    @property
    def usual_ns(self) -> int:
        """The median of all but the first."""
        return int(np.median(self.ns[1:]))

    @property
    def excess_ns(self) -> int:
        """Time of the first beyond that."""
        return int(self.ns[0]) - self.usual_ns

    @property
    def cold(self) -> bool:
        """True where the first takes far longer, and launches what the others do."""
        usual = float(np.median(self.launches[1:]))
        alike = usual > 0 and abs(float(self.launches[0]) - usual) <= _ALIKE * usual + 1
        return alike and int(self.ns[0]) >= _TIMES * self.usual_ns


def first_layer(context: Context) -> FirstLayer | None:
    """Find the layers whose first takes most beyond the others; None where that is little, and what later passes have as well."""
    host, (low, high) = context.recording.host, context.recording.extent
    passes: dict[int, list[_Layers]] = {}
    for code, nodes in _groups(context):
        passes.setdefault(code, []).append(_layers(context, nodes))
    cold = [first for first, *later in passes.values() if first.cold and not any(one.cold for one in later)]
    layers = max(cold, key=lambda one: one.excess_ns, default=None)
    if layers is None or layers.excess_ns < _LEAST * (high - low):
        return None
    ledger = context.ledger
    steady = ledger.counted & ledger.idle
    idle = covered(
        union(ledger.start_ns[steady], ledger.end_ns[steady]), host.start[layers.nodes], host.end[layers.nodes]
    )
    return FirstLayer(
        name=context.names[host.name[layers.nodes[0]]].removeprefix("nn.Module: "),
        ms=float(layers.ns[0]) / 1e6,
        others=len(layers.nodes) - 1,
        other_ms=layers.usual_ns / 1e6,
        counted_ms=max(float(idle[0] - np.median(idle[1:])), 0.0) / 1e6,
    )


def _groups(context: Context) -> list[tuple[int, Ints]]:
    """List the modules of one class that a module calls, each time that it does, in order of time; with a code of the class."""
    host = context.recording.host
    numbers: dict[str, int] = {}
    of_name = np.full(max(len(context.names), 1), -1, np.int64)
    for code, name in enumerate(context.names):
        if match := _MODULE.match(name):
            of_name[code] = numbers.setdefault(match[1], len(numbers))
    modules = (of_name[host.name] >= 0) & (host.group == PYTHON)
    nodes = np.flatnonzero(modules)
    above, kind = host.above(nodes, modules), of_name[host.name[nodes]]
    nodes, above, kind = nodes[above >= 0], above[above >= 0], kind[above >= 0]
    order = np.lexsort((host.start[nodes], kind, above))
    edges = np.flatnonzero((np.diff(above[order]) != 0) | (np.diff(kind[order]) != 0)) + 1
    groups = [(int(kind[at[0]]), nodes[at]) for at in np.split(order, edges) if len(at) >= _FEWEST]
    return sorted(groups, key=lambda one: int(host.start[one[1][0]]))


def _layers(context: Context, nodes: Ints) -> _Layers:
    """Measure layers of one call: what their thread waits for the device in them is left out."""
    host = context.recording.host
    waits, launches = context.once(_of_threads)[int(host.thread[nodes[0]])]
    start, end = host.start[nodes], host.end[nodes]
    count = np.searchsorted(launches, end) - np.searchsorted(launches, start)
    return _Layers(nodes, end - start - covered(waits, start, end), count)


def _of_threads(context: Context) -> dict[int, tuple[Spans, Ints]]:
    """Return when each thread waits for the device, and when it launches."""
    host, syncs, launch = context.recording.host, context.waits.syncs, context.recording.work.launch
    called = distinct(launch[launch >= 0])
    of_wait, of_call = host.thread[syncs.node], host.thread[called]
    return {
        thread: (
            union(syncs.start[of_wait == thread], syncs.end[of_wait == thread]),
            np.sort(host.start[called[of_call == thread]]),
        )
        for thread in distinct(host.thread).tolist()
    }

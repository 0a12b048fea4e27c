"""Variants of compiled code: which code each compilation made, the how manieth of it, and whether that ends by itself.

Dynamo numbers them N/k: N is the code object, k how often it had been compiled before.
"""

from __future__ import annotations

import numpy as np

from advisor.intervals import Bools, Ints, distinct, fetch
from advisor.regex import regex
from advisor.timeline.calls import ANNOTATION, OP, Host
from advisor.timeline.recording import Recording
from advisor.timeline.waits import Waits, nodes_by_name

MOST = 8
"""Variants of one code object after which Dynamo gives it up and runs it eagerly (torch._dynamo.config.recompile_limit)."""
_REGIONS = regex(r"^Torch-Compiled Region")
_IDS = regex(r"(?:Region: |compile_id=)(\d+/\d+)")
_IN_ANNOTATION = regex(r"compile_id=\d+/\d+")
_RIGHT_AFTER_NS = 10_000_000


class Variants:
    """Variants that a recording names, and which of them each compilation made."""

    def __init__(self, recording: Recording, compilations: Waits) -> None:
        self.recording, self.compilations = recording, compilations
        self.ids: list[str] = []
        self.of_name = self._of_names()
        """By name code, the place in ``ids`` of the variant that stands in the name; -1 for none."""
        self.regions = nodes_by_name(recording, _REGIONS, (OP, ANNOTATION))
        self.compiled = self._compiled()
        """By compilation, the place in ``ids``; -1 where the trace does not say."""
        self.earlier = np.array([int(label.partition("/")[2][:9]) for label in self.ids], np.int64)
        self.bounded = self._bounded()
        """By compilation, whether it is one of a few of its code, after which Dynamo gives that up."""

    def _of_names(self) -> Ints:
        names = self.recording.names
        codes = np.full(max(len(names), 1), -1, np.int64)
        known: dict[str, int] = {}
        for code, name in enumerate(names):
            if ("Region: " in name or "compile_id=" in name) and (match := _IDS.search(name)):
                codes[code] = known.setdefault(match[1], len(known))
        self.ids = list(known)
        return codes

    def _compiled(self) -> Ints:
        """Variant of each compilation: of the annotations inside it, else of the region that runs right after it."""
        host, spans = self.recording.host, self.compilations
        named = nodes_by_name(self.recording, _IN_ANNOTATION, (OP, ANNOTATION))
        thread = host.thread[spans.node]
        inside = first_of(host, named, thread, spans.start, spans.end)
        behind = first_of(host, self.regions, thread, spans.end, spans.end + _RIGHT_AFTER_NS)
        return fetch(self.of_name, fetch(host.name, np.where(inside >= 0, inside, behind)))

    def _bounded(self) -> Bools:
        """Flag recompilations in a recording none of whose code runs, or is compiled, in more variants than Dynamo keeps."""
        ran = distinct(self.of_name[self.recording.host.name[self.regions]])
        most = max(
            int(self.earlier[ran[ran >= 0]].max(initial=0)) + 1, int(fetch(self.earlier, self.compiled).max(initial=0))
        )
        again: Bools = fetch(self.earlier, self.compiled) > 0
        return again & (most <= MOST)


def first_of(host: Host, nodes: Ints, thread: Ints, low: Ints, high: Ints) -> Ints:
    """The first of *nodes* that begins on a thread from *low* to before *high*, for each row; -1 for none."""
    out = np.full(len(low), -1, np.int64)
    for number in distinct(thread).tolist():
        here, candidates = thread == number, nodes[host.thread[nodes] == number]
        node = np.append(candidates, -1)[np.searchsorted(host.start[candidates], low[here])]
        out[here] = np.where(host.start[node] < high[here], node, -1)
    return out

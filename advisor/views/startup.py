"""Start-up as the summary tells it: by kind, with the operator or call that most of each lies in."""

from __future__ import annotations

import numpy as np

from advisor.intervals import fetch, summed
from advisor.results.analysis import StartupPart
from advisor.timeline.context import Context
from advisor.timeline.startup_table import KINDS


def startup_parts(context: Context) -> list[StartupPart]:
    """Start-up by kind, the longest first: what of it the device idles."""
    ledger, table, host = context.ledger, context.waits.startup, context.recording.host
    segments = np.flatnonzero(ledger.through("startup") & (ledger.row >= 0))
    if not len(segments):
        return []
    cost = summed(ledger.row[segments], ledger.dur_ns[segments], len(table.start))
    parts = []
    for kind in np.unique(table.kind[cost > 0]).tolist():
        rows = np.flatnonzero((table.kind == kind) & (cost > 0))
        nodes = table.node[rows]
        # A call stands for the operator that it was made in.
        operator = fetch(host.attributes.op, nodes) if host.size else nodes
        named = np.where(operator >= 0, operator, nodes)
        codes = fetch(host.name, named) if host.size else nodes
        heavy = {code: int(cost[rows[codes == code]].sum()) for code in np.unique(codes[codes >= 0]).tolist()}
        where = max(heavy, key=lambda code: heavy[code]) if heavy else -1
        named_ns = heavy.get(where, 0)
        if 2 * named_ns < int(cost[rows].sum()):
            where = -1
        parts.append(
            StartupPart(
                kind=KINDS[kind],
                ms=float(cost[rows].sum()) / 1e6,
                where=context.names[where] if where >= 0 else None,
                where_ms=named_ns / 1e6 if where >= 0 else None,
            )
        )
    return sorted(parts, key=lambda part: -part.ms)

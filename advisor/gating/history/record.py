"""Adding a run to a history: its figures as the gate compares them, and the series that it goes on."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from itertools import chain

import msgspec

from advisor.errors import UsageError
from advisor.gating.alike import unlike
from advisor.gating.baseline import MOST_BYTES, Baseline, differences, dump
from advisor.gating.history.store import Entry, Runs, Store
from advisor.privacy import excerpt
from advisor.views.metrics import METRICS

LONGEST = 300
"""Characters of a commit's or a branch's name at most."""
LEVEL = 6
"""Level of compression of what is kept of a recording."""


def add(store: Store, base: Baseline, commit: str, branch: str, at_ms: int) -> str:
    """Add a run, and return the reason why it begins a series of its own: empty where it goes on one that there is."""
    for option, text in (("--commit", commit), ("--branch", branch)):
        if not text.strip() or len(text) > LONGEST or not text.isprintable():
            raise UsageError(f"{option}: give a name of 1 to {LONGEST} printable characters")
    if base.digest:
        raise UsageError("the baseline is not as it was written (its digest differs): make it anew")
    figures = figures_of(base)
    if not figures:
        raise UsageError("the recording has no figure of a step: record it with steps")
    runs = store.runs() if store.exists() else None
    series, reason = _series(store, runs, base)
    store.add(
        Entry(
            at=at_ms,
            commit=commit,
            branch=branch,
            series=series,
            advisor=base.advisor,
            runs=base.runs,
            steps=sum(base.steps),
            names=list(figures),
            figures=list(figures.values()),
            baseline=zlib.compress(dump(base), LEVEL),
        )
    )
    return reason


def figures_of(base: Baseline) -> dict[str, float]:
    """Return the one figure of each metric that the gate compares: over the steps of all runs."""
    samples = {name: [*chain(*series.runs)] for name, series in base.metrics.items()}
    return {
        metric.name: metric.summed_up(samples[metric.source])
        for metric in METRICS.values()
        if samples.get(metric.source)
    }


def unpack(packed: bytes) -> Baseline:
    """Read what the store keeps of a run. Raises ``UsageError``."""
    try:
        engine = zlib.decompressobj()
        content = engine.decompress(packed, MOST_BYTES)
        if not engine.eof:
            raise UsageError("a run of the history is larger than a baseline can be")
        return msgspec.json.decode(content, type=Baseline)
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"a run of the history cannot be read: {excerpt(str(error), LONGEST)}") from error


def not_alike(base: Baseline, other: Baseline) -> list[str]:
    """List the reasons why two runs are not of one series; empty where they are."""
    return differences(base.fingerprint, other.fingerprint) + unlike(base.work, other.work)


def representatives(store: Store, runs: Runs) -> dict[str, Baseline]:
    """Return the first run of each series, in the order in which they began."""
    first: dict[str, str] = {}
    for series, number in zip(runs.series, runs.ids, strict=True):
        first.setdefault(series, number)
    packed: Mapping[str, bytes] = store.baselines(list(first.values()))
    return {series: unpack(packed[number]) for series, number in first.items() if number in packed}


def _series(store: Store, runs: Runs | None, base: Baseline) -> tuple[str, str]:
    """Return the series that a run goes on, else a new one and the reason: how it differs from the newest before it."""
    reason = ""
    if runs is not None:
        known = representatives(store, runs)
        newest = dict.fromkeys(reversed(runs.series))
        for series in newest:
            if series not in known:
                continue
            reasons = not_alike(known[series], base)
            if not reasons:
                return series, ""
            reason = reason or "; ".join(reasons)
    facts = msgspec.json.encode([base.fingerprint, base.work], order="deterministic")
    return hashlib.sha256(facts).hexdigest()[:16], reason

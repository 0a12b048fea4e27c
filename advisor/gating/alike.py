"""Alike or not: reasons why two recordings are of different work, so that none of their figures is comparable.

The batch and the sizes of a model are taken from recorded settings and from the shapes of layers. Thread blocks of kernels
alone only hint at them: where shapes are not recorded, the answer is *perhaps*, and still none on the figures.
"""

from __future__ import annotations

from collections import Counter
from statistics import median

from advisor.results.samples import Layer, Work

_FACTS = {
    "phase": "the program was in {}, and is in {}",
    "precision": "the precision was {}, and is {}",
    "framework": "the framework was {}, and is {}",
    "compiler": "its code was {}, and is {}",
}
_OTHER_SIZE = 0.10
_MOST = 0.8
_GROWN = 1.5
_NEAR = 0.1


def unlike(base: Work | None, now: Work | None) -> list[str]:
    """List the reasons why two recordings are of different work; empty where they are alike, or nothing tells."""
    if base is None or now is None:
        return []
    reasons = [
        words.format(was, is_now)
        for name, words in _FACTS.items()
        if (was := getattr(base, name)) and (is_now := getattr(now, name)) and was != is_now
    ]
    batch = _batch(base, now)
    if base.weights and now.weights and abs(now.weights / base.weights - 1) > _OTHER_SIZE:
        reasons.append(
            f"the model's size changed: a step's layers hold {base.weights / 1e6:,.4g} → {now.weights / 1e6:,.4g} "
            "million weights"
        )
    elif not batch and not reasons:
        batch = _sizes(base, now) if base.layers and now.layers else _perhaps(base, now)
    return [*([batch] if batch else []), *reasons]


def _changed(what: str, was: float, is_now: float, source: str) -> str:
    """Say ``the batch doubled (32 → 64, …)``."""
    ratio = is_now / was
    verb = "doubled" if ratio == 2 else "halved" if ratio == 0.5 else "grew" if ratio > 1 else "shrank"
    return f"{what} {verb} ({was:g} → {is_now:g}, {source})"


def _batch(base: Work, now: Work) -> str:
    """Say how the batch changed; empty where it did not, or nothing tells."""
    if base.batch and now.batch and base.batch != now.batch:
        return _changed("the batch", base.batch, now.batch, "as recorded")
    pairs: Counter[tuple[int, int]] = Counter()
    total = 0
    for name, layer in base.layers.items():
        other = now.layers.get(name)
        leads = [_leads(side) for side in (layer, other)] if other is not None else []
        if any(len(lead) != 1 for lead in leads) or not leads:
            continue  # batches of several sizes
        total += 1
        pairs[min(leads[0]), min(leads[1])] += 1
    grown = {pair: count for pair, count in pairs.items() if pair[0] != pair[1]}
    if not grown or sum(grown.values()) < _MOST * total:
        return ""
    ratios = [after / before for (before, after), count in grown.items() for _ in range(count)]
    common = median(ratios)
    if sum(abs(ratio - common) <= 1e-9 for ratio in ratios) < _MOST * total:
        return ""
    (before, after), _ = max(grown.items(), key=lambda item: (item[1], -item[0][0]))
    return _changed("the batch", before, after, "the first size of what its layers take in")


def _leads(layer: Layer) -> set[int]:
    return {dims[0] for dims in layer.inputs if dims}


def _sizes(base: Work, now: Work) -> str:
    """Say how the inputs changed beside the batch; empty where they did not, or vary within a recording."""
    pairs = [
        (layer.inputs[0], other.inputs[0])
        for name, layer in base.layers.items()
        if (other := now.layers.get(name)) is not None and len(layer.inputs) == len(other.inputs) == 1
    ]
    changed = [pair for pair in pairs if pair[0] != pair[1]]
    if not changed or 2 * len(changed) < len(pairs):
        return ""  # a classifier behind a pooling takes in the same at any size
    before, after = ("x".join(map(str, dims)) for dims in max(changed))
    return f"the sizes of its inputs changed ({before} → {after})"


def _perhaps(base: Work, now: Work) -> str:
    """Say how the batch may have changed, by the thread blocks of kernels that are called as often."""
    if base.batch and base.batch == now.batch:
        return ""
    ratios = []
    for name, (calls, blocks) in ((name, row) for name, row in base.grids.items() if len(row) == 2):
        other = now.grids.get(name, [])
        if len(other) == 2 and blocks > 0 and calls > 0 and abs(other[0] / calls - 1) <= _NEAR:
            ratios.append(other[1] / blocks)
    if len(ratios) < 2 or len(ratios) < 0.5 * len(base.grids):
        return ""
    common = median(ratios)
    near = sum(abs(ratio / common - 1) <= _NEAR for ratio in ratios) if common > 0 else 0
    if near < _MOST * len(ratios) or 1 / _GROWN < common < _GROWN:
        return ""
    verb = "doubled" if abs(common - 2) < 0.1 else "halved" if abs(common - 0.5) < 0.03 else "changed"
    return (
        f"perhaps the batch {verb}: the same kernels launch {common:.3g} times the thread blocks; record shapes to tell"
    )

"""Alike or not: reasons why two recordings are of different work, so that none of their figures is comparable.

The batch and the sizes of a model are taken from recorded settings and from the shapes of layers. Thread blocks of kernels
alone only hint at them: where shapes are not recorded, the answer is *perhaps*, and still none on the figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from advisor.results.samples import Layer, Work

_FACTS = {
    "phase": "the program was in {}, and is in {}",
    "precision": "the precision was {}, and is {}",
    "framework": "the framework was {}, and is {}",
    "compiler": "its code was {}, and is {}",
}
_SURE = "the batch"
_SERVING = "inference"
"""The phase of whatever does not train; of some programs more is known, so that it differs from none of those."""
_OTHER_SIZE = 0.10
_MOST = 0.8
_GROWN = 1.5
_NEAR = 0.1
_UNITS = (1e3, 1e6)
_ABOUT = 3.0
_ALL_INPUTS = 12
"""Sizes of inputs that are kept of a layer at most."""


def unlike(base: Work | None, now: Work | None) -> list[str]:
    """List the reasons why two recordings are of different work; empty where they are alike, or nothing tells."""
    if base is None or now is None:
        return []
    reasons = [
        words.format(was, is_now)
        for name, words in _FACTS.items()
        if (was := getattr(base, name)) and (is_now := getattr(now, name)) and _differ(was, is_now)
    ]
    growth = _batch(base, now)
    batch = str(growth) if growth else ""
    if not batch and (
        part := _part(*({name: layer.calls for name, layer in side.layers.items()} for side in (base, now)))
    ):
        batch = part
    elif base.weights and now.weights and abs(now.weights / base.weights - 1) > _OTHER_SIZE:
        reasons.append(
            f"the model's size changed: a step's layers hold {base.weights / 1e6:,.4g} → {now.weights / 1e6:,.4g} "
            "million weights"
        )
    elif not batch and not reasons:
        batch = _sizes(base, now) if base.layers and now.layers else _perhaps(base, now)
    return [*([batch] if batch else []), *reasons]


def _differ(was: str, is_now: str) -> bool:
    """Tell two facts apart; training is neither inference nor a phase of it."""
    return was != is_now and (_SERVING not in (was, is_now) or "training" in (was, is_now))


def batches(base: Work | None, now: Work | None) -> tuple[float, float] | None:
    """Return the samples a step on both sides where they differ, and that is sure; None else."""
    if base is None or now is None:
        return None
    growth = _batch(base, now)
    sure = growth is not None and growth.what == _SURE and growth.before > 0 and growth.after > 0
    return (growth.before, growth.after) if growth is not None and sure else None


class _Growth(NamedTuple):
    """Samples a step on both sides, where they differ: ``what`` says if that is sure, ``source`` how it is known."""

    what: str
    before: float
    after: float
    source: str

    def __str__(self) -> str:
        """Say ``the batch doubled (32 → 64, …)``."""
        ratio = self.after / self.before
        verb = "doubled" if ratio == 2 else "halved" if ratio == 0.5 else "grew" if ratio > 1 else "shrank"
        return f"{self.what} {verb} ({self.before:g} → {self.after:g}, {self.source})"


def _batch(base: Work, now: Work) -> _Growth | None:
    """Find how the batch changed; None where it did not, or nothing tells."""
    if base.batch and now.batch and base.batch != now.batch:
        return _Growth(_SURE, base.batch, now.batch, "as recorded")
    leads = [
        (_leads(layer), _leads(other))
        for name, layer in base.layers.items()
        if (other := now.layers.get(name)) is not None and layer.inputs and other.inputs
    ]
    alone = [(min(was), min(is_now)) for was, is_now in leads if len(was) == len(is_now) == 1]
    return _common(alone, _SURE) or (None if len(alone) > len(leads) / 2 else _largest(base, now))


def _largest(base: Work, now: Work) -> _Growth | None:
    """Find how the largest batch changed where a recording holds several sizes, as the last one of an epoch is smaller.

    Where any size comes, as of sentences, the largest one of a few steps is chance: it must be far from what it was.
    """
    pairs = [
        (max(_leads(layer)), max(_leads(other)))
        for name, layer in base.layers.items()
        if (other := now.layers.get(name)) is not None
        and all(_leads(side) and len(side.inputs) < _ALL_INPUTS for side in (layer, other))
    ]
    far = sum(max(pair) >= _GROWN * min(pair) for pair in pairs)
    return _common(pairs, f"perhaps {_SURE}") if far >= _MOST * len(pairs) else None


def _common(pairs: Sequence[tuple[int, int]], what: str) -> _Growth | None:
    """Find how the batch changed by the first sizes of layers' inputs before and now; None unless most agree."""
    total = len(pairs)
    grown = Counter(pair for pair in pairs if pair[0] != pair[1])
    if not grown or sum(grown.values()) < _MOST * total:
        return None
    ratios = [after / before for (before, after), count in grown.items() for _ in range(count)]
    common = median(ratios)
    if sum(abs(ratio - common) <= 1e-9 for ratio in ratios) < _MOST * total:
        return None
    (before, after), _ = max(grown.items(), key=lambda item: (item[1], -item[0][0]))
    return _Growth(what, before, after, "the first size of what its layers take in")


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
    called = [{name: row[0] for name, row in side.grids.items() if len(row) == 2} for side in (base, now)]
    if part := _part(*called):
        return f"perhaps {part}"
    if base.batch and base.batch == now.batch:
        return ""
    ratios = _ratios_of_blocks(base, now)
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


def _ratios_of_blocks(base: Work, now: Work) -> list[float]:
    """Return how many times as many blocks kernels launch that are called about as often."""
    ratios = []
    for name, (calls, blocks) in ((name, row) for name, row in base.grids.items() if len(row) == 2):
        other = now.grids.get(name, [])
        if len(other) == 2 and blocks > 0 and calls > 0 and abs(other[0] / calls - 1) <= _NEAR:
            ratios.append(other[1] / blocks)
    return ratios


def part_of(base: Mapping[str, float], now: Mapping[str, float]) -> list[str]:
    """List the reason why a step may hold a part of what it held, by the calls of operators in it; empty where it may not."""
    reason = _part(base, now)
    return [f"perhaps {reason}"] if reason else []


def _part(base: Mapping[str, float], now: Mapping[str, float]) -> str:
    """Say that all is called less often in a step, by the same share: an iteration is then more than one step now.

    Whatever is called more often by a share is more work of a step, and that is what the gate is for.
    """
    ratios = [now[name] / calls for name, calls in base.items() if calls > 0 and now.get(name)]
    if len(ratios) < 2 or len(ratios) < _MOST * len(base):
        return ""
    common = median(ratios)
    near = sum(abs(ratio / common - 1) <= _NEAR for ratio in ratios)
    if near < _MOST * len(ratios) or common > 1 / _GROWN:
        return ""
    return f"a step is a part of one now: all that it calls it calls {common:.2g} times as often; is it still one iteration?"


def in_other_units(base: Mapping[str, float], now: Mapping[str, float]) -> list[str]:
    """List the reason why times may be in another unit: the step and its parts all take about 1,000 times as long, or as short."""
    ratios = [now[name] / ms for name, ms in base.items() if ms > 0 and now.get(name, 0.0) > 0]
    for unit in _UNITS:
        for factor in (unit, 1 / unit):
            if len(ratios) > 1 and all(1 / _ABOUT < ratio / factor < _ABOUT for ratio in ratios):
                return [f"perhaps its times are in another unit: the step and its parts take {factor:g} times as long"]
    return []

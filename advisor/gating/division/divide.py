"""The difference of two recordings, divided: parts of the program that add up to it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from advisor.gating.division import clock, lines, reasons
from advisor.gating.division.change import Change
from advisor.gating.division.families import WORK
from advisor.gating.division.noise import half_width
from advisor.gating.division.pairing import Pair, pair
from advisor.gating.division.side import Side
from advisor.results.division import Division, Part, Unit
from advisor.results.sites import Site, Sites

_CAUSE = 1 / 3
"""Share of what leads, the same work that takes longer, from which on work of another kind comes before it."""
_OTHER_WORK = frozenset({"type", "shape", "layout", "operator", "kernel", "calls", "appeared", "vanished"})
_SMALL = 0.002
"""Share of all changes' absolute values below which a part is not listed."""
_MOST = 60
_FEW_STEPS = 4


def divide(before: Sites, after: Sites, batch: tuple[float, float] | None = None) -> Division:
    """Divide what *after* takes longer than *before*; a sample where the *batch*, samples a step on either side, differs."""
    on_cpu = not before.device and not after.device and not _has_gpu(before) and not _has_gpu(after)
    factors = (1.0, 1.0) if batch is None else (1 / batch[0], 1 / batch[1])
    pairs = pair(before.sites, after.sites)
    changes = [
        Change(Side(found.before, factors[0], on_cpu), Side(found.after, factors[1], on_cpu), found.same_unit)
        for found in pairs
    ]
    other_device = _vendor_free(before.device) != _vendor_free(after.device)
    modules = (_modules(before.sites), _modules(after.sites))
    for change in changes:
        reasons.find(
            change, other_device=other_device, absent=lambda path, new: _absent(path, modules[0 if new else 1])
        )
    ratio = None if other_device else clock.find(changes)
    sides = [
        math.fsum(site.ms for site in side.sites) * factor
        for side, factor in ((before, factors[0]), (after, factors[1]))
    ]
    step_ms = max(sides) if batch else sides[0]
    parts = [
        lines.part_of(group, step_ms=step_ms, devices=(before.device, after.device), ratio=ratio, on_cpu=on_cpu)
        for group in lines.together(changes)
    ]
    whole = Change(Side(tuple(before.sites), factors[0]), Side(tuple(after.sites), factors[1]), True)
    width = half_width(whole.before, whole.after)
    kept, other, hidden = _listed(parts, whole.ms if abs(whole.ms) > (width or 0.0) else 0.0)
    return Division(
        per=_unit(before, after, batch),
        before_ms=sides[0],
        after_ms=sides[1],
        change_ms=sides[1] - sides[0],
        noise_ms=width,
        steps=(before.steps, after.steps),
        batch=batch,
        parts=kept,
        other_ms=other,
        other_parts=hidden,
        earlier_ms=(before.earlier_ms, after.earlier_ms),
        startup_ms=(before.startup_ms, after.startup_ms),
        paired_share=_paired(pairs),
        whole=before.whole and after.whole,
        notes=_notes(before, after),
    )


def _modules(sites: Sequence[Site]) -> set[str]:
    """Return all modules of a side, with those around them."""
    found: set[str] = set()
    for path in {site.module for site in sites if site.module}:
        names = path.split("/")
        found |= {"/".join(names[: depth + 1]) for depth in range(len(names))}
    return found


def _absent(path: str, known: set[str]) -> str:
    """Return the outermost module of a path that is not among those *known*; empty where all are, or none is known at all."""
    names = path.split("/") if path and known else []
    return next((outer for depth in range(len(names)) if (outer := "/".join(names[: depth + 1])) not in known), "")


def _has_gpu(side: Sites) -> bool:
    return any(
        site.cause in ("copy", "memset") or (site.cause == "compute" and site.kernel != site.op) for site in side.sites
    )


def _vendor_free(device: str) -> str:
    """Return the name of a device as far as it tells devices apart."""
    return " ".join(device.split()).lower()


def _unit(before: Sites, after: Sites, batch: tuple[float, float] | None) -> Unit:
    if batch is not None:
        return "sample"
    return "step" if before.steps and after.steps else "window"


def _listed(parts: Sequence[Part], change: float) -> tuple[list[Part], float, int]:
    """Return the parts to list, the change of the others, and how many they are.

    Those beyond noise come first, and of them those that made the step what it is: with the sign of its *change*, where that is
    beyond noise too.
    """
    ordered = sorted(
        parts, key=lambda part: (not part.real, part.change_ms * change < 0, -abs(part.change_ms), part.label)
    )
    # What the program does in another way may be why the same work beside it takes longer, and is never that work's effect.
    lead = ordered[0] if ordered else None
    if lead is not None and lead.real and lead.reason == "slower":
        ordered.sort(
            key=lambda part: (
                not (part.real and part.reason in _OTHER_WORK and part.change_ms / lead.change_ms >= _CAUSE)
            )
        )
    total = math.fsum(abs(part.change_ms) for part in ordered)
    kept = [part for part in ordered if part.real or abs(part.change_ms) >= _SMALL * total][:_MOST]
    rest = [part for part in ordered if part not in kept]
    return kept, math.fsum(part.change_ms for part in rest), len(rest)


def _paired(pairs: Sequence[Pair]) -> float | None:
    """Return the share of the device's time that is paired; None where the device did nothing."""

    def busy(sites: Sequence[Site]) -> float:
        return sum(site.busy_ms for site in sites if site.cause in WORK)

    total = sum(busy(found.sites) for found in pairs)
    both = sum(busy(found.sites) for found in pairs if found.before and found.after)
    return both / total if total else None


def _notes(before: Sites, after: Sites) -> list[str]:
    notes = []
    few = [side.steps for side in (before, after) if 0 < side.steps < _FEW_STEPS]
    if few:
        notes.append(
            "with one step on a side no noise is known: take small parts for nothing"
            if 1 in few
            else f"{min(few)} steps on a side tell little of noise: the intervals are as wide as that"
        )
    if not before.whole:
        notes.append("the baseline keeps the heaviest of its program: what it merged is paired by kind of work")
    return notes

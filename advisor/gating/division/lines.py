"""Lines of a division: changes of one reason put together, with a label that says where they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence

from advisor.gating.division.change import Change
from advisor.gating.division.digest import FOLDERS
from advisor.gating.division.families import WORK, family_of, unit_of
from advisor.gating.division.noise import beyond, half_width, steady
from advisor.gating.division.side import merged
from advisor.gating.division.words import words
from advisor.results.division import Part
from advisor.results.sites import Site

_PARTS = 6
_EVERYWHERE = frozenset({"loader", "host", "unknown"})
"""Reasons of waits that any program may have: where one side has none, it costs nothing there."""
_SMALL = 0.05
"""Share of a line's change below which a part of it is not listed."""
_TAIL = 2
_LABEL = 160


def together(changes: Sequence[Change]) -> list[list[Change]]:
    """Put changes of the same reason together, the heaviest of each first."""
    groups: dict[Hashable, list[Change]] = {}
    for change in changes:
        groups.setdefault(change.key, []).append(change)
    return [sorted(group, key=lambda change: -abs(change.ms)) for group in groups.values()]


def part_of(
    group: Sequence[Change],
    *,
    step_ms: float,
    devices: tuple[str, str],
    ratio: float | None,
    on_cpu: bool,
    nested: bool = False,
) -> Part:
    """Return changes of one reason as a part, with the heaviest of them below it."""
    first = group[0]
    whole = first
    if len(group) > 1:
        whole = Change(merged(c.before for c in group), merged(c.after for c in group), first.same_unit)
        whole.reason, whole.key = first.reason, first.key
    alone = len(group) == 1
    width = half_width(whole.before, whole.after)
    one = first.reason in ("operator", "shape", "kernel") or (
        first.reason == "layout" and whole.before.layout_calls == whole.after.layout_calls
    )
    because = words(first if one else whole, devices=devices, ratio=ratio)
    change = sum(c.ms for c in group)
    real = beyond(
        change, width, whole.before.ms, step_ms, first.reason, on_cpu=on_cpu, alike=devices[0] == devices[1],
        alone=first.reason in ("waits", "appeared", "vanished") and steady(whole.before, whole.after),
    )  # fmt: skip
    lead = _lead(first)
    below = [] if alone or nested else [c for c in group[:_PARTS] if abs(c.ms) >= _SMALL * abs(change)]
    return Part(
        label=_label(first, lead) if alone else _common_label(group, lead),
        reason=first.reason,
        because=because,
        change_ms=change,
        noise_ms=width,
        real=real,
        paired=bool(whole.before.sites and whole.after.sites) or first.reason in _EVERYWHERE,
        before=whole.before.portion(),
        after=whole.after.portion(),
        file=lead.file or None,
        line=lead.line if lead.line > 0 else None,
        function=lead.function or None,
        parts=[
            part_of([c], step_ms=step_ms, devices=devices, ratio=_own_ratio(c, ratio), on_cpu=on_cpu, nested=True)
            for c in below
        ],
    )


def _own_ratio(change: Change, ratio: float | None) -> float | None:
    """Return by which factor the work of one change takes longer, where it is the clock."""
    return change.ratio if change.reason == "clock" else ratio


def _lead(change: Change) -> Site:
    """Return the site that most of the change is at: of those after where there are any, for that is where one looks."""
    before = {_key(site): site.ms for site in change.before.sites}
    if change.after.sites and (change.ms >= 0 or not change.before.sites):
        return max(change.after.sites, key=lambda site: (site.ms - before.get(_key(site), 0.0), site.ms))
    after = {_key(site): site.ms for site in change.after.sites}
    side = change.before.sites or change.after.sites
    lost = max(side, key=lambda site: (site.ms - after.get(_key(site), 0.0), site.ms))
    # Where it is still there, its line is that of the source as it is now.
    return next((site for site in change.after.sites if _key(site) == _key(lost)), lost)


def _key(site: Site) -> Hashable:
    return site.cause, site.phase, site.module, site.function, site.unit, site.shapes, site.kernel


def _label(change: Change, site: Site) -> str:
    """Return ``BasicBlock_1/Conv2d_0 conv2d backward``, or of a wait the operator and where it is called."""
    if site.cause not in WORK:
        name = "" if site.kernel == site.function else site.kernel
        names = [name or site.unit, _place(site)]
        what = " at ".join(name for name in names if name) or "a place outside any operator"
        return what[:_LABEL]
    if site.cause != "compute":
        return " ".join(part for part in (site.kernel, _place(site)) if part)[:_LABEL]
    unit = unit_of(site) if change.same_unit else _families(change)
    module = "/".join((site.module if change.same_unit else _shared(change)).split("/")[-_TAIL:])
    where = module or _place(site)
    phase = site.phase if site.phase in ("backward", "optimizer", "zero_grad") else ""
    if phase and phase in unit.lower():
        phase = ""
    return " ".join(part for part in (where, unit.removeprefix("aten::"), phase) if part)[:_LABEL]


def _families(change: Change) -> str:
    """Return the families of what stands against each other, the heaviest first."""
    weights: dict[str, float] = {}
    for site in (*change.before.sites, *change.after.sites):
        weights[family_of(site)] = weights.get(family_of(site), 0.0) + site.ms
    return ", ".join(sorted(weights, key=lambda family: -weights[family])[:_TAIL])


def _shared(change: Change) -> str:
    """Return the module around all of a change: the lowest that they share; empty where they share none."""
    paths = [site.module for site in (*change.before.sites, *change.after.sites)]
    return os.path.commonpath(paths) if all(paths) else ""


def _place(site: Site) -> str:
    if not site.file:
        return site.function
    file = FOLDERS.sub("", site.file)
    return f"{file}:{site.line} {site.function}".strip() if site.line > 0 else f"{file} {site.function}".strip()


def _common_label(group: Sequence[Change], lead: Site) -> str:
    """Return the label of several: the module that they share, their operators, and how many they are."""
    if lead.cause not in WORK:
        return f"{len(group)} places, most at {_label(group[0], lead)}"[:_LABEL]
    paths = [_lead(change).module for change in group if abs(change.ms) > 0]
    shared = os.path.commonpath(paths) if paths and all(paths) else ""
    if lead.cause == "compute" and group[0].reason in ("appeared", "vanished") and shared not in paths:
        own = dict.fromkeys(sorted(path[len(shared) :].strip("/").split("/")[0] for path in paths))
        return f"{shared.split('/')[-1]}/{', '.join(own)}".strip("/")[:_LABEL]
    named = _share(group, lambda site: unit_of(site).removeprefix("aten::"))
    names = named if len(named) <= 2 and group[0].same_unit else _share(group, family_of)
    where = "/".join(shared.split("/")[-_TAIL:]) if shared else ""
    text = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
    return f"{where + ': ' if where else ''}{text}, {len(group)} places"[:_LABEL]


def _share(group: Sequence[Change], name: Callable[[Site], str]) -> list[str]:
    """Return names of the changes, the heaviest first, those with a part of it worth naming."""
    weights: dict[str, float] = {}
    for change in group:
        text = name(_lead(change))
        weights[text] = weights.get(text, 0.0) + abs(change.ms)
    total = sum(weights.values())
    ordered = sorted(weights, key=lambda text: -weights[text])
    return [text for text in ordered if weights[text] >= _SMALL * total] or ordered[:1]

"""A digest of sites, small enough for a baseline: the heaviest places by operator, and the rest by kind of work.

Kernels of one operator in one place are one site, with the name of the heaviest. Their ms still add up to the step. What is held
against a baseline is digested the same way, so that like stands against like.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence

import msgspec

from advisor.gating.division.families import kin_of, unit_of
from advisor.regex import regex
from advisor.results.sites import Site, Sites

FOLDERS = regex(r"^.*[\\/]", re.DOTALL)
_MOST = 40
_LEAST = 0.002
"""Share of the step below which a site is merged with others of its kind."""
_NAME = 80
_STEPS = 12
_DIGITS = 6


def digest(runs: Sequence[Sites], like: Sites | None = None) -> Sites | None:
    """Return the sites of repeated runs, on average, as a baseline keeps them; None without any.

    *like* is a digest whose places are kept as well, to be held against it.
    """
    if not runs:
        return None
    average = _averages(runs)
    step = sum(site.ms for site in average)
    ordered = sorted(average, key=lambda site: (-site.ms, str(_place(site))))
    names = {_place(site) for site in ordered[:_MOST] if site.ms >= _LEAST * step}
    names |= {_place(site) for site in like.sites} if like else set()
    kept = [site for site in ordered if _place(site) in names]
    rest = _merge([site for site in ordered if _place(site) not in names], _kind)
    sites = [*kept, *map(_bare, rest.values())]
    return Sites(
        step_ms=_mean([run.step_ms for run in runs]),
        steps=sum(run.steps for run in runs),
        sites=[_small(site, paths=like is not None) for site in sites],
        earlier_ms=_mean([run.earlier_ms for run in runs]),
        startup_ms=_mean([run.startup_ms for run in runs]),
        device=runs[0].device,
        whole=False,
    )


def _mean(values: Sequence[float]) -> float:
    return _rounded(sum(values) / len(values))


def _averages(runs: Sequence[Sites]) -> list[Site]:
    """Return the average of each place over runs."""
    by_run = [_merge(run.sites, _place) for run in runs]
    counts = [max((len(site.samples) for site in run.sites), default=0) for run in runs]
    keys = dict.fromkeys(key for run in by_run for key in run)
    return [_average([run.get(key) for run in by_run], counts) for key in keys]


def _place(site: Site) -> Hashable:
    # Without modules the shapes alone tell one layer from another.
    shapes = "" if site.module else site.shapes
    return site.cause, site.phase, site.module, site.function, unit_of(site), site.kind == "layout", shapes[:_NAME]


def _kind(site: Site) -> Hashable:
    return site.cause, site.phase, kin_of(site), site.kind == "layout"


def _merge(sites: Iterable[Site], key: Callable[[Site], Hashable]) -> dict[Hashable, Site]:
    """Merge sites with the same key: times and calls add up, names are those of the heaviest."""
    groups: dict[Hashable, list[Site]] = {}
    for site in sites:
        groups.setdefault(key(site), []).append(site)
    return {value: _sum(group) for value, group in groups.items()}


def _sum(group: Sequence[Site]) -> Site:
    if len(group) == 1:
        return group[0]
    first = max(group, key=lambda site: (site.busy_ms, site.ms))
    sizes = [site.mb for site in group]
    limits = [site.limit_ms for site in group]
    samples = [site.samples for site in group if site.samples]
    return msgspec.structs.replace(
        first,
        ms=sum(site.ms for site in group),
        calls=sum(site.calls for site in group),
        busy_ms=sum(site.busy_ms for site in group),
        mb=None if None in sizes else sum(size for size in sizes if size is not None),
        limit_ms=None if None in limits else sum(limit for limit in limits if limit is not None),
        samples=[sum(values) for values in zip(*samples, strict=True)] if len({len(s) for s in samples}) == 1 else [],
    )


def _average(group: Sequence[Site | None], counts: Sequence[int]) -> Site:
    """Return the average of one place over runs: nothing in those that lack it; the samples of all, one after the other."""
    found = [site for site in group if site is not None]
    if len(group) == 1:
        return found[0]
    runs = len(group)
    whole = _sum(found)
    samples = [value for site, count in zip(group, counts, strict=True) for value in _samples(site, count)]
    return msgspec.structs.replace(
        whole,
        ms=whole.ms / runs,
        calls=whole.calls / runs,
        busy_ms=whole.busy_ms / runs,
        mb=None if whole.mb is None else whole.mb / runs,
        limit_ms=None if whole.limit_ms is None else whole.limit_ms / runs,
        samples=samples,
    )


def _samples(site: Site | None, count: int) -> list[float]:
    return [0.0] * count if site is None else site.samples


def _bare(site: Site) -> Site:
    """Return a site of many places: no name of one of them speaks for all."""
    return Site(
        cause=site.cause,
        ms=site.ms,
        phase=site.phase,
        kind="layout" if site.kind == "layout" else kin_of(site),
        calls=site.calls,
        busy_ms=site.busy_ms,
        mb=site.mb,
        samples=site.samples,
    )


def _small(site: Site, *, paths: bool) -> Site:
    """Return a site with names and figures cut to what a baseline keeps; without *paths* no folder is among them."""
    return msgspec.structs.replace(
        site,
        file=site.file if paths else FOLDERS.sub("", site.file),
        **{
            name: getattr(site, name)[:_NAME]
            for name in ("module", "function", "unit", "op", "kernel", "shapes")
            if len(getattr(site, name)) > _NAME and name != "module"
        },
        **{
            name: value if (value := getattr(site, name)) is None else _rounded(value)
            for name in ("ms", "calls", "busy_ms", "mb", "limit_ms")
        },
        samples=[_rounded(value, 4) for value in site.samples[:: max(1, -(-len(site.samples) // _STEPS))]],
    )


def _rounded(value: float, digits: int = _DIGITS) -> float:
    return float(f"{value:.{digits}g}")

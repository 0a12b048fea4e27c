"""Reasons of a change: what of a pair differs, the most telling difference first."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from advisor.gating.division.change import Change
from advisor.gating.division.families import WORK, family_of, unit_of
from advisor.results.division import Reason
from advisor.results.sites import Site

_BYTES = 0.02
_OF_FP32 = frozenset({"fp32", "tf32"})
"""Formats that one kernel or another computes the same operands in."""
_HIDDEN = 0.5
_APART = 0.05
"""Part by which one kernel is slower than it was, from which on it is told apart from others that are about as fast."""
_WAITS: dict[str, Reason] = {
    "loader": "loader", "host": "host", "operator": "host", "unknown": "unknown", "profiler": "unknown",
}  # fmt: skip
Test = Callable[[Change, bool], bool]
"""Test of a pair of work for one reason; the second argument says that the sides ran on different devices."""


def find(change: Change, *, other_device: bool, absent: Callable[[str, bool], str]) -> None:
    """Find the reason of a change, in place. *absent* returns the outermost module of a path that the other side lacks."""
    site = change.site
    if site.cause not in WORK:
        change.reason = _WAITS.get(site.cause, "waits")
        everywhere = change.reason in ("host", "unknown", "loader")
        change.key = (site.cause,) if everywhere else (site.cause, site.function)
        return
    change.reason = next((reason for reason, test in _TESTS if test(change, other_device)), "slower")
    family = family_of(site)
    keys: dict[Reason, Hashable] = {
        "type": (change.before.dtype, change.after.dtype),
        "operator": (tuple(sorted(change.before.units)), tuple(sorted(change.after.units))),
        "kernel": family,
        "calls": unit_of(site),
        "bytes": site.cause,
        "appeared": _whose(site, absent(site.module, True)),
        "vanished": _whose(site, absent(site.module, False)),
        "slower": (family, abs(change.ratio - 1) >= _APART),
    }
    change.key = (change.reason, keys.get(change.reason, ""))


def _whose(site: Site, module: str) -> Hashable:
    """Return what work of one side only is put together by: the modules of one class that are new, else its operator."""
    if module:
        parent, _, name = module.rpartition("/")
        return parent, name.rstrip("0123456789")
    return unit_of(site), site.function


def _bytes(change: Change, _other: bool) -> bool:
    before, after = change.before.mb, change.after.mb
    return bool(before and after and abs(after - before) > _BYTES * before)


def _per_sample(change: Change, _other: bool) -> bool:
    return change.before.factor != 1.0 or change.after.factor != 1.0


def _exposed(change: Change, _other: bool) -> bool:
    return abs(change.after.busy_ms - change.before.busy_ms) < _HIDDEN * abs(change.ms)


_TESTS: tuple[tuple[Reason, Test], ...] = (
    ("appeared", lambda change, _: not change.before.sites),
    ("vanished", lambda change, _: not change.after.sites),
    ("operator", lambda change, _: not change.same and not change.one_product),
    ("type", lambda change, _: len(change.types) > 1 and not change.types <= _OF_FP32),
    ("layout", lambda change, other: change.turned and not other),
    ("type", lambda change, _: len(change.types) > 1),
    ("bytes", _bytes),
    ("shape", lambda change, _: change.other_sizes),
    ("device", lambda _, other: other),
    ("kernel", lambda change, _: change.other_kernels),
    ("calls", lambda change, _: change.more_calls),
    ("batch", _per_sample),
    ("exposed", _exposed),
)
"""Tests in the order of what tells most; where none holds the same work is slower, or faster."""

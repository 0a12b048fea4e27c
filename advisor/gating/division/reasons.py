"""Reasons of a change: what of a pair differs, the most telling difference first."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from advisor.gating.division.families import PRODUCTS, WORK, family_of, sizes_beside, unit_of
from advisor.gating.division.side import Side
from advisor.results.division import Reason
from advisor.results.sites import Site

_CALLS = 0.02
_BYTES = 0.02
_OTHER = 0.5
"""Share of a side's time in kernels that the other side lacks, from which on the kernels are others."""
_NHWC = re.compile(r"nhwc|channels_?last", re.IGNORECASE)
_NCHW = re.compile(r"nchw", re.IGNORECASE)
_LAYOUTS = 0.5
_OF_FP32 = frozenset({"fp32", "tf32"})
"""Formats that one kernel or another computes the same operands in."""
_ARGUMENTS = re.compile(r"[<(].*$")
_LONGEST = 60
_HIDDEN = 0.5
_APART = 0.05
"""Part by which one kernel is slower than it was, from which on it is told apart from others that are about as fast."""
_CLOCK, _SPREAD, _MOST, _PART = 0.03, 0.8, 0.65, 0.5
_FURTHEST = 2.5
"""Factor beyond which no clock is slower: then it is other work after all, whose shapes were not recorded."""
_WORDS = {
    "sync": "the host waits for the device",
    "blocking_copy": "the host waits for a copy",
    "loader": "waits for the next batch",
    "host": "Python and launches: the device waits for the host",
    "operator": "an operator computes on the CPU while the device waits",
    "allocator": "the allocator asks the driver for memory",
    "compile": "compilation",
    "gc": "garbage collection",
    "profiler": "the profiler's own work",
    "unknown": "the device idles, and the trace does not say why",
}
_ON_CPU = "Python, outside any operator"
_WAITS: dict[str, Reason] = {"loader": "loader", "host": "host", "operator": "host", "unknown": "unknown", "profiler": "unknown"}


@dataclass
class Change:
    """A pair with its reason; ``key`` is what changes are put together by."""

    before: Side
    after: Side
    same_unit: bool
    reason: Reason = "other"
    key: Hashable = ()

    @property
    def ms(self) -> float:
        """What it owns after, less what it owned before."""
        return self.after.ms - self.before.ms

    @property
    def calls_ratio(self) -> float:
        """By which factor it is called more often a step."""
        return self.after.calls / self.before.calls if self.before.calls else 1.0

    @property
    def lead(self) -> Side:
        """The side that speaks of it: the second where there is one."""
        return self.after if self.after.sites else self.before


def find(change: Change, *, other_device: bool, absent: Callable[[str, bool], str]) -> None:
    """Find the reason of a change, in place. *absent* returns the outermost module of a path that the other side lacks."""
    before, after = change.before, change.after
    site = max(change.lead.sites, key=lambda site: site.ms)
    if site.cause not in WORK:
        change.reason = _WAITS.get(site.cause, "waits")
        change.key = (site.cause,) if change.reason in ("host", "unknown", "loader") else (site.cause, site.function)
        return
    unit = unit_of(site)
    family = family_of(site)
    change.reason = _of_work(change, other_device=other_device)
    keys: dict[Reason, Hashable] = {
        "type": (before.dtype, after.dtype),
        "operator": (tuple(sorted(before.units)), tuple(sorted(after.units))),
        "kernel": family,
        "calls": unit,
        "bytes": site.cause,
        "appeared": _whose(site, absent(site.module, True)),
        "vanished": _whose(site, absent(site.module, False)),
        "slower": (family, abs(ratio_of(change) - 1) >= _APART),
    }
    change.key = (change.reason, keys.get(change.reason, ""))


def _whose(site: Site, module: str) -> Hashable:
    """Return what work of one side only is put together by: the modules of one class that are new, else its operator."""
    if module:
        parent, _, name = module.rpartition("/")
        return parent, name.rstrip("0123456789")
    return unit_of(site), site.function


def _of_work(change: Change, *, other_device: bool) -> Reason:
    before, after = change.before, change.after
    if not before.sites:
        return "appeared"
    if not after.sites:
        return "vanished"
    same = change.same_unit or before.units.keys() == after.units.keys()
    if not same and not _one_product(before, after):
        return "operator"
    types = {before.dtype, after.dtype} - {""}
    if len(types) > 1 and not types <= _OF_FP32:
        return "type"
    turned = abs(after.layout_calls - before.layout_calls) >= _LAYOUTS or _turned(before, after)
    if same and turned and not other_device:
        return "layout"
    if len(types) > 1:
        return "type"
    if before.mb and after.mb and abs(after.mb - before.mb) > _BYTES * before.mb:
        return "bytes"
    if same and before.shaped and after.shaped and _sizes(before) != _sizes(after):
        return "shape"
    if other_device:
        return "device"
    if any(_lacking(*sides) > _OTHER for sides in ((before, after), (after, before))):
        return "kernel"
    if abs(after.calls - before.calls) > _CALLS * max(before.calls, after.calls):
        return "calls"
    if before.factor != 1.0 or after.factor != 1.0:
        return "batch"
    if abs(after.busy_ms - before.busy_ms) < _HIDDEN * abs(change.ms):
        return "exposed"
    return "slower"


def _one_product(before: Side, after: Side) -> bool:
    """Tell whether both are products of one family, by whatever name: mm and addmm, conv2d and convolution."""
    families = {family_of(site) for side in (before, after) for site in side.sites}
    return len(families) == 1 and families <= PRODUCTS


def _sizes(side: Side) -> set[str]:
    """Return the shapes, without the batch where times are those of a sample."""
    return {sizes_beside(text) if side.factor != 1.0 else text for text in side.shapes}


def _turned(before: Side, after: Side) -> bool:
    """Tell whether kernels are of the other layout, by their names: what is not named NHWC is not."""
    named = {_layout(before), _layout(after)}
    return "NHWC" in named and len(named) > 1 and _lacking(before, after) > _OTHER


def _layout(side: Side) -> str:
    names = [name for name, _ in side.kernels.most_common(3)]
    named = {word for word, known in (("NHWC", _NHWC), ("NCHW", _NCHW)) for name in names if known.search(name)}
    return named.pop() if len(named) == 1 else ""


def _lacking(side: Side, other: Side) -> float:
    """Return the share of a side's time in kernels that the other lacks."""
    total = sum(side.kernels.values())
    return sum(ms for name, ms in side.kernels.items() if name not in other.kernels) / total if total else 0.0


def slowed(changes: Sequence[Change]) -> float | None:
    """Return by which factor nearly all of the same work takes longer or shorter, and mark it so; None where it does not.

    That is a clock, a limit of power or heat, or another process on the device: no kernel is to blame.
    """
    alike = [c for c in changes if c.reason in ("slower", "exposed") and c.before.busy_ms > 0]
    working = [c for c in changes if c.before.sites and next(iter(c.before.sites)).cause == "compute"]
    ratios = sorted((ratio_of(c), c.before.busy_ms) for c in alike)
    total = sum(weight for _, weight in ratios)
    if len(ratios) < 2 or total < _PART * sum(c.before.busy_ms for c in working):
        return None
    reached, common = 0.0, 1.0
    for ratio, weight in ratios:
        reached += weight
        if reached >= total / 2:
            common = ratio
            break
    far = abs(common - 1)
    near = [c for c in alike if abs(ratio_of(c) - common) <= _SPREAD * far]
    if far < _CLOCK or not 1 / _FURTHEST <= common <= _FURTHEST or sum(c.before.busy_ms for c in near) < _MOST * total:
        return None
    for change in near:
        change.reason, change.key = "clock", ("clock",)
    return common


def ratio_of(change: Change) -> float:
    """Return by which factor a call takes longer; 1 where nothing is known to have run."""
    before, after = change.before, change.after
    if not (before.busy_ms and after.calls and before.calls):
        return 1.0
    return (after.busy_ms / after.calls) / (before.busy_ms / before.calls)


# ---- in words


def words(change: Change, *, devices: tuple[str, str] = ("", ""), ratio: float | None = None) -> str:
    """Say why it changed; *ratio* is that of a clock."""
    before, after = change.before, change.after
    match change.reason:
        case "appeared":
            return f"new: {_calls(after)}"
        case "vanished":
            return f"gone: it had {_calls(before)}"
        case "operator":
            return f"{_units(after)} in place of {_units(before)} ({before.calls:.4g} → {after.calls:.4g} kernels)"
        case "type":
            return f"number format {before.dtype} → {after.dtype}" + _and_calls(change)
        case "bytes":
            return f"{before.mb:.4g} → {after.mb:.4g} MB" + _and_calls(change)
        case "shape":
            shapes = [_only(side, other) for side, other in ((before, after), (after, before))]
            return f"shapes {shapes[0]} → {shapes[1]}" + _and_calls(change)
        case "layout":
            return _of_layout(change)
        case "kernel" if change.lead.copies:
            return f"from or to {_memory(after)} memory, where it was {_memory(before)}" + _and_calls(change)
        case "kernel":
            return f"another kernel: {_first(before, after)} → {_first(after, before)}" + _and_calls(change)
        case "calls":
            return f"{before.calls:.4g} → {after.calls:.4g} calls of the same"
        case "device":
            return f"another device: {devices[0] or 'unknown'} → {devices[1] or 'unknown'}"
        case "batch":
            return f"the same work takes {ratio_of(change) * change.calls_ratio:.3g} times as long a sample, in another batch"
        case "clock":
            causes = "threads, clocks, or other programs" if change.lead.on_cpu else "clocks, power, heat, or another process"
            return f"the same work takes {ratio or 1:.3g} times as long everywhere: {causes} on the device"
        case "slower":
            return f"the same work takes {ratio_of(change):.3g} times as long"
        case "exposed":
            return f"the same work, of which {'less' if change.ms > 0 else 'more'} is hidden behind other work"
    return _of_waits(change)


def _of_waits(change: Change) -> str:
    before, after = change.before, change.after
    site = max(change.lead.sites, key=lambda site: site.ms)
    text = _ON_CPU if site.cause == "host" and change.lead.on_cpu else _WORDS.get(site.cause, site.cause.replace("_", " "))
    if not change.same_unit and before.sites and after.sites and change.reason == "waits":
        text += f"; it moved here from {_where(before)}"
    return text + _and_calls(change, "waits")


def _where(side: Side) -> str:
    site = max(side.sites, key=lambda site: site.ms)
    return site.unit or site.function or "elsewhere"


def _of_layout(change: Change) -> str:
    before, after = change.before, change.after
    more = after.layout_calls - before.layout_calls
    turned = f"{_layout(before) or 'NCHW'} → {_layout(after) or 'NCHW'}" if _turned(before, after) else ""
    if not turned and more:
        turned = "tensors are turned into another layout" if more > 0 else "fewer tensors are turned into another layout"
    count = f" ({more:+.4g} layout kernels)" if more else ""
    types = f", {before.dtype} → {after.dtype}" if before.dtype and after.dtype and before.dtype != after.dtype else ""
    return f"memory format: {turned}{count}{types}"


def _and_calls(change: Change, what: str = "calls") -> str:
    before, after = change.before.calls, change.after.calls
    return f", {before:.4g} → {after:.4g} {what}" if abs(after - before) > _CALLS * max(before, after) else ""


def _calls(side: Side) -> str:
    return f"{side.calls:.4g} {'call' if 0.5 < side.calls < 1.5 else 'calls'}"


def _units(side: Side) -> str:
    compiled = [name for name in side.units if name.startswith("triton_")]
    others = [name.removeprefix("aten::") for name, _ in side.units.most_common() if name and name not in compiled]
    texts = ([f"{len(compiled)} Triton kernels" if len(compiled) > 1 else compiled[0]] if compiled else []) + others[:3]
    more = len(others) - 3
    return (", ".join(texts) or "other work") + (f" and {more} more" if more > 0 else "")


def _only(side: Side, other: Side) -> str:
    """Return the heaviest shapes that the other side lacks."""
    own = [text for text, _ in side.shapes.most_common() if text not in other.shapes]
    return (own or [text for text, _ in side.shapes.most_common(1)] or ["?"])[0].replace(",[]", "")


def _memory(side: Side) -> str:
    """Return the host's memory that most of some copies read or write."""
    names = [name for name, _ in side.kernels.most_common(1)]
    return next((word.lower() for name in names for word in ("Pageable", "Pinned", "Managed") if word in name), "other")


def _first(side: Side, other: Side) -> str:
    own = [name for name, _ in side.kernels.most_common() if name not in other.kernels]
    return _short((own or list(side.kernels))[0])


def _short(name: str) -> str:
    """Return a kernel's name without its arguments and those of its template."""
    head = _ARGUMENTS.sub("", name.removeprefix("void "))
    return f"{head[:_LONGEST]}…" if len(head) > _LONGEST else head

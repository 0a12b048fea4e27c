"""Reasons in words, a line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from advisor.counting import average, averages
from advisor.gating.division.change import Change
from advisor.gating.division.families import is_compiled
from advisor.gating.division.side import Side
from advisor.regex import regex
from advisor.results.division import Reason
from advisor.timeline.communication_names import without_anonymous

_ARGUMENTS = regex(r"[<(].*$")
_LONGEST = 60
_CAUSES = {
    "sync": "the host waits for the device",
    "blocking_copy": "the host waits for a copy",
    "other_device": "the device waits for work of another one",
    "loader": "waits for the next batch",
    "host": "Python and launches: the device waits for the host",
    "operator": "an operator computes on the CPU while the device waits",
    "allocator": "the allocator asks the driver for memory",
    "compile": "compilation",
    "gc": "garbage collection",
    "profiler": "the profiler's own work",
    "unknown": "the device idles for an unknown reason",
}
_ON_CPU = "Python, outside any operator"


def words(change: Change, *, devices: tuple[str, str] = ("", ""), ratio: float | None = None) -> str:
    """Say why it changed; *ratio* is that of a clock."""
    if change.reason == "device":
        return f"another device: {devices[0] or 'unknown'} → {devices[1] or 'unknown'}"
    if change.reason == "clock":
        causes = (
            "threads, clocks, or other programs on the machine"
            if change.lead.on_cpu
            else "clocks, power, heat, or another process on the device"
        )
        return f"the same work takes {ratio or 1:.3g} times as long everywhere: {causes}"
    return _WORDS.get(change.reason, _of_waits)(change)


def _of_waits(change: Change) -> str:
    site = change.site
    of_python = site.cause == "host" and change.lead.on_cpu
    text = _ON_CPU if of_python else _CAUSES.get(site.cause, site.cause.replace("_", " "))
    if not change.same_unit and change.before.sites and change.after.sites and change.reason == "waits":
        text += f"; it moved here from {_where(change.before)}"
    return text + _and_calls(change, "waits")


def _where(side: Side) -> str:
    site = max(side.sites, key=lambda site: site.ms)
    return site.unit or site.function or "elsewhere"


def _operator(change: Change) -> str:
    what = "operators" if change.lead.on_cpu else "kernels"
    return f"{_units(change.after)} in place of {_units(change.before)} ({_counts(change)} {what})"


def _shape(change: Change) -> str:
    was, now = _only(change.before, change.after), _only(change.after, change.before)
    return f"shapes {was} → {now}{_and_calls(change)}"


def _kernel(change: Change) -> str:
    before, after = change.before, change.after
    if change.lead.copies:
        return f"from or to {_memory(after)} memory, where it was {_memory(before)}{_and_calls(change)}"
    was, now = _first(before, after), _first(after, before)
    if _short(was) == _short(now):
        differing = [pair for pair in zip(_template(was), _template(now), strict=False) if pair[0] != pair[1]]
        if differing:
            was, now = (", ".join(dict.fromkeys(side)) for side in zip(*differing, strict=True))
            return f"{_short(_first(after, before))} with other parameters: {was} → {now}{_and_calls(change)}"
    return f"another kernel: {_short(was)} → {_short(now)}{_and_calls(change)}"


def _layout(change: Change) -> str:
    before, after = change.before, change.after
    more = after.layout_calls - before.layout_calls
    was, now = change.layouts
    fewer = "more tensors" if more > 0 else "fewer tensors"
    turned = f"{was} → {now}" if was else f"{fewer} are turned into another layout" if more else "other kernels"
    sign = "+" if more > 0 else "-"
    count = f" ({sign}{average(abs(more))} layout kernels)" if more else ""
    return f"memory format: {turned}{count}" + (f", {before.dtype} → {after.dtype}" if len(change.types) > 1 else "")


_WORDS: Mapping[Reason, Callable[[Change], str]] = {
    "appeared": lambda change: f"new: {_calls(change.after)}",
    "vanished": lambda change: f"gone: it had {_calls(change.before)}",
    "operator": _operator,
    "type": lambda change: f"number format {change.before.dtype} → {change.after.dtype}{_and_calls(change)}",
    "bytes": lambda change: f"{change.before.mb:.4g} → {change.after.mb:.4g} MB{_and_calls(change)}",
    "shape": _shape,
    "layout": _layout,
    "kernel": _kernel,
    "calls": lambda change: f"{_counts(change)} calls of the same",
    "batch": lambda change: (
        f"the same work takes {change.ratio * change.calls_ratio:.3g} times as long a sample, in another batch"
    ),
    "slower": lambda change: f"the same work takes {change.ratio:.3g} times as long",
    "exposed": lambda change: (
        f"the same work, of which {'less' if change.ms > 0 else 'more'} is hidden behind other work"
    ),
}


def _and_calls(change: Change, what: str = "calls") -> str:
    return f", {_counts(change)} {what}" if change.more_calls else ""


def _counts(change: Change) -> str:
    return averages(change.before.calls, change.after.calls)


def _calls(side: Side) -> str:
    text = average(side.calls)
    return f"{text} {'call' if text == '1' else 'calls'}"


def _units(side: Side) -> str:
    compiled = [name for name in side.units if is_compiled(name)]
    others = [name.removeprefix("aten::") for name, _ in side.units.most_common() if name and name not in compiled]
    texts = (["compiled code" if len(compiled) > 1 else compiled[0]] if compiled else []) + others[:3]
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
    return (own or list(side.kernels))[0]


def _template(name: str) -> list[str]:
    """Return the parameters of a kernel's template, as they stand between its commas."""
    return [part.strip(" <>") for part in name.partition("<")[2].partition(">")[0].split(",")]


def _short(name: str) -> str:
    """Return a kernel's name without its arguments and those of its template."""
    head = _ARGUMENTS.sub("", without_anonymous(name.removeprefix("void ")))
    return f"{head[:_LONGEST]}…" if len(head) > _LONGEST else head

"""Distance from the hardware's limit as tables show it: by operator, by module and by line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from advisor.report import figures
from advisor.report.plain import milliseconds
from advisor.results.analysis import Summary
from advisor.results.distance import ModuleDistance, Times

_MOST_OF_IT = 0.9
"""Part of the kernels' time above their limits from which on the step is told to be as much shorter."""
_SEEN = 0.005
"""Share of the step below which a time is not told."""
_WORK = ("compute", "communication", "copy", "memset")


class Group(NamedTuple):
    """Parts of the distance from the hardware's limit, and the word, field and column that they are named by."""

    name: str
    field: str
    parts: list[tuple[int, str, Times]]
    """Place in the field, name, and figures, of each that is not at what is reachable."""


def distances(summary: Summary) -> list[Group]:
    """Return the distance by operator, by module and by line; nothing where most of the kernels' work is not known."""
    if not figures.modelled(summary):
        return []
    named = (
        ("operator", "distance", [part.op for part in summary.distance]),
        ("module", "distance_modules", _modules(summary.distance_modules)),
        ("line", "distance_lines", [part.line for part in summary.distance_lines]),
    )
    groups = [
        Group(name, field, [
            (at, text, part)
            for at, (text, part) in enumerate(zip(texts, getattr(summary, field), strict=True))
            if part.ms > part.reachable_ms
        ])
        for name, field, texts in named
    ]  # fmt: skip
    return [group for group in groups if group.parts]


def returned(summary: Summary) -> str:
    """Say why faster kernels return less of the step than they take less time; empty where they return about as much."""
    less = sum(max(part.ms - part.limit_ms, 0.0) for part in summary.distance)
    if summary.limit_ms is None or less <= 0:
        return ""
    shorter = max(summary.priced_ms - summary.limit_ms, 0.0)
    if shorter >= _MOST_OF_IT * less:
        return ""
    unit = "step" if summary.step_ms else "window"
    only = f"only {milliseconds(shorter)} shorter" if shorter > _SEEN * summary.priced_ms else "no shorter"
    text = (
        f"With every kernel at its limit, kernels take {milliseconds(less)} less of a {unit}, but the {unit} is {only}"
    )
    waits = [part for part in figures.causes(summary) if part.cause not in _WORK]
    heavy = [part for part in waits[:3] if part.share >= _SEEN]
    if not heavy:
        return f"{text}: it is not the kernels that it waits for."
    names = ", ".join(f"{part.cause.replace('_', ' ')} {milliseconds(part.ms)}" for part in heavy)
    total = milliseconds(sum(part.ms for part in waits))
    return f"{text}: the GPU then waits longer for what it waits for now, {total} of the {unit} ({names})."


def _modules(parts: Sequence[ModuleDistance]) -> list[str]:
    """Return ``EncoderLayer/Attention ×24``: the last two classes of a path, or as many as tell the modules apart."""
    out = []
    for part in parts:
        classes = part.module.split("/")
        others = ["/" + other.module for other in parts if other is not part]
        last = next(
            (count for count in range(2, len(classes)) if not _ends(others, classes[-count:])), max(len(classes), 1)
        )
        out.append("/".join(classes[-last:]) + (f" ×{part.count}" if part.count > 1 else ""))
    return out


def _ends(paths: Sequence[str], classes: Sequence[str]) -> bool:
    return any(path.endswith("/" + "/".join(classes)) for path in paths)

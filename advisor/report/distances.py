"""Distance from the hardware's limit as tables show it: by operator, by module and by line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from advisor.report import figures
from advisor.results.analysis import Summary
from advisor.results.distance import ModuleDistance, Times


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

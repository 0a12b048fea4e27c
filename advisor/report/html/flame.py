"""Flame graphs of the page: static pictures, in which each path of calls hangs below the one around it."""

from __future__ import annotations

from markupsafe import Markup

from advisor.report.html.svg import Shape, colour, span
from advisor.report.plain import clean, milliseconds, percent, shorten
from advisor.results.views import Flame

TITLES = {"host": "Host time", "gpu": "GPU time"}
_HIGH = 18
_NARROWEST, _LETTER = 640, 6.9
"""Pixels of the picture at the least, and of a letter: a name has room there. The script shows more of it where there is more."""
_NAMED = 0.04
"""Share of the width from which on a path has room for a part of its name."""
_LONGEST = 60


def places(flame: Flame) -> list[tuple[int, float]]:
    """Return row and left end (a share of the width) of each path: children begin with their parent, one behind another."""
    found: list[tuple[int, float]] = []
    used: dict[int, float] = {}
    for parent, ms in zip(flame.parents, flame.ms, strict=True):
        inside = 0 <= parent < len(found)
        row, left = (found[parent][0] + 1, found[parent][1]) if inside else (0, 0.0)
        key = parent if inside else -1
        found.append((row, left + used.get(key, 0.0)))
        used[key] = used.get(key, 0.0) + (ms / flame.total_ms if flame.total_ms > 0 else 0.0)
    return found


def chart(flame: Flame) -> Markup:
    """Draw the paths row by row, each as wide as its share of the time; titles hold the figures."""
    rows: dict[int, list[Markup]] = {}
    columns = zip(places(flame), flame.names, flame.categories, flame.ms, flame.calls, strict=True)
    for (row, left), name, category, ms, calls in columns:
        share = ms / flame.total_ms if flame.total_ms > 0 else 0.0
        if share <= 0:
            continue
        told = clean(name)
        title = f"{shorten(told, _LONGEST)}: {milliseconds(ms)}, {percent(share)}, {calls:,}×"
        kind = colour(category)
        if share < _NAMED:
            shape = Shape('<rect class="%s" x="%s" width="%s"><title>%s</title></rect>')
            drawn = shape % (kind, span(left), span(share), title)
        else:
            shape = Shape(
                '<svg x="%s" width="%s"><title>%s</title><rect class="%s"/><text x="4" y="12">%s</text></svg>'
            )
            most = int((_NARROWEST * share - 8) / _LETTER)
            label = told if len(told) <= most else told[: most - 1] + "…"
            drawn = shape % (span(left), span(share), title, kind, label)
        rows.setdefault(row, []).append(drawn)
    if not rows:
        return Markup("")
    lines = [
        Shape('<g transform="translate(0 %d)">%s</g>') % (row * _HIGH, Markup("").join(shapes))
        for row, shapes in sorted(rows.items())
    ]
    return Shape('<svg class="flame" height="%d" role="img" aria-label="%s">%s</svg>') % (
        (max(rows) + 1) * _HIGH,
        summary(flame),
        Markup("").join(lines),
    )


def summary(flame: Flame) -> str:
    """Say a flame graph in words, for who does not see it: its heaviest paths without anything inside them."""
    inner = {parent for parent in flame.parents if parent >= 0}
    leaves = [
        (ms, shorten(name, 60))
        for at, (ms, name) in enumerate(zip(flame.ms, flame.names, strict=True))
        if at not in inner and flame.categories[at] != "other"
    ]
    heavy = ", ".join(f"{name} {milliseconds(ms)}" for ms, name in sorted(leaves, reverse=True)[:3])
    return f"{TITLES[flame.kind]} of {milliseconds(flame.total_ms)}" + (
        f"; innermost and heaviest: {heavy}" if heavy else ""
    )

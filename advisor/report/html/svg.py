"""Bars of a report, that need no script. Positions across are percentages, so that they fit any width with text as it is.

Colours are classes (``c-compute``), so that a theme can change them; no element carries a style.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup, escape

from advisor.report.causes import CAUSES
from advisor.report.figures import Part
from advisor.report.plain import clean, milliseconds, percent, shorten
from advisor.results.analysis import Finding, PlanStep

KNOWN = frozenset([*CAUSES, "python", "module", "annotation", "operator", "runtime"])
WORK = ("compute", "communication", "copy", "memset")
_LETTER = 7.4
"""Pixels of a letter of a wide font."""


class Shape(str):
    """Markup with places for values. Text that fills one is cleaned and escaped."""

    __slots__ = ()

    def __mod__(self, values: Any) -> Markup:
        filled = values if isinstance(values, tuple) else (values,)
        return Markup(str(self)) % tuple(clean(value) if type(value) is str else value for value in filled)


def colour(name: str) -> str:
    """Return the class that colours a cause or a category."""
    return f"c-{name}" if name in KNOWN else "c-other"


def span(share: float) -> str:
    """Return a share of the width."""
    return f"{100 * min(1.0, max(0.0, share)):.3f}".rstrip("0").rstrip(".") + "%"


def text_of(text: str) -> Markup:
    """Return a name, cleaned, cut and escaped."""
    return escape(clean(shorten(text, 120)))


def swatch(name: str) -> Markup:
    """Draw the small square of a legend for a cause or a category."""
    return key(colour(name))


def key(name: str) -> Markup:
    """Draw the small square of a legend for what is no cause."""
    return Shape('<svg class="swatch" width="12" height="12" aria-hidden="true"><rect class="%s" width="12" height="12"/>'
                  "</svg>") % name  # fmt: skip


def grouped(parts: Sequence[Part]) -> tuple[list[Part], list[Part]]:
    """Return parts in which the device works and in which it waits."""
    return [part for part in parts if part.cause in WORK], [part for part in parts if part.cause not in WORK]


def causes(parts: Sequence[Part], label: str) -> Markup:
    """Draw the step's time as one bar: work first, then what it waits for."""
    total = sum(part.share for part in parts)
    if total <= 0:
        return Markup("")
    shapes, left = [], 0.0
    for part in (part for group in grouped(parts) for part in group):
        wide = part.share / total
        text = ""
        if wide >= _room(part.cause):
            text = Shape('<text class="ink-%s" x="8" y="22">%s<tspan> %s %%</tspan></text>') % (
                colour(part.cause),
                text_of(part.cause.replace("_", " ")),
                f"{part.percent:.1f}",
            )
        title = text_of(f"{part.cause} {part.percent:.1f} %, {milliseconds(part.ms)}")
        shape = Shape(
            '<svg x="%s" width="%s" height="34"><title>%s</title><rect class="%s seg" width="100%%" height="34"/>%s</svg>'
        )
        shapes.append(shape % (span(left / total), span(wide), title, colour(part.cause), text))
        left += part.share
    return Shape('<svg class="bar" width="100%%" height="34" role="img" aria-label="%s">%s</svg>') % (
        label,
        Markup("").join(shapes),
    )


def _room(cause: str) -> float:
    """Return the share of the bar that a cause's name needs: with its figure, and on a phone, which leaves that out, alone."""
    return max((8 + _LETTER * len(cause)) / 330, (8 + _LETTER * (len(cause) + 7)) / 600)


def price(finding: Finding) -> Markup:
    """Draw a finding's cost in the whole step, and what of it the fix returns."""
    saving = finding.saving
    low, high = (saving.low_share, saving.high_share) if saving else (0.0, 0.0)
    label = f"costs {percent(finding.cost_share)} of the time"
    if saving:
        label += f"; the fix returns {percent(low)} to {percent(high)}"
    bars = _layers((("track", 1.0), ("cost", finding.cost_share), ("hope", high), ("sure", low)), 14)
    return Shape('<svg class="price" width="100%%" height="14" role="img" aria-label="%s">%s</svg>') % (label, bars)


def _layers(shares: Iterable[tuple[str, float]], height: int) -> Markup:
    """Draw bars one over the other, by class and share of the width; none for a share of 0."""
    bar = Shape('<rect class="%s" width="%s" height="%d"/>')
    return Markup("").join(bar % (name, span(share), height) for name, share in shares if share > 0)


def limit_at(limit_ms: float | None, whole_ms: float, height: int) -> Markup:
    """Draw the line of the hardware's limit over a bar on its side; nothing where it is unknown or lies behind the bar."""
    if limit_ms is None or not 0 < limit_ms < whole_ms:
        return Markup("")
    at = span(limit_ms / whole_ms)
    return Shape('<line class="limit" x1="%s" x2="%s" y2="%d"/>') % (at, at, height)


def ladder(step: PlanStep, first_ms: float, limit_ms: float | None = None) -> Markup:
    """Draw a step of the plan: the time after it, of the time at the start; and the hardware's limit, where it is known."""
    if first_ms <= 0:
        return Markup("")
    after = sorted(step.step_ms_after.values())
    parts = [("track", first_ms), *(("after", ms) for ms in after[-1:]), *(("sure", ms) for ms in after[:1])]
    bars = _layers([(name, ms / first_ms) for name, ms in parts], 10) + limit_at(limit_ms, first_ms, 10)
    return Shape('<svg class="price" width="100%%" height="10" aria-hidden="true">%s</svg>') % bars


def meter(share: float, label: str) -> Markup:
    """Draw a small bar of a share."""
    return Shape(
        '<svg class="meter" width="100%%" height="5" role="img" aria-label="%s"><rect class="track" width="100%%" height="5"/>'
        '<rect class="fill" width="%s" height="5"/></svg>'
    ) % (label, span(share))


def share_bar(share: float) -> Markup:
    """Draw the bar beside a share in a table; the figure says the same, so that it is silent."""
    return Shape('<svg class="share" aria-hidden="true"><rect width="%s" height="8"/></svg>') % span(share)


def classes(most: float, time: float, on: float | None, unsaid: float | None) -> Markup:
    """Draw a bar of a class of kernels: on Tensor Cores, unsaid, and the rest."""
    if most <= 0:
        return Markup("")
    on, unsaid = on or 0.0, unsaid or 0.0
    parts = (("class-rest", time), ("class-unsaid", on + unsaid), ("class-on", on))
    bars = _layers([(name, value / most) for name, value in parts], 12)
    return Shape('<svg class="class" width="100%%" height="12" aria-hidden="true">%s</svg>') % bars

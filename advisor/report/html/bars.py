"""The ranks of a run as bars side by side: what each did with its step."""

from __future__ import annotations

from markupsafe import Markup

from advisor.report import ranks
from advisor.report.html.svg import Shape, colour, span, text_of
from advisor.report.plain import milliseconds
from advisor.results.ranks import Across, RankRow

_HIGH, _LABEL = 20, 0.13
KEYS = (
    ("compute", "compute"),
    ("communication", "exposed communication, once all have come"),
    ("sync", "exposed communication, waiting for late ranks"),
    ("loader", "idle, waiting for data"),
    ("host", "the rest of the step"),
)
"""Colour and name of the parts of a bar; they are those of the causes."""


def parts(row: RankRow) -> list[tuple[str, float]]:
    """Return colour and share of each part of a rank's step, of those that its trace tells; they add up to 1."""
    compute, exposed, wait = row.compute_share or 0.0, row.communication_share or 0.0, row.wait_share or 0.0
    wait, loader = min(wait, exposed), row.loader_share or 0.0
    rest = max(1.0 - compute - exposed - loader, 0.0)
    return [("compute", compute), ("communication", exposed - wait), ("sync", wait), ("loader", loader), ("host", rest)]


def chart(across: Across) -> Markup:
    """Draw a bar a rank, as long as its step; without steps all are as long as the window."""
    rows = [row for row in ranks.shown(across) if row.compute_share is not None]
    most = max((row.step_ms or 0.0 for row in rows), default=0.0)
    shapes = []
    for line, row in enumerate(rows):
        long = (row.step_ms / most if row.step_ms is not None and most else 1.0) * (1 - _LABEL)
        shapes.append(Shape('<text class="tick" x="2" y="%d">rank %d</text>') % (line * _HIGH + 13, row.rank))
        left = _LABEL
        for (name, share), (_, meaning) in zip(parts(row), KEYS, strict=True):
            if share > 0:
                title = f"rank {row.rank}: {meaning} {100 * share:.1f} %"
                if row.step_ms is not None:
                    title += f", {milliseconds(share * row.step_ms)}"
                shape = Shape('<rect class="%s" x="%s" y="%d" width="%s" height="%d"><title>%s</title></rect>')
                place = (span(left), line * _HIGH + 2, span(share * long), _HIGH - 4)
                shapes.append(shape % (colour(name), *place, text_of(title)))
            left += share * long
    if not shapes:
        return Markup("")
    return Shape('<svg class="chart" width="100%%" height="%d" role="img" aria-label="%s">%s</svg>') % (
        len(rows) * _HIGH + 4,
        "What each rank does with its step; the table says the same in figures",
        Markup("").join(shapes),
    )

"""``limits``: how far a step and its kernels are from what the device can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from advisor.mcp.answers import Answer
from advisor.mcp.tool import Arguments, Tool, Trace
from advisor.mcp.workspace import Workspace

if TYPE_CHECKING:
    from advisor.results.analysis import Summary

_KERNELS = """
SELECT op, name, shapes, count(*) AS kernels, sum(dur_ns)/1e6 AS ms, sum(limit_ns)/1e6 AS limit_ms,
       sum(reachable_ns)/1e6 AS reachable_ms, any_value(bound) AS bound, any_value(reason) AS reason
FROM kernels WHERE limit_ns IS NOT NULL GROUP BY op, name, shapes
ORDER BY sum(dur_ns - coalesce(reachable_ns, limit_ns)) DESC LIMIT 40
"""


class Limits(Arguments, frozen=True, kw_only=True):
    """The trace of which limits are asked."""

    trace: Trace


def run(workspace: Workspace, arguments: Limits) -> Answer:
    """Tell the step's limit, MFU and the kernels that are furthest from theirs."""
    from advisor.report.plain import shorten
    from advisor.report.rows import show

    analysis = workspace.analysis(arguments.trace)
    lines = list(_figures(analysis.summary))
    if analysis.summary.limit_ms is None and not analysis.summary.distance:
        lines.append("cannot be answered from this trace: no kernel's work and device are both known")
        return Answer("\n".join(lines), "Record with record_shapes=True, on a GPU that the trace names.")
    lines += [
        f"{part.op}: {part.ms:.4g} ms, limit {part.limit_ms:.4g}, reachable {part.reachable_ms:.4g}"
        for part in analysis.summary.distance
    ]
    lines += [f"limit not known of {part.ms:.4g} ms: {part.reason}" for part in analysis.summary.unmodelled]
    with workspace.lock:
        from advisor.engine.query import run as ask

        names, rows = ask(workspace.trace(arguments.trace), _KERNELS)
    cells = [tuple(_cell(value, shorten) for value in row) for row in rows]
    return Answer("\n".join([*lines, "", "kernels in the whole trace, furthest first:", show(names, cells, "csv", 0)]))


def _figures(summary: Summary) -> list[str]:
    figures = {
        "step or window, ms": summary.priced_ms,
        "the same with each kernel at the hardware's limit, ms": summary.limit_ms,
        "with each kernel at what programs reach, ms": summary.reachable_ms,
        "MFU": summary.mfu,
        "HFU": summary.hfu,
        "share of kernel time whose limit is known": summary.modelled_share,
        "reachable time over recorded time of those kernels": summary.kernel_efficiency,
        "share of peak bandwidth, of kernels that memory bounds": summary.bandwidth_share,
    }
    return [f"{name}: {'not known' if value is None else f'{value:.4g}'}" for name, value in figures.items()]


def _cell(value: Any, shorten: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    return shorten(value, 60) if isinstance(value, str) else value


TOOL = Tool(
    name="limits",
    title="Distance from the hardware's limit",
    description=(
        "Tell how fast the step could be with each kernel at the hardware's limit and at what programs reach, MFU, and the "
        "operators and kernels that are furthest from it, with the reason that their sizes show."
    ),
    arguments=Limits,
    run=run,
)

"""``compare``: two traces side by side."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from advisor.mcp.answers import Answer
from advisor.mcp.tool import Arguments, Path, Tool
from advisor.mcp.workspace import Workspace

_WIDTH = 110


class Compare(Arguments, frozen=True, kw_only=True):
    """The traces to compare."""

    before: Annotated[Path, Meta(description="Trace before the change.")]
    after: Annotated[Path, Meta(description="Trace after it.")]


def run(workspace: Workspace, arguments: Compare) -> Answer:
    """Compare the traces: the step, its causes, the findings, and whether each fix held what it promised."""
    from advisor.gating.compare import compare
    from advisor.report import Options, render

    before, after = workspace.viewed(arguments.before), workspace.viewed(arguments.after)
    text = render("text", compare(before, after), Options(width=_WIDTH)).decode()
    return Answer(
        text,
        "Probably, and not certain, mean that the steps are too few, or vary too much, to tell: record more of them.",
    )


TOOL = Tool(
    name="compare",
    title="Two traces side by side",
    description=(
        "Compare a trace from before a change with one from after it: is the step faster beyond noise, what became of its "
        "causes, findings, kernels and operators, and does each fix hold what its finding promised."
    ),
    arguments=Compare,
    run=run,
)

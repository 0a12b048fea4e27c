"""``analyze``: the brief of a trace, or of the ranks in a folder."""

from __future__ import annotations

from advisor.mcp.answers import Answer
from advisor.mcp.tool import Arguments, Folder, Tool
from advisor.mcp.workspace import Workspace


class Analyze(Arguments, frozen=True, kw_only=True):
    """The trace to analyze."""

    trace: Folder


def run(workspace: Workspace, arguments: Analyze) -> Answer:
    """Analyze the trace: headline, causes, findings with numbers and savings, and what was not recorded."""
    from advisor.report import brief

    document = workspace.document(arguments.trace)
    note = (
        "A saving is a range: cautious to hopeful. What is not recorded cannot be answered from this trace. "
        "Ask on with explain (finding=number or rule), timeline, limits, what_if, query."
    )
    return Answer(brief.of(document, _next), note)


def _next(path: str, number: int | None) -> str:
    return f"query(trace={path!r}, sql=...)" if number is None else f"explain(trace={path!r}, finding='{number}')"


TOOL = Tool(
    name="analyze",
    title="What slows a program down",
    description=(
        "Analyze a PyTorch profiler trace: what the recording is, where the time goes, and the findings in the order to fix "
        "them, each with a number, rule, saving as a range, place in the source and fix. Ask this first. A folder of traces, "
        "one a rank, is analyzed together."
    ),
    arguments=Analyze,
    run=run,
)

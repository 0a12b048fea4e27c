"""``analyze``: the brief of a trace, or of the ranks in a folder."""

from __future__ import annotations

from advisor.mcp.answers import Answer
from advisor.mcp.tool import Arguments, Folder, Tool
from advisor.mcp.workspace import Workspace
from advisor.report import brief
from advisor.results.analysis import Analysis
from advisor.results.several import Several

NOTE = (
    "A saving is a range, cautious to hopeful. What is not recorded cannot be answered from this trace. "
    "Ask on: explain (finding: a number or a rule), timeline, limits, what_if, query."
)


class Analyze(Arguments, frozen=True, kw_only=True):
    """The trace to analyze."""

    trace: Folder


def run(workspace: Workspace, arguments: Analyze) -> Answer:
    """Analyze the trace: headline, causes, findings with numbers and savings, and what was not recorded."""
    document = workspace.document(arguments.trace)
    return Answer(brief.text(document, _next(document)), NOTE)


def _next(document: Analysis | Several) -> str:
    number = brief.first(document) if isinstance(document, Analysis) else None
    return "query, timeline, limits" if number is None else f"explain with finding='{number}'"


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

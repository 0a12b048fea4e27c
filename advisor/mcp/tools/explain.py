"""``explain``: everything about a finding of a trace."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from advisor.errors import UsageError
from advisor.mcp.answers import Answer
from advisor.mcp.tool import Arguments, Folder, Short, Tool
from advisor.mcp.workspace import Workspace
from advisor.results.analysis import Analysis

_WIDTH = 120


class Explain(Arguments, frozen=True, kw_only=True):
    """The finding to explain."""

    trace: Folder
    finding: Annotated[
        Short,
        Meta(description="Number of the finding in analyze's answer, or its rule; also a rule that has no finding."),
    ]


def run(workspace: Workspace, arguments: Explain) -> Answer:
    """Explain the finding; of a rule without one, say what it came to."""
    from advisor.report import Options, render
    from advisor.report.documents import explain

    document = workspace.document(arguments.trace)
    if isinstance(document, Analysis) and (verdict := _verdict(document, arguments.finding)):
        return Answer(verdict)
    try:
        explain.choose(document, arguments.finding)
    except UsageError as error:
        raise UsageError(f"{str(error).removeprefix('--')}. The findings are listed by analyze.") from None
    text = render("text", document, Options(width=_WIDTH, explain=arguments.finding)).decode()
    return Answer(text, "Its rows: query, with the columns of its evidence. Fixes together: what_if.")


def _verdict(analysis: Analysis, name: str) -> str:
    """Return what became of a rule that has no finding; nothing for one that has, or is not known."""
    verdicts = analysis.verdicts
    if any(name in (finding.rule, finding.rule.partition("/")[2]) for finding in analysis.findings):
        return ""
    if name in verdicts.passes:
        return f"{name}: passes: the trace has what the rule needs, and shows nothing that matters"
    for quiet in verdicts.not_applicable:
        if name == quiet.rule:
            return f"{name}: not applicable: {quiet.because}"
    for lacking in verdicts.not_run:
        if name == lacking.rule:
            return f"{name}: cannot be answered from this trace: it lacks {', '.join(lacking.needs)}. {lacking.how}"
    for note in analysis.quality:
        if name in (note.code, f"profile/{note.code}"):
            return f"{name}: {note.message}. {note.advice}"
    return ""


TOOL = Tool(
    name="explain",
    title="Everything about a finding",
    description=(
        "Explain a finding of analyze: its price and what that rests on, places in the source, evidence rows, the fix as code, "
        "when it does not help, and how to verify it. Also tells of a rule without a finding whether it passed, does not apply, "
        "or could not be run for want of data."
    ),
    arguments=Explain,
    run=run,
)

"""``gate``: traces held against a baseline, as CI does it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from advisor.errors import UsageError
from advisor.mcp.answers import Answer
from advisor.mcp.tool import Arguments, Path, Tool
from advisor.mcp.workspace import Workspace

_WIDTH = 110


class Gate(Arguments, frozen=True, kw_only=True):
    """Repeated runs of one workload, and their baseline."""

    traces: Annotated[list[Path], Meta(min_length=1, max_length=20, description="Traces of the same workload.")]
    baseline: Annotated[
        str, Meta(max_length=1000, description="File that `advisor baseline` wrote; empty to check assertions only.")
    ] = ""
    all: Annotated[bool, Meta(description="Every check, also those that stayed the same.")] = False


def run(workspace: Workspace, arguments: Gate) -> Answer:
    """Judge the traces: passed, failed or inconclusive, and by which checks."""
    from advisor.gating.baseline import load
    from advisor.gating.run import judge_traces
    from advisor.report import Options, render
    from advisor.report.gate import FORMATS

    settings = workspace.settings
    if not arguments.baseline and not settings.gate.assertions:
        raise UsageError("nothing to hold the trace against: name a baseline, or assert in [tool.advisor.gate]")
    base = load(workspace.roots.file(arguments.baseline)) if arguments.baseline else None
    analyses = [workspace.analysis(path) for path in arguments.traces]
    notes: list[str] = []
    with workspace.lock:
        judgement = judge_traces(analyses, settings, workspace.rulebook, base, arguments.baseline, note=notes.append)
    text = render("text", judgement, Options(width=_WIDTH, verbosity=1 if arguments.all else 0), FORMATS).decode()
    return Answer("\n".join([f"verdict: {judgement.verdict}", *notes, text]), "Why a check failed: analyze, compare.")


TOOL = Tool(
    name="gate",
    title="Traces against a baseline",
    description=(
        "Judge one or more traces of a workload against its baseline, as `advisor gate` does in CI: passed, failed or "
        "inconclusive, with each figure or rule that regressed."
    ),
    arguments=Gate,
    run=run,
)

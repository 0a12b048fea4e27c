"""``fix``: the edits of the source that the findings of a trace ask for, as diffs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from advisor.errors import UsageError
from advisor.mcp import programs
from advisor.mcp.answers import Answer
from advisor.mcp.tool import Arguments, Tool, Trace
from advisor.mcp.workspace import Workspace

if TYPE_CHECKING:
    from advisor.results.fixes import Fixes

_WIDTH = 120
_SLACK = 120
"""Seconds beyond the budget in which the runs end and what is kept is written."""


class Fix(Arguments, frozen=True, kw_only=True):
    """The trace, and the program that it is of."""

    trace: Trace
    script: Annotated[
        str,
        Meta(max_length=1000, description="Script that was recorded, relative to a root; empty: found by the places of findings."),
    ] = ""  # fmt: skip
    apply: Annotated[
        bool,
        Meta(description="Run the script with and without each edit, and write what is faster and computes the same to its "
             "files. Only on a server that was started with --allow-write."),
    ] = False  # fmt: skip
    arguments: Annotated[
        list[Annotated[str, Meta(max_length=1000)]],
        Meta(max_length=100, description="For apply: arguments of the script."),
    ] = []
    budget_seconds: Annotated[int, Meta(ge=10, le=7200, description="For apply: time for all runs.")] = 600


def run(workspace: Workspace, arguments: Fix) -> Answer:
    """Show the edits as diffs, and the place and a sketch where none can be made for certain."""
    from advisor.fix import require
    from advisor.report import Options, render
    from advisor.report.fixes import FORMATS

    require()
    if arguments.apply:
        return _apply(workspace, arguments)
    text = render("text", _proposed(workspace, arguments), Options(width=_WIDTH, verbosity=1), FORMATS).decode()
    return Answer(
        text,
        "Nothing was written or run. Make one edit, record again the same way, and compare: keep it only if it is faster.",
    )


def _proposed(workspace: Workspace, arguments: Fix) -> Fixes:
    """Propose edits below the script's root; without a script below the first root that any can be made in."""
    from advisor.fix.command import proposed
    from advisor.fix.project import Project

    analysis = workspace.analysis(arguments.trace)
    recorded = workspace.trace(arguments.trace).context.metadata.recorded
    among = partial(workspace.among, arguments.trace)
    script = workspace.roots.file(arguments.script) if arguments.script else None
    folders = workspace.roots.folders if script is None else [workspace.roots.holding(script)]
    for folder in folders:
        project = Project(script, root=folder)
        found = proposed(arguments.script or arguments.trace, analysis, recorded, project, among)
        if found.fixes:
            break
    return found


def _apply(workspace: Workspace, arguments: Fix) -> Answer:
    if not workspace.allow_write:
        raise UsageError(
            "fix: this server only reads; call it without apply for the diffs. To write, ask whoever starts the server to add "
            "--allow-write, or run `advisor fix --verify --apply` in a shell."
        )
    if not arguments.script:
        raise UsageError("fix: apply runs the program: name its script")
    trace, script = workspace.roots.file(arguments.trace), workspace.roots.file(arguments.script)
    root, seconds = workspace.roots.holding(script), arguments.budget_seconds
    options = ["--verify", "--apply", "--from", str(trace), "--root", str(root), "--budget", f"{seconds}s"]
    ended = programs.advisor(
        ["fix", *options, str(script), *arguments.arguments],
        script.parent,
        seconds + _SLACK,
        f"{arguments.script}: ended {_SLACK} s after its budget of {seconds} s; give more, or try it in a shell",
    )
    return Answer(
        "\n".join([f"exit status {ended.status}", *ended.lines]), "What was kept is written; look at the diff."
    )


TOOL = Tool(
    name="fix",
    title="Edits of the source",
    description=(
        "Propose the edits of the program's source that the findings of a trace ask for, each as a diff with its predicted "
        "saving; where none can be made for certain, the place and a sketch. Writes nothing, unless apply is asked of a server "
        "that was started with --allow-write. Needs libcst."
    ),
    arguments=Fix,
    run=run,
    may_write=True,
)

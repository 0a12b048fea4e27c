"""``history``: figures over commits, and the commits at which their levels changed."""

from __future__ import annotations

import os
from typing import Annotated

from msgspec import Meta

from advisor.errors import UsageError
from advisor.mcp.answers import Answer
from advisor.mcp.tool import Arguments, Path, Short, Tool
from advisor.mcp.workspace import Workspace

_WIDTH = 110


class History(Arguments, frozen=True, kw_only=True):
    """The store to read, and what of it."""

    store: Annotated[
        Path, Meta(description="Folder that `advisor history add` fills, relative to a root of the server.")
    ] = "advisor-history"
    branch: Annotated[Short, Meta(description="The branch; empty for the one with most runs.")] = ""
    metrics: Annotated[
        list[Short], Meta(max_length=50, description="Only these figures, such as step_ms; else all.")
    ] = []
    check: Annotated[bool, Meta(description="Judge the newest runs: passed, failed or inconclusive.")] = False
    runs: Annotated[int, Meta(ge=1, le=100_000, description="For check: how many runs are the newest.")] = 30
    since: Annotated[
        Short, Meta(description="For check: a commit; changes up to it are known and accepted. Empty for none.")
    ] = ""


def run(workspace: Workspace, arguments: History) -> Answer:
    """Show each figure with the commits between which its level changed, or judge the newest runs."""
    from advisor.gating.history.store import Store
    from advisor.gating.history.summary import check, history
    from advisor.report import Options, render
    from advisor.report.history import FORMATS

    place = workspace.roots.existing(arguments.store)
    if not place.is_dir():
        raise UsageError(f"{arguments.store}: is a file; name the folder that `advisor history add` fills")
    for name in os.listdir(place):
        workspace.roots.existing(str(place / name))  # a symlink out of the roots is refused
    document = history(Store(str(place)), arguments.branch or None, arguments.metrics)
    if not arguments.check:
        text = render("text", document, Options(width=_WIDTH, verbosity=1), FORMATS).decode()
        return Answer(text, "Whether the newest runs drift: check=true. Two traces of them: compare.")
    drift = check(document, arguments.runs, arguments.since or None)
    text = render("text", drift, Options(width=_WIDTH), FORMATS).decode()
    return Answer(f"verdict: {drift.verdict}\n{text}", "Where a figure changed: the same without check.")


TOOL = Tool(
    name="history",
    title="Figures over commits",
    description=(
        "Show how the figures of a workload went over commits, and between which commits a level changed; with check, whether "
        "the newest runs got worse, as `advisor history check` judges it in CI."
    ),
    arguments=History,
    run=run,
)

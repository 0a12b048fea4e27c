"""``record``: run a script and record some of its steps; only where the server may write."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from advisor.errors import UsageError
from advisor.mcp import programs
from advisor.mcp.answers import Answer
from advisor.mcp.tool import Arguments, Path, Tool
from advisor.mcp.workspace import Workspace


class Record(Arguments, frozen=True, kw_only=True):
    """The script to run, and what to record of it."""

    script: Annotated[Path, Meta(description="Python script, relative to a root of the server; it is run.")]
    output: Annotated[Path, Meta(description="The trace to write, a new .json.gz relative to a root.")]
    arguments: Annotated[
        list[Annotated[str, Meta(max_length=1000)]], Meta(max_length=100, description="Arguments of the script.")
    ] = []
    steps: Annotated[int, Meta(ge=1, le=1000, description="Steps to record.")] = 5
    skip: Annotated[int, Meta(ge=1, le=100_000, description="Steps to leave out before: they warm up.")] = 5
    seconds: Annotated[int, Meta(ge=1, le=3600, description="Time until the script is ended.")] = 600


def run(workspace: Workspace, arguments: Record) -> Answer:
    """Run ``advisor record`` in a process of its own, and tell the trace that it wrote."""
    script, output = workspace.roots.file(arguments.script), workspace.roots.target(arguments.output)
    if not output.name.endswith((".json", ".json.gz")):
        raise UsageError(f"{arguments.output}: name the trace .json or .json.gz")
    if output.exists():
        raise UsageError(f"{arguments.output}: exists; name a new file")
    options = ["-o", str(output), "--steps", str(arguments.steps), "--skip", str(arguments.skip), "--stop"]
    ended = programs.advisor(
        ["record", *options, str(script), *arguments.arguments],
        script.parent,
        arguments.seconds,
        f"{arguments.script}: ended after {arguments.seconds} s without a trace; give more seconds, or fewer steps",
    )
    if not output.exists():
        return Answer(
            "\n".join([f"exit status {ended.status}, no trace", *ended.tail]), "Mend the script, and record again."
        )
    name = workspace.roots.shown(output)
    return Answer(
        "\n".join([f"exit status {ended.status}, trace {name}", *ended.tail]), f"Next: analyze(trace={name!r})."
    )


TOOL = Tool(
    name="record",
    title="Record a script",
    description=(
        "Run a Python training or inference script, unmodified, and record some of its steps to a new trace. Runs a program and "
        "writes a file: offered only by a server that was started with --allow-write. Needs torch."
    ),
    arguments=Record,
    run=run,
    writes=True,
)

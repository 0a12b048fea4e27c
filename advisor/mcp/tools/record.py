"""``record``: run a script and record some of its steps; only where the server may write."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated

from msgspec import Meta

from advisor.errors import UsageError
from advisor.mcp.answers import Answer
from advisor.mcp.tool import Arguments, Path, Tool
from advisor.mcp.workspace import Workspace

_LINES = 30


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
    command = [sys.executable, "-m", "advisor", "record", *options, str(script), *arguments.arguments]
    process = subprocess.Popen(
        command,
        cwd=script.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=arguments.seconds)
    except subprocess.TimeoutExpired:
        _end(process)
        raise UsageError(
            f"{arguments.script}: ended after {arguments.seconds} s without a trace; give more seconds, or fewer steps"
        ) from None
    lines = printed.decode("utf-8", "replace").splitlines()
    tail = [f"the script's last lines, of {len(lines)}:", *lines[-_LINES:]] if lines else ["the script printed nothing"]
    if not output.exists():
        return Answer(
            "\n".join([f"exit status {process.returncode}, no trace", *tail]), "Mend the script, and record again."
        )
    name = workspace.roots.shown(output)
    return Answer(
        "\n".join([f"exit status {process.returncode}, trace {name}", *tail]), f"Next: analyze(trace={name!r})."
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the script and all that it started."""
    import os
    import signal

    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


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

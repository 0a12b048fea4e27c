"""Asks an agent the questions, grades its answers, and writes what came of it.

    ADVISOR_TRACES=/path/to/traces python benchmarks/questions/run.py                  # the scripted agent, over stdio
    ADVISOR_TRACES=… python benchmarks/questions/run.py --http                         # the same over HTTP
    ADVISOR_TRACES=… python benchmarks/questions/run.py --command 'my-agent --flags'   # a model's

Another agent is a command that is started once a question. It reads one JSON object from its standard input: ``question``,
``trace`` (a path), ``unit``, and ``server``, the command of an MCP server that can read the trace. The last line that it
prints is a JSON object: ``{"answer": 12.3}``, a text, or null for "cannot answer". Without the server it can be asked to do
with the raw trace and pandas.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import agent
import grading
import keys
from mcp import Client, StdioServerParameters, stdio_client

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOKEN = "a-token-for-this-run-only"
Result = dict[str, Any]


def roots() -> list[Path]:
    """Return the folders that hold the traces."""
    traces = Path(os.environ["ADVISOR_TRACES"]).resolve()
    return [folder for folder in (traces, traces.parent / "audited") if folder.is_dir()]


def server(*more: str) -> list[str]:
    """Return the command of the server over the traces."""
    named = [word for folder in roots() for word in ("--root", str(folder))]
    return [sys.executable, "-m", "advisor", "mcp", *named, *more]


def environment() -> dict[str, str]:
    """Return the server's environment: this checkout, and no cache on the disk."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "ADVISOR_CACHE": "off",
    }


@asynccontextmanager
async def connected(over_http: bool) -> AsyncIterator[Client]:
    """Start a server and connect to it, over stdio or HTTP."""
    if not over_http:
        command, *arguments = server()
        parameters = StdioServerParameters(command=command, args=arguments, env=environment())
        async with Client(stdio_client(parameters)) as client:
            yield client
        return
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    process = subprocess.Popen(
        server("--http", "0"), env=environment() | {"ADVISOR_MCP_TOKEN": TOKEN}, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        address = process.stderr.readline().split()[-1]
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=300) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            yield client
    finally:
        process.terminate()
        process.wait()


async def scripted(questions: list[Result], over_http: bool) -> list[Result]:
    """Let the scripted agent answer all questions in one session."""
    results = []
    async with connected(over_http) as client:
        for question in questions:
            sizes: list[int] = []

            async def call(tool: str, arguments: dict[str, Any], sizes: list[int] = sizes) -> str:
                got = await client.call_tool(tool, arguments)
                text = "".join(part.text for part in got.content)
                sizes.append(len(text.encode()))
                if got.is_error:
                    raise agent.Refused(text)
                return text

            name = _relative(question["trace"])
            started = time.perf_counter()
            try:
                answer = await agent.answer(call, name, question["kind"], question.get("argument", ""))
            except agent.Refused as error:  # no answer, and least of all "cannot answer"
                answer = f"error: {error}"
            seconds = time.perf_counter() - started
            results.append({"id": question["id"], "answer": answer, "bytes": sizes, "seconds": round(seconds, 3)})
    return results


def _relative(trace: str) -> str:
    path = keys.path_of(trace).resolve()
    return next(path.relative_to(root) for root in roots() if path.is_relative_to(root)).as_posix()


def commanded(questions: list[Result], command: str) -> list[Result]:
    """Let a command answer each question."""
    results = []
    for question in questions:
        task = {
            "question": question["text"],
            "unit": question.get("unit"),
            "trace": str(keys.path_of(question["trace"])),
            "server": server(),
        }
        started = time.perf_counter()
        done = subprocess.run(
            shlex.split(command), input=json.dumps(task), capture_output=True, text=True, env=environment(), check=False
        )
        last = done.stdout.strip().splitlines()[-1:] or ["{}"]
        try:
            answer = json.loads(last[0]).get("answer", "no answer")
        except (ValueError, AttributeError):
            answer = "no answer"
        seconds = round(time.perf_counter() - started, 3)
        results.append({"id": question["id"], "answer": answer, "bytes": [], "seconds": seconds})
    return results


def main() -> None:
    """Ask, grade and print; ``-o`` writes all results as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--http", action="store_true", help="the server over HTTP")
    parser.add_argument("--command", help="an agent's command; else the scripted agent")
    parser.add_argument("--only", default="", help="ids that begin with this")
    parser.add_argument("-o", "--output", type=Path, help="write all results as JSON")
    options = parser.parse_args()
    questions = [question for question in keys.questions() if question["id"].startswith(options.only)]
    questions.sort(key=lambda question: question["trace"])
    known = json.loads((HERE / "keys.json").read_text(encoding="utf-8"))
    if options.command:
        results = commanded(questions, options.command)
    else:
        results = asyncio.run(scripted(questions, options.http))
    grading.graded(questions, results, known)
    print(grading.summary(results))
    if options.output:
        options.output.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

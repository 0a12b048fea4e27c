"""Clients of ``advisor mcp``, made with the official package: in this process, over stdio and over HTTP."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "sixteen-characters-or-more"


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run an asynchronous test."""
    anyio.run(test)


def command(*options: str) -> list[str]:
    """Return the command of the server."""
    return [sys.executable, "-m", "advisor", "mcp", *options]


def environment() -> dict[str, str]:
    """Return its environment: this checkout, no cache, and the token."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "ADVISOR_CACHE": "off", "ADVISOR_MCP_TOKEN": TOKEN}


@asynccontextmanager
async def over_stdio(*options: str) -> AsyncIterator[Any]:
    """A client of a server in a process of its own."""
    from mcp import Client, StdioServerParameters, stdio_client

    first, *rest = command(*options)
    async with Client(stdio_client(StdioServerParameters(command=first, args=rest, env=environment()))) as client:
        yield client


@contextmanager
def http_server(*options: str) -> Iterator[str]:
    """The address of a server over HTTP, in a process of its own."""
    process = subprocess.Popen(command("--http", "0", *options), env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "http://127.0.0.1:" in line, line + process.stderr.read()
        yield line.split()[-1]
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()


@asynccontextmanager
async def over_http(address: str, token: str | None = TOKEN) -> AsyncIterator[Any]:
    """A client of that server."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=120) as http,
        Client(streamable_http_client(address, http_client=http)) as client,
    ):
        yield client


def text_of(result: Any) -> str:
    """Return the text of a tool's answer."""
    return "".join(part.text for part in result.content)


def installed() -> None:
    """Skip the module where the protocol's package is not installed."""
    pytest.importorskip("mcp_types", reason="the extra agents is not installed")

"""The tools, by name: each is a file with a ``TOOL``, imported when it is listed or called.

None of these files imports pandas, DuckDB or torch at its top: listing them must cost nothing.
"""

from __future__ import annotations

import importlib
from functools import cache

from advisor.mcp.tool import Tool

NAMES = ("analyze", "explain", "query", "timeline", "compare", "what_if", "limits", "gate", "history", "fix", "record")
"""The tools in the order in which clients list them."""


@cache
def load(name: str) -> Tool:
    """Load a tool of ``NAMES``."""
    tool: Tool = importlib.import_module(f"{__name__}.{name}").TOOL
    return tool


def offered(*, allow_write: bool) -> list[Tool]:
    """Return the tools that a server offers: those that write only where that is allowed."""
    return [tool for tool in map(load, NAMES) if allow_write or not tool.writes]

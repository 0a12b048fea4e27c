"""Fixes made in the source: from findings to edits, from an edit to runs before and after it, and to a verdict.

:mod:`~advisor.fix.propose` makes the edits that an analysis asks for, :mod:`~advisor.fix.verify` runs the program with and
without one, :mod:`~advisor.fix.project` writes what is kept. An edit is a file in :mod:`advisor.fix.edits`.
"""

from __future__ import annotations

from advisor.errors import UsageError


def require() -> None:
    """Raise UsageError where LibCST is not installed, or the system has no locks and process groups as POSIX has them."""
    import os
    from importlib.util import find_spec

    if os.name != "posix":
        raise UsageError("advisor fix runs on Linux and macOS")
    if find_spec("libcst") is None:
        raise UsageError(
            "editing needs libcst, which is not installed here: pip install libcst, or in a checkout of the advisor "
            "pip install '.[fix]'"
        )

"""Calls of gc.collect() and torch.cuda.empty_cache() in a loop."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from advisor.fix.arguments import place
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable, Source


def _dropped(request: Request, name: str, *, certain: bool = True) -> Iterator[Change]:
    """Remove the statements that call *name* in a loop, from the files that the finding and the script lie in.

    Where it is not *certain* that the finding is about such a call, there being none is no reason to give.
    """
    found = False
    for source in request.sources():
        calls = [call for call in source.calls(name) if source.in_loop(call) and not _rare(source, call)]
        statements = [source.parent(call) for call in calls]
        if not calls or not all(isinstance(statement, cst.Expr) for statement in statements):
            continue
        pieces = [source.without(statement) for statement in statements if isinstance(statement, cst.Expr)]
        found = True
        yield changed(source, pieces, f"no {name}() in the loop, {place(source, calls[0])}")
    if not found and certain:
        raise NotEditable(f"no statement calls {name}() in a loop's body by its name")


def _rare(source: Source, call: cst.Call) -> bool:
    """Tell whether a condition around the call, inside the loop, keeps it from running each time."""
    for outer in source.around(call):
        if isinstance(outer, cst.For | cst.While):
            return False
        if isinstance(outer, cst.If | cst.Else | cst.Try | cst.TryStar | cst.ExceptHandler | cst.Match):
            return True
    return False


def _collect(request: Request) -> Iterator[Change]:
    return _dropped(request, "gc.collect", certain=request.finding.rule == "cpu/gc-pause")


def _empty_cache(request: Request) -> Iterator[Change]:
    return _dropped(request, "torch.cuda.empty_cache")


def _synchronize(request: Request) -> Iterator[Change]:
    return _dropped(request, "torch.cuda.synchronize")


EDITS = (
    Edit(
        "gc-collect",
        "Collect garbage when Python does, not in each step",
        ("cpu/gc-pause", "cpu/python-time", "cpu/python-overhead", "gpu-idle/python-code"),
        _collect,
    ),
    Edit(
        "empty-cache",
        "Let the caching allocator keep its memory",
        ("memory/empty-cache-call", "memory/cudamalloc-in-step"),
        _empty_cache,
    ),
    Edit("synchronize", "Drop the synchronization in each step", ("sync/explicit-synchronize",), _synchronize),
)

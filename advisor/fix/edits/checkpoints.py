"""Activation checkpointing that memory does not ask for: the block is called directly."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import place
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable, Piece, Source

_NAME = "torch.utils.checkpoint.checkpoint"
_OWN = ("use_reentrant", "preserve_rng_state", "determinism_check", "debug", "early_stop")
"""Arguments of the checkpoint itself; with another context it does more than to compute again."""


def _make(request: Request) -> Iterator[Change]:
    for source in request.sources():
        calls = source.calls(_NAME)
        if not calls:
            continue
        pieces = [_direct(source, call) for call in calls]
        yield changed(source, [*pieces, *_import(source, len(calls))], f"no checkpoint at {place(source, calls[0])}")
        return
    raise NotEditable(f"no call of {_NAME} by its name")


def _direct(source: Source, call: cst.Call) -> Piece:
    """Return the piece that calls what is checkpointed. Raises ``NotEditable`` where that is not the same."""
    where = place(source, call)
    if _is_chosen(source, call):
        raise NotEditable(f"a condition chooses the checkpoint at {where}: set it there")
    own = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value in _OWN}
    reentrant = own.get("use_reentrant")
    # The reentrant form makes no gradients where no input asks for one: another result.
    if reentrant is None or source.code(reentrant) != "False":
        raise NotEditable(f"the checkpoint at {where} is not given use_reentrant=False")
    rest = [arg for arg in call.args if arg.keyword is None or arg.keyword.value not in _OWN]
    if any(arg.star == "**" or (arg.keyword is not None and arg.keyword.value == "context_fn") for arg in rest):
        raise NotEditable(f"the checkpoint at {where} has arguments that may be its own")
    if not rest or rest[0].keyword is not None or rest[0].star or "#" in source.code(call):
        raise NotEditable(f"what the checkpoint at {where} runs is not certain")
    block = rest.pop(0).value
    if not isinstance(block, cst.Name | cst.Attribute | cst.Call | cst.Subscript):
        raise NotEditable(f"what the checkpoint at {where} runs is no name")
    texts = [_argument(source, arg) for arg in rest]
    return Piece(source.start(call), source.end(call), f"{source.code(block)}({', '.join(texts)})")


def _is_chosen(source: Source, call: cst.Call) -> bool:
    """Tell whether a condition in the same function decides on the call."""
    for outer in source.around(call):
        if isinstance(outer, cst.FunctionDef):
            return False
        if isinstance(outer, cst.If | cst.Else | cst.IfExp):
            return True
    return False


def _argument(source: Source, arg: cst.Arg) -> str:
    keyword = f"{arg.keyword.value}=" if arg.keyword is not None else arg.star
    return f"{keyword}{source.code(arg.value)}"


def _import(source: Source, count: int) -> list[Piece]:
    """Return the piece that drops ``from torch.utils.checkpoint import checkpoint`` where nothing else needs it any more."""
    for statement in source.module.body:
        part = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        if not isinstance(part, cst.ImportFrom) or isinstance(part.names, cst.ImportStar) or len(part.names) != 1:
            continue
        name = part.names[0].evaluated_alias or part.names[0].evaluated_name
        owner = source.code(part.module) if part.module is not None else ""
        alone = isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1
        uses = len(matchers.findall(source.module, matchers.Name(name)))
        if alone and f"{owner}.{part.names[0].evaluated_name}" == _NAME:
            # In the import itself the name stands once, with an alias the other one beside it; in the module's path once more.
            inside = len(matchers.findall(part, matchers.Name(name)))
            return [source.without(part)] if uses == count + inside else []
    return []


EDITS = (
    Edit(
        "no-checkpointing",
        "Keep activations instead of computing them again",
        ("cpu/unneeded-checkpointing", "memory/unneeded-checkpointing"),
        _make,
    ),
)

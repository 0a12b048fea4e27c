"""Micro-batches under DistributedDataParallel: gradients are reduced in the last one before the optimizer steps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import place
from advisor.fix.code import assigned_pairs, called, calls_in, imported, indent_of, written
from advisor.fix.edit import Change, Edit, Request, changed, first_possible
from advisor.fix.source import INDENT, NotEditable, Piece, Source
from advisor.regex import regex

_DDP = ("torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel")
_STEP = regex(r"(opt|optim|optimizer|scaler)\w*\.step$", re.IGNORECASE)
"""Steps of an optimizer or a scaler of gradients, by its name: a schedule steps, too."""
_PLAIN = (
    cst.Name,
    cst.Attribute,
    cst.Integer,
    cst.BinaryOperation,
    cst.BooleanOperation,
    cst.Comparison,
    cst.UnaryOperation,
)


def _make(request: Request) -> Iterator[Change]:
    because = (
        "no loop calls a model in DistributedDataParallel, runs backward, and steps an optimizer under a condition"
    )
    calls = ((source, call) for source in request.sources() for call in source.method_calls("backward"))
    return first_possible(calls, _in_all_but_the_last, because)


def _in_all_but_the_last(source: Source, call: cst.Call) -> Change:
    pieces = [*_unsynced(source, call, _wrapped(source)), *imported(source, "contextlib")]
    return changed(source, pieces, f"no_sync() in all but the last micro-batch, {place(source, call)}")


def _wrapped(source: Source) -> set[str]:
    """Return the names that a file gives to models in DistributedDataParallel."""
    out = set()
    for assign in matchers.findall(source.module, matchers.Assign()):
        for target in assign.targets if isinstance(assign, cst.Assign) else ():
            for to, value in assigned_pairs(target.target, assign.value) if isinstance(assign, cst.Assign) else ():
                if isinstance(value, cst.Call) and source.name(value.func) in _DDP:
                    out.add(written(to))
    return out


def _unsynced(source: Source, call: cst.Call, models: set[str]) -> list[Piece]:
    """Return the pieces that put forward and backward pass of a micro-batch below ``with``."""
    where = place(source, call)
    statement = source.statement(call)
    block = source.parent(statement) if statement is not None else None
    loop = source.parent(block) if block is not None else None
    if not isinstance(block, cst.IndentedBlock) or not isinstance(loop, cst.For | cst.While) or statement is None:
        raise NotEditable(f"the pass at {where} is no statement of a loop's body")
    if "no_sync" in source.text or "static_graph" in source.text:
        raise NotEditable(f"{source.path} speaks of no_sync or of a static graph")
    body = list(block.body)
    end = body.index(statement)
    runs = [at for at, part in enumerate(body[: end + 1]) if any(called(each) in models for each in calls_in(part))]
    if not runs:
        raise NotEditable(f"no model in DistributedDataParallel is called by its name before the pass at {where}")
    model = next(called(each) for each in calls_in(body[runs[0]]) if called(each) in models)
    last, test, until = _last(source, body, end)
    if _set_in(body[runs[0] : until]) & {written(name) for name in matchers.findall(test, matchers.Name())}:
        raise NotEditable(f"what tells the last micro-batch is changed on the way, {where}")
    return _below(source, body[runs[0]], statement, f"contextlib.nullcontext() if {last} else {model}.no_sync()")


def _below(source: Source, first: cst.CSTNode, last: cst.CSTNode, context: str) -> list[Piece]:
    """Return the pieces that put statements below ``with``, from *first* to *last*."""
    first_line, last_line = source.lines(first)[0], source.lines(last)[1]
    start = source.line_start(first_line)
    text = source.text[start : source.line_start(last_line + 1)]
    if '"""' in text or "'''" in text:
        raise NotEditable(f"a text of several lines stands before the pass at {place(source, last)}")
    indent = indent_of(source, first_line)
    head = f"{indent}with {context}:{source.newline}{INDENT}"
    numbers = [number for number in range(first_line + 1, last_line + 1) if source.line(number).strip()]
    return [
        Piece(start, start, head),
        *(Piece(source.line_start(each), source.line_start(each), INDENT) for each in numbers),
    ]


def _set_in(statements: Sequence[cst.BaseStatement]) -> set[str]:
    """Return the names that statements assign or change."""
    out: set[str] = set()
    for statement in statements:
        for node in matchers.findall(statement, matchers.OneOf(matchers.AssignTarget(), matchers.AugAssign())):
            if isinstance(node, cst.AssignTarget | cst.AugAssign):
                out |= {written(name) for name in (node.target, *matchers.findall(node.target, matchers.Name()))}
    return out


def _last(source: Source, body: Sequence[cst.BaseStatement], end: int) -> tuple[str, cst.CSTNode, int]:
    """Return what tells the last micro-batch, as text and as it stands there: ``if last:`` around the step, or a continue."""
    for at in range(end + 1, len(body)):
        part = body[at]
        if not isinstance(part, cst.If):
            if any(_STEP.search(called(call)) for call in calls_in(part)):
                break
            continue
        test = part.test
        steps = any(_STEP.search(called(call)) for call in calls_in(part.body)) and part.orelse is None
        skips = isinstance(part.body, cst.IndentedBlock) and written(part.body.body[0]) == "continue"
        if not steps and not skips:
            continue
        more = matchers.OneOf(matchers.Call(), matchers.NamedExpr(), matchers.Await())
        if matchers.findall(test, more) or not isinstance(test, _PLAIN):
            raise NotEditable(f"the condition at {place(source, part)} is more than arithmetic of names")
        if steps:
            return source.code(test), test, at
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            return source.code(test.expression), test, at
        return f"not ({source.code(test)})", test, at
    raise NotEditable(f"no condition behind the pass at {place(source, body[end])} says when the optimizer steps")


EDITS = (
    Edit(
        "no-sync",
        "Reduce gradients once, in the last micro-batch",
        ("cpu/micro-batch-reduction", "distributed/micro-batch-reduction"),
        _make,
    ),
)

"""Losses that each run backward through the graph that they share, in a loop or line by line: their sum, once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import place
from advisor.fix.code import calls_in, function_around
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable, Piece, Source


def _make(request: Request) -> Iterator[Change]:
    because = "no lines that were recorded do nothing but call backward(retain_graph=True) of each loss"
    for source, line in request.places():
        for call in source.method_calls("backward"):
            first, last = source.lines(call)
            if not first <= line <= last:
                continue
            row = _row(source, call)
            piece = _joined(source, row) if len(row) > 1 else _summed(source, call)
            yield changed(source, [piece], f"one backward pass of the summed losses, {place(source, row[0])}")
            return
    raise NotEditable(because)


def _row(source: Source, call: cst.Call) -> list[cst.Call]:
    """Return the passes whose lines follow each other without a line of something else, with *call* among them."""
    statement = source.statement(call)
    block = source.parent(statement) if statement is not None else None
    body = list(block.body) if isinstance(block, cst.IndentedBlock | cst.Module) else []
    passes = [_pass(line) for line in body]
    row: list[cst.Call] = []
    for one in passes:
        if one is None and call in row:
            break
        row = [*row, one] if one is not None else []
    return row if call in row else [call]


def _pass(line: cst.CSTNode) -> cst.Call | None:
    """Return the call of a line that is nothing but ``loss.backward(…)``."""
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
    call = small.value if isinstance(small, cst.Expr) else None
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward":
        return call
    return None


def _joined(source: Source, row: Sequence[cst.Call]) -> Piece:
    """Return the piece that writes passes that follow each other as one of their sum."""
    where = place(source, row[0])
    for call in row[:-1]:
        _check_arguments(source, call)
    if row[-1].args:
        _check_arguments(source, row[-1])
    _check_alone(source, function_around(source, row[0]) or source.module, row)
    begin, until = source.start(row[0]), source.end(row[-1])
    if "#" in source.text[begin:until]:
        raise NotEditable(f"a comment stands among the passes at {where}")
    texts = [_loss(source, call) for call in row]
    if any(".grad" in text for text in texts):
        raise NotEditable(f"a loss at {where} is made of gradients")
    return Piece(begin, until, f"({' + '.join(texts)}).backward()")


def _loss(source: Source, call: cst.Call) -> str:
    """Return what a pass is of, as a term of a sum."""
    if not isinstance(call.func, cst.Attribute):
        raise NotEditable(f"the pass at {place(source, call)} is of no loss")
    loss, text = call.func.value, source.code(call.func.value)
    arithmetic = cst.Add | cst.Multiply | cst.Divide
    if isinstance(loss, cst.BinaryOperation) and isinstance(loss.operator, arithmetic) and len(loss.lpar) == 1:
        return text[1:-1].strip()
    return text


def _check_arguments(source: Source, call: cst.Call) -> None:
    given = {arg.keyword.value: source.code(arg.value) for arg in call.args if arg.keyword is not None}
    if len(given) != len(call.args) or given != {"retain_graph": "True"}:
        raise NotEditable(f"the pass at {place(source, call)} has other arguments than retain_graph=True")


def _check_alone(source: Source, around: cst.CSTNode, passes: Sequence[cst.Call]) -> None:
    """Raise ``NotEditable`` where a function takes other gradients than by *passes*."""
    again = [
        one
        for one in calls_in(around)
        if isinstance(one.func, cst.Attribute) and one.func.attr.value in ("backward", "grad")
    ]
    if sorted(again, key=source.start) != list(passes):
        where = place(source, passes[0])
        raise NotEditable(f"beside the passes at {where} other gradients are taken, perhaps of the same graph")


def _summed(source: Source, call: cst.Call) -> Piece:
    """Return the piece that writes the loop over losses as one pass of their sum."""
    where = place(source, call)
    loop = _loop(source, call)
    _check_arguments(source, call)
    around: cst.CSTNode = function_around(source, loop) or source.module
    _check_alone(source, around, [call])
    _check_behind(source, around, loop)
    begin, until = source.start(loop), source.end(call)
    if "#" in source.text[begin:until] or not isinstance(call.func, cst.Attribute):
        raise NotEditable(f"a comment stands in the loop at {where}")
    loss = call.func.value
    text = source.code(loss)
    if text.startswith("(") and isinstance(loss, cst.BinaryOperation) and len(loss.lpar) == 1:
        text = text[1:-1]
    each = f"{text} for {source.code(loop.target)} in {source.code(loop.iter)}"
    return Piece(begin, until, f"sum({each}).backward()")


def _loop(source: Source, call: cst.Call) -> cst.For:
    """Return the loop that does nothing else than the pass. Raises ``NotEditable`` where there is none."""
    where = place(source, call)
    statement = source.statement(call)
    block = source.parent(statement) if statement is not None else None
    loop = source.parent(block) if block is not None else None
    if not isinstance(loop, cst.For) or loop.orelse is not None or loop.asynchronous is not None or statement is None:
        raise NotEditable(f"the pass at {where} is not the only statement of a loop over losses")
    alone = isinstance(statement.body[0], cst.Expr) and statement.body[0].value is call and len(statement.body) == 1
    if not alone or not isinstance(block, cst.IndentedBlock) or len(block.body) != 1:
        raise NotEditable(f"the pass at {where} is not the only statement of a loop over losses")
    return loop


def _check_behind(source: Source, around: cst.CSTNode, loop: cst.For) -> None:
    """Raise ``NotEditable`` where what the loop counts is read behind it: a sum leaves no such name."""
    names = {source.code(name) for name in matchers.findall(loop.target, matchers.Name())}
    behind = (node for node in matchers.findall(around, matchers.Name()) if source.start(node) > source.end(loop))
    if any(source.code(node) in names for node in behind):
        raise NotEditable(f"what the loop at {place(source, loop)} counts is read behind it")


EDITS = (
    Edit("one-backward", "Run backward once, through the sum of the losses", ("gradient/repeated-backward",), _make),
)

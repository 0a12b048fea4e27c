"""Losses that each run backward through the graph that they share: their sum, once."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import place
from advisor.fix.code import calls_in, function_around
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable, Piece, Source


def _make(request: Request) -> Iterator[Change]:
    because = "no loop that was recorded does nothing but call backward(retain_graph=True) of each loss"
    for spot in request.finding.where:
        source, line = request.files.at(spot.file, spot.line)
        for call in source.method_calls("backward"):
            first, last = source.lines(call)
            if not first <= line <= last:
                continue
            piece = _summed(source, call)
            yield changed(source, [piece], f"one backward pass of the summed losses, {place(source, call)}")
            return
    raise NotEditable(because)


def _summed(source: Source, call: cst.Call) -> Piece:
    """Return the piece that writes the loop over losses as one pass of their sum."""
    where = place(source, call)
    loop = _loop(source, call)
    given = {arg.keyword.value: source.code(arg.value) for arg in call.args if arg.keyword is not None}
    if len(given) != len(call.args) or given != {"retain_graph": "True"}:
        raise NotEditable(f"the pass at {where} has other arguments than retain_graph=True")
    around: cst.CSTNode = function_around(source, loop) or source.module
    again = [
        one
        for one in calls_in(around)
        if isinstance(one.func, cst.Attribute) and one.func.attr.value in ("backward", "grad")
    ]
    if again != [call]:
        raise NotEditable(f"beside the passes at {where} other gradients are taken, perhaps of the same graph")
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

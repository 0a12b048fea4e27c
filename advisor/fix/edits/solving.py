"""Inverses that are only multiplied: the system is solved instead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import place
from advisor.fix.code import function_around, torch_name, written
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable, Piece, Source

_INVERSE = ("torch.inverse", "torch.linalg.inv")
_PRODUCT = ("torch.matmul", "torch.mm", "torch.mv", "torch.bmm")


def _make(request: Request) -> Iterator[Change]:
    because = "no line that was recorded inverts a matrix and multiplies the inverse from the left"
    for source, line in request.places():
        pieces: list[Piece] = []
        for call in matchers.findall(source.module, matchers.Call()):
            first, last = source.lines(call)
            if first <= line <= last and isinstance(call, cst.Call) and (matrix := _inverted(source, call)) is not None:
                try:
                    pieces += _solved(source, call, matrix)
                except NotEditable as reason:
                    because = str(reason)
        if pieces:
            yield changed(source, pieces, f"torch.linalg.solve in place of an inverse, {source.path}:{line}")
            return
    raise NotEditable(because)


def _inverted(source: Source, call: cst.Call) -> cst.BaseExpression | None:
    """Return the matrix that a call inverts; None where it does something else."""
    if source.name(call.func) in _INVERSE:
        plain = len(call.args) == 1 and call.args[0].keyword is None and not call.args[0].star
        return call.args[0].value if plain else None
    method = isinstance(call.func, cst.Attribute) and call.func.attr.value == "inverse" and not source.name(call.func)
    return call.func.value if method and isinstance(call.func, cst.Attribute) and not call.args else None


def _solved(source: Source, call: cst.Call, matrix: cst.BaseExpression) -> list[Piece]:
    """Return the pieces that solve with *matrix*: where its inverse stands in a product, or is a name that one product reads."""
    where, text = place(source, call), source.code(matrix)
    assign = source.parent(call)
    if not isinstance(assign, cst.Assign):
        return [_product(source, call, text)]
    target = assign.targets[0].target
    if len(assign.targets) != 1 or not isinstance(target, cst.Name):
        raise NotEditable(f"the inverse at {where} is kept")
    around: cst.CSTNode = function_around(source, call) or source.module
    uses = [node for node in matchers.findall(around, matchers.Name(target.value)) if node is not target]
    block = source.parent(source.parent(assign) or assign)
    if len(uses) != 1 or not isinstance(uses[0], cst.Name) or source.start(uses[0]) < source.end(assign):
        raise NotEditable(f"{target.value} of {where} is read by more than one product")
    statement = source.statement(uses[0])
    if statement is None or source.parent(statement) is not block:
        raise NotEditable(f"{target.value} of {where} is read in another block")
    between = source.text[source.end(assign) : source.start(uses[0])]
    if between.strip(" ").count("\n") > 1 and any(name in between for name in _names(matrix)):
        raise NotEditable(f"{text} may change between the inverse at {where} and the product")
    if "#" in source.line(source.lines(assign)[0]):
        raise NotEditable(f"a comment stands beside the inverse at {where}")
    return [source.without(assign), _product(source, uses[0], text)]


def _names(matrix: cst.BaseExpression) -> set[str]:
    return {written(name) for name in matchers.findall(matrix, matchers.Name())}


def _product(source: Source, inverse: cst.BaseExpression, matrix: str) -> Piece:
    """Return the piece that solves, where *inverse* is multiplied from the left with something."""
    where = place(source, inverse)
    holder = source.parent(inverse)
    solve = f"{torch_name(source)}.linalg.solve"
    if isinstance(holder, cst.Arg):
        call = source.parent(holder)
        args = list(call.args) if isinstance(call, cst.Call) else []
        if isinstance(call, cst.Call) and source.name(call.func) in _PRODUCT and len(args) > 1 and args[0] is holder:
            plain = len(args) == len((holder, inverse)) and not any(arg.star or arg.keyword for arg in args)
            if plain:
                return Piece(source.start(call), source.end(call), f"{solve}({matrix}, {source.code(args[1].value)})")
    outer = source.parent(holder) if holder is not None else None
    if _is_product(holder) and holder.left is inverse:
        return Piece(source.start(inverse), source.end(holder.right), f"{solve}({matrix}, {_bare(source, holder)})")
    # a @ inverse @ b is (a @ inverse) @ b.
    if _is_product(holder) and not holder.lpar and _is_product(outer) and outer.left is holder:
        return Piece(source.start(inverse), source.end(outer.right), f"{solve}({matrix}, {_bare(source, outer)})")
    raise NotEditable(f"the inverse at {where} is not multiplied from the left with something")


def _is_product(node: cst.CSTNode | None) -> TypeGuard[cst.BinaryOperation]:
    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.MatrixMultiply)


def _bare(source: Source, product: cst.BinaryOperation) -> str:
    text = source.code(product.right)
    return text[1:-1].strip() if len(product.right.lpar) == 1 and not isinstance(product.right, cst.Tuple) else text


EDITS = (Edit("solve", "Solve instead of inverting", ("cpu/explicit-inverse",), _make),)

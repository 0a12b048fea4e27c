"""Loops that reduce the gradient of each parameter over the ranks: one flat tensor, reduced once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import place
from advisor.fix.code import function_around, indent_of, torch_name, written
from advisor.fix.edit import Change, Edit, Request, changed, first_possible
from advisor.fix.source import INDENT, NotEditable, Piece, Source
from advisor.regex import regex

_REDUCE = ("torch.distributed.all_reduce", "torch.distributed.distributed_c10d.all_reduce")
_PARAMETERS = regex(r"[\w.]+\.(?:named_)?parameters\(\)")
_PARTS = regex(r"([A-Za-z_]\w*)(\.grad\.data|\.grad|\.data)")
_IN_PLACE = {"div_": "/=", "mul_": "*="}


@dataclass(frozen=True)
class Turn:
    """A turn of the loop: it reduces *tensor*, where *condition* holds, and scales it by *scaling* (``/= size``)."""

    call: cst.Call
    tensor: str
    condition: str
    scaling: str


def _make(request: Request) -> Iterator[Change]:
    because = "no line that was recorded calls all_reduce in a loop over parameters"
    calls = ((source, call) for source, line in request.places() for call in source.calls(*_REDUCE, line=line))
    looped = ((source, call) for source, call in calls if _loop(source, call) is not None)
    return first_possible(looped, _at_once, because)


def _loop(source: Source, call: cst.Call) -> cst.For | None:
    return next((outer for outer in source.around(call) if isinstance(outer, cst.For)), None)


def _at_once(source: Source, call: cst.Call) -> Change:
    loop = _loop(source, call)
    assert loop is not None
    piece = _flat(source, loop, _turn(source, loop, call))
    return changed(source, [piece], f"one all_reduce of all gradients, {place(source, call)}")


def _turn(source: Source, loop: cst.For, call: cst.Call) -> Turn:
    """Read the loop. Raises ``NotEditable`` where it does something else than to reduce, and to scale."""
    where = place(source, call)
    if loop.orelse is not None or loop.asynchronous is not None or not isinstance(loop.body, cst.IndentedBlock):
        raise NotEditable(f"the loop around {where} has another form")
    body, condition = list(loop.body.body), ""
    if len(body) == 1 and isinstance(body[0], cst.If):
        block = body[0].body
        if body[0].orelse is not None or not isinstance(block, cst.IndentedBlock):
            raise NotEditable(f"the loop around {where} has another form")
        condition, body = source.code(body[0].test), list(block.body)
    parts = [line.body[0] for line in body if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1]
    if len(parts) != len(body) or not 1 <= len(parts) <= 1 + 1:
        raise NotEditable(f"the loop around {where} does more than to reduce and to scale")
    if not isinstance(parts[0], cst.Expr) or parts[0].value is not call:
        raise NotEditable(f"what all_reduce returns at {where} is used, or something comes before it")
    tensor = _reduced(source, call)
    scaling = _scaling(source, parts[1], tensor, where) if len(parts) > 1 else ""
    return Turn(call, tensor, condition, scaling)


def _reduced(source: Source, call: cst.Call) -> str:
    """Return the tensor that a call reduces, as it is written."""
    first = next(iter(call.args), None)
    where = place(source, call)
    if first is None or first.star or (first.keyword is not None and first.keyword.value != "tensor"):
        raise NotEditable(f"what all_reduce is given at {where} is not certain")
    rest = list(call.args)[1:]
    known = all(arg.keyword is None or arg.keyword.value in ("op", "group") for arg in rest)
    if not known or any(arg.star for arg in rest) or len(rest) > len(("op", "group")):
        raise NotEditable(f"all_reduce at {where} is asynchronous, or has arguments that are not known")
    return written(first.value)


def _scaling(source: Source, part: cst.BaseSmallStatement, tensor: str, where: str) -> str:
    """Return how a line scales *tensor* in place, as ``/= size``."""
    text = factor = ""
    if isinstance(part, cst.AugAssign) and isinstance(part.operator, cst.DivideAssign | cst.MultiplyAssign):
        sign = "/=" if isinstance(part.operator, cst.DivideAssign) else "*="
        text, factor = written(part.target), f"{sign} {source.code(part.value)}"
    if isinstance(part, cst.Expr) and isinstance(part.value, cst.Call) and isinstance(part.value.func, cst.Attribute):
        method, args = part.value.func.attr.value, part.value.args
        if method in _IN_PLACE and len(args) == 1 and args[0].keyword is None and not args[0].star:
            text = written(part.value.func.value)
            factor = f"{_IN_PLACE[method]} {source.code(args[0].value)}"
    if text.removesuffix(".data") != tensor.removesuffix(".data"):
        raise NotEditable(f"the loop around {where} does more than to reduce and to scale")
    return factor


def _flat(source: Source, loop: cst.For, turn: Turn) -> Piece:
    """Return the piece that reduces all of the loop's tensors as one."""
    where = place(source, turn.call)
    match = _PARTS.fullmatch(turn.tensor)
    counted = {source.code(name) for name in matchers.findall(loop.target, matchers.Name())}
    over = written(loop.iter)
    if match is None or match[1] not in counted:
        raise NotEditable(f"what is reduced at {where} is no gradient of what the loop counts")
    if not _PARAMETERS.fullmatch(over) and match[2] == ".data":
        raise NotEditable(f"whether the loop at {where} is over parameters is not certain")
    options = [source.code(arg) for arg in list(turn.call.args)[1:]]
    if any(re.search(rf"\b{name}\b", text) for name in counted for text in (turn.scaling, *options)):
        raise NotEditable(f"how the tensors at {where} are reduced and scaled differs from one to the next")
    around: cst.CSTNode = function_around(source, loop) or source.module
    names = matchers.findall(around, matchers.Name())
    if any(source.start(name) > source.end(loop) and source.code(name) in counted for name in names):
        raise NotEditable(f"what the loop at {where} counts is read behind it")
    begin, until = source.start(loop), source.end(loop)
    if "#" in source.text[begin : source.line_start(source.lines(loop)[1] + 1)]:
        raise NotEditable(f"a comment stands in the loop at {where}")
    many, flat, one, part = _names(_used(source, around), source, match[2] == ".data")
    indent, torch = indent_of(source, source.lines(loop)[0]), torch_name(source)
    condition = f" if {turn.condition}" if turn.condition else ""
    given = "".join(f", {option}" for option in options)
    lines = [
        f"{many} = [{turn.tensor} for {source.code(loop.target)} in {source.code(loop.iter)}{condition}]",
        f"{flat} = {torch}.cat([{one}.flatten() for {one} in {many}])",
        f"{source.code(turn.call.func)}({flat}{given})",
        *([f"{flat} {turn.scaling}"] if turn.scaling else []),
        f"for {one}, {part} in zip({many}, {flat}.split([{one}.numel() for {one} in {many}])):",
        f"{INDENT}{one}.copy_({part}.view_as({one}))",
    ]
    return Piece(begin, until, f"{source.newline}{indent}".join(lines))


def _used(source: Source, around: cst.CSTNode) -> set[str]:
    """Return the names that stand for something in a function, or the module: no attributes, no keywords."""
    out = set()
    for node in matchers.findall(around, matchers.Name()):
        outer = source.parent(node)
        attribute = isinstance(outer, cst.Attribute) and outer.attr is node
        if not attribute and not (isinstance(outer, cst.Arg) and outer.keyword is node):
            out.add(source.code(node))
    return out


def _names(used: set[str], source: Source, data: bool) -> tuple[str, str, str, str]:
    """Return names that the function does not use: of the tensors, of the flat one, of one of them, of its part."""
    wanted = ("tensors", "flat", "tensor", "part") if data else ("grads", "flat", "grad", "part")
    names = [name if name not in used else f"{name}_" for name in wanted]
    if any(name in used for name in names):
        raise NotEditable(f"the function in {source.path} uses the names {', '.join(wanted)} already")
    return names[0], names[1], names[2], names[3]


EDITS = (
    Edit(
        "flat-reduction",
        "Reduce the gradients as one flat tensor",
        ("cpu/unbucketed-reduction", "cpu/collective-wait"),
        _make,
    ),
)

"""Layers of single positions: before an image is enlarged, and only of the position that is read."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import place, value_of
from advisor.fix.code import class_around, function_around, written
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable, Piece, Source
from advisor.regex import regex

_ENLARGE = ("torch.nn.functional.interpolate", "torch.nn.functional.upsample")
_CONVOLUTION = regex(r"torch\.nn\.(modules\.conv\.)?Conv[123]d")
_LINEAR = regex(r"torch\.nn\.(modules\.linear\.)?Linear")
_ONE = ("1", "1,", "1,1", "1,1,1")
_OTHER = {"stride": (3, _ONE), "padding": (4, ("0", "0,", "0,0", "0,0,0"))}
_LAST = regex(r"\[:,(-1|0|-1:)(,:)?\]")


def _make(request: Request) -> Iterator[Change]:
    because = "no line that was recorded calls a layer of what an interpolation makes, or reads few positions of one"
    for source, line in request.places():
        for form in (_enlarged, _read):
            try:
                pieces = form(source, line)
            except NotEditable as reason:
                because = str(reason)
                continue
            if pieces:
                what = (
                    "the layer before the image is enlarged" if form is _enlarged else "the layer of what is read of it"
                )
                yield changed(source, pieces, f"{what}, {source.path}:{line}")
                return
    raise NotEditable(because)


def _enlarged(source: Source, line: int) -> list[Piece]:
    """Return the pieces that call the layer before the interpolation: in one expression, or in two lines that follow each other."""
    for call in source.calls(*_ENLARGE):
        holder = source.parent(call)
        layer = source.parent(holder) if isinstance(holder, cst.Arg) else None
        if isinstance(layer, cst.Call) and len(layer.args) == 1 and _covers(source, layer, layer, line):
            _check_convolution(source, layer)
            return [Piece(source.start(layer), source.end(layer), _around(source, call, layer))]
        assign = holder
        following = _following(source, call)
        if isinstance(assign, cst.Assign) and following is not None and _covers(source, assign, following, line):
            return _swapped(source, call, assign, following)
    return []


def _covers(source: Source, first: cst.CSTNode, last: cst.CSTNode, line: int) -> bool:
    return source.lines(first)[0] <= line <= source.lines(last)[1]


def _following(source: Source, call: cst.Call) -> cst.SimpleStatementLine | None:
    """Return the line behind the one that holds *call*."""
    statement = source.statement(call)
    block = source.parent(statement) if statement is not None else None
    body = list(block.body) if isinstance(block, cst.IndentedBlock | cst.Module) else []
    if statement is None or statement not in body or len(statement.body) != 1:
        return None
    at = body.index(statement) + 1
    following = body[at] if at < len(body) else None
    return following if isinstance(following, cst.SimpleStatementLine) else None


def _around(source: Source, call: cst.Call, layer: cst.Call) -> str:
    """Return the interpolation of what the layer makes of the small image."""
    first = next(iter(call.args), None)
    if first is None or first.star or (first.keyword is not None and first.keyword.value != "input"):
        raise NotEditable(f"what is enlarged at {place(source, call)} is not certain")
    if "#" in source.code(call) or "#" in source.code(layer):
        raise NotEditable(f"comments stand among the lines at {place(source, call)}")
    opening = source.text[source.start(call) : source.start(first.value)]
    rest = source.text[source.end(first.value) : source.end(call)]
    return f"{opening}{source.code(layer.func)}({source.code(first.value)}){rest}"


def _swapped(source: Source, call: cst.Call, assign: cst.Assign, following: cst.SimpleStatementLine) -> list[Piece]:
    """Return the pieces for ``x = F.interpolate(x, …)`` and a line behind it that calls the layer of x."""
    where = place(source, call)
    target = assign.targets[0].target
    if len(assign.targets) != 1 or not isinstance(target, cst.Name):
        raise NotEditable(f"the image at {where} is given to more than a name")
    layers = [
        each
        for each in matchers.findall(following, matchers.Call())
        if isinstance(each, cst.Call) and len(each.args) == 1 and written(each.args[0].value) == target.value
    ]
    layers = [each for each in layers if each.args[0].keyword is None and not each.args[0].star]
    if len(layers) != 1:
        raise NotEditable(f"the line behind {where} does not call one layer of the image")
    _check_convolution(source, layers[0])
    _check_read_once(source, target, layers[0].args[0].value, following)
    begin, until = source.start(assign), source.start(following)
    if "#" in source.text[begin:until]:
        raise NotEditable(f"comments stand among the lines at {where}")
    return [
        Piece(begin, until, ""),
        Piece(source.start(layers[0]), source.end(layers[0]), _around(source, call, layers[0])),
    ]


def _check_read_once(source: Source, target: cst.Name, use: cst.CSTNode, following: cst.SimpleStatementLine) -> None:
    """Raise ``NotEditable`` where the enlarged image is read by something else than the layer."""
    around: cst.CSTNode = function_around(source, target) or source.module
    part = following.body[0] if len(following.body) == 1 else None
    again = isinstance(part, cst.Assign) and any(written(each.target) == target.value for each in part.targets)
    looped = source.in_loop(target) and not again
    for node in matchers.findall(around, matchers.Name(target.value)):
        outer = source.parent(node)
        attribute = isinstance(outer, cst.Attribute) and outer.attr is node
        keyword = isinstance(outer, cst.Arg) and outer.keyword is node
        if node is use or attribute or keyword or source.start(node) <= source.start(target):
            continue
        behind = source.start(node) > source.end(following)
        inside = source.start(following) <= source.start(node) <= source.end(following)
        own = inside and isinstance(outer, cst.AssignTarget)
        before = source.start(node) < source.start(following)
        if not (before or own or (behind and again)):
            raise NotEditable(f"{target.value} of {place(source, target)} is read elsewhere, too")
    if looped:
        raise NotEditable(f"{target.value} of {place(source, target)} may be read by the next turn of a loop")


def _read(source: Source, line: int) -> list[Piece]:
    """Return the pieces that write ``layer(x)[:, -1]`` as ``layer(x[:, -1])``."""
    for node in matchers.findall(source.module, matchers.Subscript()):
        if not isinstance(node, cst.Subscript) or not _covers(source, node, node, line):
            continue
        layer = node.value
        if not isinstance(layer, cst.Call) or len(layer.args) != 1:
            continue
        arg = layer.args[0]
        places = source.text[source.end(layer) : source.end(node)]
        if arg.star or arg.keyword is not None or not isinstance(arg.value, cst.Name | cst.Attribute):
            raise NotEditable(f"what {written(layer.func)} takes at {place(source, node)} is no plain name")
        if _LAST.fullmatch(re.sub(r"\s", "", places)) is None:
            raise NotEditable(f"what is read of {written(layer.func)} at {place(source, node)} is no single position")
        made = _made(source, layer)
        if not isinstance(made, cst.Call) or _LINEAR.fullmatch(source.name(made.func)) is None:
            raise NotEditable(f"whether {written(layer.func)} at {place(source, node)} is a Linear is not certain")
        end = source.end(arg.value)
        return [Piece(end, end, places), Piece(source.end(layer), source.end(node), "")]
    return []


def _made(source: Source, layer: cst.Call) -> cst.BaseExpression | None:
    """Return what the class, or the module, assigns once to the name of a layer."""
    name = written(layer.func)
    around = (class_around(source, layer) if name.startswith("self.") else None) or source.module
    given = [
        assign.value
        for assign in matchers.findall(around, matchers.Assign())
        if isinstance(assign, cst.Assign) and any(written(target.target) == name for target in assign.targets)
    ]
    return given[0] if len(given) == 1 else None


def _check_convolution(source: Source, layer: cst.Call) -> None:
    """Raise ``NotEditable`` unless a layer is a convolution whose kernel covers one position."""
    where, name, made = place(source, layer), written(layer.func), _made(source, layer)
    if not isinstance(made, cst.Call) or _CONVOLUTION.fullmatch(source.name(made.func)) is None:
        raise NotEditable(f"whether {name} at {where} is a convolution is not certain")
    kernel = value_of(source, made, "kernel_size", 2)
    if kernel is None or written(kernel) not in _ONE:
        raise NotEditable(f"the kernel of {name} at {where} covers more than one position")
    for option, (position, harmless) in _OTHER.items():
        value = value_of(source, made, option, position)
        if value is not None and written(value) not in harmless:
            raise NotEditable(f"{name} at {where} has {option}")


EDITS = (
    Edit(
        "layer-before-enlarging", "Run the layer where there are fewer positions", ("kernels/layer-on-enlarged",), _make
    ),
)

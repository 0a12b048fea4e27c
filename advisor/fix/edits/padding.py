"""Batches that a collate function pads to a fixed width: to their longest row instead."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import is_literal, place
from advisor.fix.code import functions, written
from advisor.fix.edit import Change, Edit, Request, changed, first_possible
from advisor.fix.edits.loader import NAMES
from advisor.fix.source import NotEditable, Piece, Source
from advisor.regex import regex

_FACTORIES = tuple(f"torch.{name}" for name in ("full", "zeros", "ones", "empty"))
_FIXED = regex(r"torch\.compile|jit\.script|torch\.export|onnx|mark_static|CUDAGraph")
"""Words of a file whose shapes may have to stay."""
_CONVERTED = regex(r"^\w+\.(?:tensor|as_tensor|from_numpy|LongTensor|FloatTensor)\((\w+)(?:,dtype=[\w.]+)?\)$")


def _make(request: Request) -> Iterator[Change]:
    sources = list(request.sources())
    for each in sources:
        if (match := _FIXED.search(each.text)) is not None:
            raise NotEditable(f"{each.path} has {match[0]}: whether widths may differ is not certain")
    found = [(source, function) for source in sources for function in functions(source) if _collates(sources, function)]
    because = "no function of the files that the finding names is given to a DataLoader as its collate_fn"
    yield from first_possible(found, _to_the_longest, because)


def _to_the_longest(source: Source, function: cst.FunctionDef) -> Change:
    what = f"padded to the longest row of each batch, {place(source, function.name)}"
    return changed(source, [_narrowed(source, function)], what)


def _collates(sources: Sequence[Source], function: cst.FunctionDef) -> bool:
    """Tell a function that a loader is given by its name, as collate_fn."""
    return any(
        arg.keyword is not None and arg.keyword.value == "collate_fn" and written(arg.value) == function.name.value
        for source in sources
        for call in source.calls(*NAMES)
        for arg in call.args
    )


def _narrowed(source: Source, function: cst.FunctionDef) -> Piece:
    """Return the piece that takes the length of the longest row for the width, where all rows are written one by one."""
    where, name = place(source, function.name), function.name.value
    if len(function.params.params) != 1:
        raise NotEditable(f"{name} at {where} takes more than the batch")
    batch = function.params.params[0].name.value
    tables = _tables(source, function, batch)
    loops = [loop for loop in function.body.body if isinstance(loop, cst.For)]
    filled = [one for loop in loops for one in _filled(loop, batch)]
    if not tables or {table for table, _, _ in filled} != set(tables):
        raise NotEditable(
            f"{name} at {where} does not make tables of a fixed width, and write all of their rows in a loop"
        )
    widths, rows = {written(width) for width in tables.values()}, {(row, item) for _, row, item in filled}
    if len(widths) != 1 or len(rows) != 1:
        raise NotEditable(f"{name} at {where} pads to several widths")
    row, item = rows.pop()
    width = next(iter(tables.values()))
    return _longest(source, function, width, f"max(len({row}) for {item} in {batch})", len(tables))


def _tables(source: Source, function: cst.FunctionDef, batch: str) -> dict[str, cst.BaseExpression]:
    """Return the widths of the tables that a function makes with a row for each sample, by the tables' names."""
    out = {}
    for assign in matchers.findall(function.body, matchers.Assign()):
        call = assign.value if isinstance(assign, cst.Assign) else None
        if (
            not isinstance(assign, cst.Assign)
            or not isinstance(call, cst.Call)
            or source.name(call.func) not in _FACTORIES
        ):
            continue
        sizes = [arg.value for arg in call.args if arg.keyword is None]
        if sizes and isinstance(sizes[0], cst.Tuple | cst.List):
            sizes = [element.value for element in sizes[0].elements]
        if len(sizes) == len(("rows", "width")) and written(sizes[0]) == f"len({batch})":
            out[written(assign.targets[0].target)] = sizes[1]
    return out


def _filled(loop: cst.For, batch: str) -> Iterator[tuple[str, str, str]]:
    """Yield the tables that a loop over the batch writes a row of, with the row that it writes and the loop's own names."""
    pairs = loop.target
    if written(loop.iter) != f"enumerate({batch})" or not isinstance(pairs, cst.Tuple) or len(pairs.elements) != 2:
        return
    count, item = (element.value for element in pairs.elements)
    for assign in matchers.findall(loop.body, matchers.Assign()):
        target = assign.targets[0].target if isinstance(assign, cst.Assign) else None
        if not isinstance(assign, cst.Assign) or not isinstance(target, cst.Subscript):
            continue
        match = re.fullmatch(r"(\w+)\[(\w+),:len\((\w+)\)\]", written(target))
        if match is None or match[2] != written(count):
            continue
        value = _CONVERTED.sub(r"\1", written(assign.value))
        own = {written(name) for name in matchers.findall(item, matchers.Name())}
        if match[3] in own and value in (match[3], "1", "True", "1.0"):
            yield match[1], match[3], cst.Module([]).code_for_node(item).strip("()")


def _longest(source: Source, function: cst.FunctionDef, width: cst.BaseExpression, text: str, tables: int) -> Piece:
    """Return the piece that gives a width the text: where a name of the function's holds it there, else where it stands."""
    where, name = place(source, function.name), function.name.value
    if isinstance(width, cst.Name):
        given = [
            assign
            for assign in matchers.findall(function.body, matchers.Assign())
            if isinstance(assign, cst.Assign) and written(assign.targets[0].target) == width.value
        ]
        if len(given) == 1 and isinstance(given[0], cst.Assign):
            value = given[0].value
            if not _is_constant(source, value):
                raise NotEditable(f"{name} at {where} pads to {source.code(value)}, which is no fixed number")
            return Piece(source.start(value), source.end(value), text)
        if given:
            raise NotEditable(f"{name} at {where} gives {width.value} more than one value")
    used = [node for node in matchers.findall(function, matchers.Name()) if written(node) == written(width)]
    if not _is_constant(source, width) or len(used) > 1 or tables > 1:
        raise NotEditable(
            f"{name} at {where} pads to {source.code(width)}: it is no fixed number, or used elsewhere, too"
        )
    return Piece(source.start(width), source.end(width), text)


def _is_constant(source: Source, value: cst.BaseExpression) -> bool:
    """Tell a number: as it stands there, or by a name that the module gives one once."""
    if isinstance(value, cst.Name):
        given = source.assigned(value.value)
        return len(given) == 1 and isinstance(given[0], cst.Integer)
    return isinstance(value, cst.Integer) and is_literal(value)


EDITS = (
    Edit(
        "longest-row",
        "Pad each batch to its longest row",
        ("cpu/padded-batches", "kernels/padded-batches"),
        _make,
        resizes=True,
    ),
)

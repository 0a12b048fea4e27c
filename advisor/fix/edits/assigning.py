"""Rows that loading code writes into a tensor element by element: one assignment of the whole row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import place
from advisor.fix.code import bindings, check_alone, class_around, function_around, names_of, written
from advisor.fix.edit import Change, Edit, Request, changed, first_possible
from advisor.fix.edits.loader import NAMES
from advisor.fix.source import NotEditable, Piece, Source
from advisor.regex import regex

_MADE = tuple(f"torch.{name}" for name in ("zeros", "ones", "full", "empty"))
_LOADING = ("__getitem__", "__getitems__", "__iter__", "__call__", "collate", "collate_fn")
"""Functions in which no gradient is kept: of data sets, and of what a loader calls."""
_SIZED = regex(r"\.(tolist|split)\([^()]*\)$|\[[^\[\]]*:[^\[\]]*\]$")
"""Calls that return a list, and slices."""
_REBOUND = regex(r"\b(?:len|list|enumerate|range)\s*=(?!=)|\b(?:def|class|as)\s+(?:len|list|enumerate|range)\b")
"""Names of Python's own that a file gives to something else."""
_DATASETS = ("torch.utils.data.Dataset", "torch.utils.data.IterableDataset", "torch.utils.data.dataset.Dataset")


def _make(request: Request) -> Iterator[Change]:
    sources = list(request.sources())
    loops = [
        (source, loop)
        for source in sources
        for loop in matchers.findall(source.module, matchers.For())
        if isinstance(loop, cst.For) and _loads(sources, source, loop)
    ]
    yield from first_possible(loops, _at_once, "no loading code of these files writes a tensor element by element")


def _loads(sources: Sequence[Source], source: Source, loop: cst.For) -> bool:
    """Tell code of a data set, or of a function that a loader is given to collate."""
    function = function_around(source, loop)
    if function is None:
        return False
    name = function.name.value
    owner = class_around(source, loop)
    if owner is not None:
        bases = [source.name(base.value) for base in owner.bases]
        return name in _LOADING and (any(base in _DATASETS for base in bases) or _is_given(sources, owner.name.value))
    return _is_given(sources, name)


def _is_given(sources: Sequence[Source], name: str) -> bool:
    """Tell what a loader is given as ``collate_fn``: by its name, or called there."""
    return any(
        arg.keyword is not None
        and arg.keyword.value == "collate_fn"
        and re.match(rf"{re.escape(name)}(\(.*\))?$", written(arg.value)) is not None
        for source in sources
        for call in source.calls(*NAMES)
        for arg in call.args
    )


def _at_once(source: Source, loop: cst.For) -> Change:
    return changed(source, [_row(source, loop)], f"a row at once in place of a loop, {place(source, loop)}")


def _row(source: Source, loop: cst.For) -> Piece:
    """Return the piece that writes ``for j, t in enumerate(row): x[i, j] = t`` as one assignment."""
    where = place(source, loop)
    target, value = _assignment(source, loop)
    count, row, given = _gone_through(source, loop, value)
    tensor, places = _picked(target, where, _counts(source, loop))
    own = names_of(loop.target)
    if (
        not places
        or places[-1] != count
        or any(re.search(rf"\b{name}\b|[(:]", each) for each in places[:-1] for name in own)
    ):
        raise NotEditable(f"the loop at {where} writes other places than its count's")
    depends = (
        re.search(rf"\b{count}\b", source.code(value)) is not None
        and given.startswith("[")
        and f"for {count} in" not in given
    )
    if re.search(rf"\b{re.escape(tensor.partition('.')[0])}\b", given) or depends or "super(" in given:
        raise NotEditable(f"what the loop at {where} writes depends on where it is written")
    _check_made(source, loop, tensor, len(places))
    check_alone(source, loop, own)
    if _REBOUND.search(source.text) or any(isinstance(outer, cst.Try) for outer in source.around(loop)):
        raise NotEditable(f"how the loop at {where} ends, or what len and list are there, is not certain")
    if "#" in source.text[source.start(loop) : source.end(loop)]:
        raise NotEditable(f"a comment stands in the loop at {where}")
    index = ", ".join([*places[:-1], f": len({row})"])
    text = f"{tensor}[{index}] = torch.as_tensor({given}, dtype={tensor}.dtype)"
    return Piece(source.start(loop), source.end(loop), text.replace("torch.", f"{_torch(source)}.", 1))


def _torch(source: Source) -> str:
    name = source.imported_as("torch")
    if name is None:
        raise NotEditable(f"{source.path} does not import torch at its head")
    return name


def _assignment(source: Source, loop: cst.For) -> tuple[cst.Subscript, cst.BaseExpression]:
    line = loop.body.body[0] if len(loop.body.body) == 1 else None
    if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
        line = line.body[0]
    if (
        not isinstance(line, cst.Assign)
        or len(line.targets) != 1
        or not isinstance(line.targets[0].target, cst.Subscript)
        or loop.orelse is not None
    ):
        raise NotEditable(f"the loop at {place(source, loop)} does more than to write elements")
    return line.targets[0].target, line.value


def _gone_through(source: Source, loop: cst.For, value: cst.BaseExpression) -> tuple[str, str, str]:
    """Return the loop's count, the row that it goes through, and the values of the row, as expressions."""
    where = place(source, loop)
    names = [written(element.value) for element in loop.target.elements] if isinstance(loop.target, cst.Tuple) else []
    head = loop.iter
    if (
        len(names) == len(("count", "item"))
        and isinstance(head, cst.Call)
        and source.name(head.func) == "builtins.enumerate"
    ):
        if len(head.args) != 1 or head.args[0].star or not all(name.isidentifier() for name in names):
            raise NotEditable(f"the loop at {where} does not count from 0")
        count, item = names
        row = source.code(head.args[0].value)
        if matchers.findall(head.args[0].value, matchers.Call() | matchers.NamedExpr()):
            raise NotEditable(f"{row} at {where} would be computed twice")
        if not _has_length(source, loop, head.args[0].value):
            raise NotEditable(f"whether {row} at {where} has a length is not certain")
        given = f"list({row})" if written(value) == item else f"[{source.code(value)} for {item} in {row}]"
        return count, row, given
    match = re.fullmatch(r"range\(len\(([\w.]+)\)\)", written(head))
    if match is None or not isinstance(loop.target, cst.Name):
        raise NotEditable(f"the loop at {where} goes through something else than one row")
    row, count = match[1], loop.target.value
    if written(value) != f"{row}[{count}]":
        raise NotEditable(f"the loop at {where} writes something else than the row")
    return count, row, f"[{row}[{count}] for {count} in range(len({row}))]"


def _has_length(source: Source, loop: cst.For, row: cst.BaseExpression) -> bool:
    """Tell a slice, a list, or a name that is a list's: by what it is given, or as what is asked for its length."""
    if isinstance(row, cst.Subscript):
        return any(isinstance(element.slice, cst.Slice) for element in row.slice) and len(row.slice) == 1
    function = function_around(source, loop)
    assert function is not None
    if not isinstance(row, cst.Name) or not _has_one_value(function, row.value):
        return False
    if f"len({row.value})" in written(function):
        return True
    given = _given(function, row.value)
    if given:
        return all(isinstance(value, cst.List | cst.ListComp) or _SIZED.search(written(value)) for value in given)
    return _fellows_have(source, loop, function, row.value)


def _has_one_value(function: cst.FunctionDef, name: str) -> bool:
    """Tell a name that a function gives a value once, or that only loops give theirs."""
    loops = sum(
        isinstance(loop, cst.For) and name in names_of(loop.target)
        for loop in matchers.findall(function, matchers.For())
    )
    others = bindings(function, name) - loops
    return others <= 1 and not (others and loops)


def _given(function: cst.FunctionDef, name: str) -> list[cst.BaseExpression]:
    return [
        assign.value
        for assign in matchers.findall(function, matchers.Assign())
        if isinstance(assign, cst.Assign) and any(written(target.target) == name for target in assign.targets)
    ]


def _fellows_have(source: Source, loop: cst.For, function: cst.FunctionDef, name: str) -> bool:
    """Tell a row of rows of which the function asks all for their length: ``max(len(x) for x in rows)``."""
    for outer in source.around(loop):
        if isinstance(outer, cst.For) and name in names_of(outer.target):
            rows = re.fullmatch(r"(?:enumerate\()?(\w+)\)?", written(outer.iter))
            return rows is not None and re.search(rf"len\((\w+)\)for\1in{rows[1]}\b", written(function)) is not None
    return False


def _counts(source: Source, loop: cst.For) -> set[str]:
    """Return the numbers that the loops around a loop count by."""
    out = set()
    for outer in source.around(loop):
        if isinstance(outer, cst.For) and written(outer.iter).startswith(("enumerate(", "range(")):
            first = outer.target.elements[0].value if isinstance(outer.target, cst.Tuple) else outer.target
            out.add(written(first))
    return out


def _picked(target: cst.Subscript, where: str, counts: set[str]) -> tuple[str, list[str]]:
    """Return the tensor, and the places in it, of ``x[i, j]`` or ``x[i][j]``, where no place is a slice."""
    places: list[str] = []
    at: cst.BaseExpression = target
    if isinstance(at.value, cst.Subscript) and not counts >= {written(index) for index in at.value.slice}:
        raise NotEditable(f"whether the loop at {where} writes into a part of a tensor is not certain")
    while isinstance(at, cst.Subscript):
        parts = [cst.Module([]).code_for_node(element.slice).strip() for element in at.slice]
        if any(not isinstance(element.slice, cst.Index) for element in at.slice):
            raise NotEditable(f"the loop at {where} writes more than elements")
        places = [*parts, *places]
        at = at.value
    return written(at), places


def _check_made(source: Source, loop: cst.For, tensor: str, places: int) -> None:
    """Raise ``NotEditable`` unless the function makes the tensor once, of as many dimensions as there are places."""
    function = function_around(source, loop)
    assert function is not None
    values = _given(function, tensor)
    value = values[0] if len(values) == 1 and bindings(function, tensor) == 1 else None
    where = place(source, loop)
    if not isinstance(value, cst.Call) or source.name(value.func) not in _MADE or "requires_grad" in source.code(value):
        raise NotEditable(f"whether {tensor} at {where} is a tensor is not certain")
    if _dimensions(source, value) != places:
        raise NotEditable(f"whether the loop at {where} writes single numbers is not certain")
    for inner in matchers.findall(function.body, matchers.FunctionDef() | matchers.Lambda()):
        if tensor in names_of(inner):
            raise NotEditable(f"{tensor} at {where} is read by a function inside")


def _dimensions(source: Source, value: cst.Call) -> int | None:
    """Return of how many dimensions a tensor is made; None where a name alone may be a tuple of sizes."""
    if any(arg.star for arg in value.args):
        return None
    sizes = [arg.value for arg in value.args if arg.keyword is None]
    if source.name(value.func) == "torch.full":
        sizes = sizes[:1]
    if len(sizes) != 1:
        return len(sizes)
    if isinstance(sizes[0], cst.Tuple | cst.List):
        return len(sizes[0].elements)
    return 1 if isinstance(sizes[0], cst.Integer) or written(sizes[0]).startswith("len(") else None


EDITS = (
    Edit(
        "elements-at-once",
        "Write whole rows of a tensor, not their elements",
        (
            "cpu/element-loop",
            "cpu/loader-wait",
            "cpu/separate-turns",
            "cpu/tiny-operators",
            "data-loading/single-process-loader",
            "data-loading/slow-collate-or-transform",
        ),
        _make,
        part=True,
    ),
)
